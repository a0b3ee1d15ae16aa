"""The simulated AMD driver: its files, amd-smi and rocm-smi."""
