"""Machine: watches, queues, Leases, conditions and events, for controllers of every kind."""
