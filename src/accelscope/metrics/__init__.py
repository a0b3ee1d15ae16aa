"""From a Snapshot to a Prometheus page: families as data (`catalogue`), one writer (`exposition`)."""
