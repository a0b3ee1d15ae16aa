"""Whose a device and a process is: pure functions, and small sources of facts that may fail singly."""
