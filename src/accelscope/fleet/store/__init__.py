"""Current data of the fleet: columns that are replaced node by node, and a feed of their changes."""
