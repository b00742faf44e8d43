"""Which functions there are, and which version or revision of one answers a request."""
