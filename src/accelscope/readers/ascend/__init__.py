"""Huawei Ascend NPUs, through the driver's npu-smi."""
