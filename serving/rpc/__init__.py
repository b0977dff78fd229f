"""The gRPC server and its services."""
