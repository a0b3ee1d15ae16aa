"""NVIDIA GPUs: NVML where its library is, else the nvidia-smi tool."""
