"""Creates, deletes and patches objects of the cluster."""
