"""Waits until objects of the cluster are as templates over them say."""
