"""HTTPRequest: an HTTP request, and parts of its response."""
