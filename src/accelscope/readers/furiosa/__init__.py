"""FuriosaAI: Warboy and RNGD cards, from sysfs and hwmon, furiosa-smi and furiosactl."""
