"""Simulated Warboy and RNGD cards: the driver's files in /sys and /dev, furiosa-smi and furiosactl."""
