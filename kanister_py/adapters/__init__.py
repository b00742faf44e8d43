"""One technology behind each port: port_technology."""
