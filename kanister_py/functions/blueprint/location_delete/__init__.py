"""LocationDelete: the deletion of objects of the Profile's store."""
