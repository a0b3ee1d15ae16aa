"""Readers: each turns one vendor's driver into devices. `registry` finds them."""
