"""The wire format of composition functions, and its generated code."""
