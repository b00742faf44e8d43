"""gRPC server of a composition function."""
