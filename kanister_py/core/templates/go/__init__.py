"""Go's text/template over Go's values."""
