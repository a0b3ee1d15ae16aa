"""Where views come from: this node's drivers, agents, or a fleet."""
