"""Simulated fleets: clusters of thousands of nodes, whose API servers one process answers for."""
