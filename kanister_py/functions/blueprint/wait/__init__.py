"""Waits until objects of the cluster are as a blueprint wants them."""
