"""Whose the devices are: what each source of attribution needs, and what could not be put down to a pod."""
