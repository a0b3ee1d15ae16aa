"""What an agent makes of each vendor's simulated devices: readings of the node model as model objects."""
