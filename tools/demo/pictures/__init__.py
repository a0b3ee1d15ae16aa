"""The README's pictures, taken of the running demo: `make pictures`."""
