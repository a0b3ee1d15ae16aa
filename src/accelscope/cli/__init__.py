"""The command `accelscope` and its sub-commands."""
