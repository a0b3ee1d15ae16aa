"""Simulated fleets: clusters of thousands of nodes, with their API servers in one process."""
