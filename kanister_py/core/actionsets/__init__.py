"""ActionSets: models, creation, admission, the state machine of a run, and its status."""
