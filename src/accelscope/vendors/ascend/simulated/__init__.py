"""The simulated Ascend driver: npu-smi in its layouts, device files and the PCI bus."""
