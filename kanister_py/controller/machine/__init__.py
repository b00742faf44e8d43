"""Infrastructure of all parts of the controller: queues, Leases, events, metrics and status."""
