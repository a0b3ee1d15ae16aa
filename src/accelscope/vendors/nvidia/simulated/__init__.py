"""Simulated NVIDIA driver: NVML library, nvidia-smi, and their state files."""
