"""Ways to see a cluster: agents, commands in driver pods, annotations of Node objects, a store of metrics."""
