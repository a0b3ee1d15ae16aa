"""Many clusters in one process: their nodes' snapshots as columns, served as REST and a live stream."""
