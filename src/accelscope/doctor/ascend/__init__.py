"""Ascend: what must be there for npu-smi to answer."""
