"""MIG: the instances into which a GPU is cut."""

import re
from typing import Any

from accelscope.model import Partition, Vendor, device_id
from accelscope.readers.nvidia.nvml_ask import Ask
from accelscope.readers.nvidia.nvml_binding import INVALID_ARGUMENT, NOT_FOUND
from accelscope.readers.nvidia.nvml_gpm import Gpm

_PROFILE = re.compile(r"MIG (\S+)$")
_EMPTY_PLACE = (NOT_FOUND, INVALID_ARGUMENT)


class MigInstances:
    """Reads the instances anew at each reading: they are made and removed while the agent runs."""

    def __init__(self, binding: Any, handle: Any, ask: Ask) -> None:
        self._nvml = binding
        self._handle = handle
        self._ask = ask
        self._gpm: dict[int, Gpm] = {}

    def read(self) -> tuple[Partition, ...]:
        count = self._ask("partitions", "nvmlDeviceGetMaxMigDeviceCount", self._handle) or 0
        instances = []
        for index in range(count):
            try:
                handle = self._nvml.nvmlDeviceGetMigDeviceHandleByIndex(self._handle, index)
            except self._nvml.NVMLError as error:
                # NVML numbers all that could be; most places are empty. Any other answer hides an instance.
                if error.value not in _EMPTY_PLACE:
                    self._ask.refuse(f"partitions.{index}", error.value)
                continue
            instances.append((index, handle))
        partitions = []
        memory_counted: set[int] = set()
        for index, handle in instances:
            partition = self._partition(index, handle, memory_counted)
            if partition is not None:
                partitions.append(partition)
        for gone in self._gpm.keys() - memory_counted:
            del self._gpm[gone]
        return tuple(partitions)

    def _partition(self, index: int, handle: Any, memory_counted: set[int]) -> Partition | None:
        field = f"partitions.{index}"
        uuid = self._ask(f"{field}.uuid", "nvmlDeviceGetUUID", handle)
        gpu_instance = self._ask(f"{field}.gpu_instance_id", "nvmlDeviceGetGpuInstanceId", handle)
        if uuid is None or gpu_instance is None:
            return None  # removed while we looked
        compute_instance = self._ask(f"{field}.compute_instance_id", "nvmlDeviceGetComputeInstanceId", handle)
        attributes = self._ask(f"{field}.attributes", "nvmlDeviceGetAttributes_v2", handle)
        name = self._ask(f"{field}.profile", "nvmlDeviceGetName", handle) or ""
        profile = _PROFILE.search(name)
        first_of_instance = gpu_instance not in memory_counted
        memory_counted.add(gpu_instance)
        memory = None
        activity: dict[str, float] = {}
        if first_of_instance:
            memory = self._ask(f"{field}.memory", "nvmlDeviceGetMemoryInfo", handle)
            activity = self._activity(field, gpu_instance)
        return Partition(
            id=device_id(Vendor.NVIDIA, uuid=uuid),
            uuid=uuid,
            index=index,
            profile=profile[1] if profile else None,
            gpu_instance_id=gpu_instance,
            compute_instance_id=compute_instance,
            utilization_ratio=activity.get("graphics_active_ratio"),
            sm_active_ratio=activity.get("sm_active_ratio"),
            tensor_active_ratio=activity.get("tensor_active_ratio"),
            dram_active_ratio=activity.get("dram_active_ratio"),
            memory_total_bytes=memory.total if memory else None,
            memory_used_bytes=memory.used if memory else None,
            memory_free_bytes=memory.free if memory else None,
            multiprocessors=attributes.multiprocessorCount if attributes else None,
        )

    def _activity(self, field: str, gpu_instance: int) -> dict[str, float]:
        gpm = self._gpm.setdefault(gpu_instance, Gpm(self._nvml, self._handle, gpu_instance))
        try:
            return gpm.read()
        except self._nvml.NVMLError as error:
            self._ask.refuse(f"{field}.activity", error.value)
            return {}
