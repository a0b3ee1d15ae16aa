"""Snapshots carried out to the Node object: annotations, labels, a feature file.

A sink runs in a thread of its own and keeps only the newest snapshot, so that nothing it waits for delays a
collection.
"""
