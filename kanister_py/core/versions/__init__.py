"""What a version is, what the record of versions says, and what a release makes of it."""
