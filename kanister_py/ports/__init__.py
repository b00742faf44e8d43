"""What the outside offers, as protocols."""
