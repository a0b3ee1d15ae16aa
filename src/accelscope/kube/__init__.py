"""Kubernetes: decoding without I/O, and thin transports. Knows no other package but the file watch."""
