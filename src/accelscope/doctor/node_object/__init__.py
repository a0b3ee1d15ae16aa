"""The area of what the agent writes to the Node object."""
