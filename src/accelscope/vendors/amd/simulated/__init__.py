"""AMD's driver and tools, simulated."""
