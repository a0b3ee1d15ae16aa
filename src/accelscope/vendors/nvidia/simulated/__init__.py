"""Simulated NVIDIA driver: its library, its tool and what they show."""
