"""What is looked for where NVIDIA GPUs may be."""
