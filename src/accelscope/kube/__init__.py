"""Kubernetes: requests and decoding without I/O, and thin transports. Knows no other package."""
