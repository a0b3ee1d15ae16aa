"""Reads all clusters: each source of each cluster has its own task, so that none waits for another."""
