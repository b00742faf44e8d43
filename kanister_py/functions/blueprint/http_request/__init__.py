"""HTTPRequest: a request over HTTP, and parts of its answer."""
