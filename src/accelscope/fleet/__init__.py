"""Many clusters in one process: their nodes' snapshots as columns, answered as REST and a live stream."""
