"""Plays the demo's incident through Prometheus and Alertmanager: `make incident` prints the notifications."""
