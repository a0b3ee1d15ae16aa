"""What the fleet knows now: columns, replaced node by node, and what changed in them."""
