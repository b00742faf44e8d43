"""Adapters: one technology behind each port, named port_technology."""
