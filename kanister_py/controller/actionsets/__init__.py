"""Controller for ActionSets: starts, resumes and reports their runs, and cleans up after them."""
