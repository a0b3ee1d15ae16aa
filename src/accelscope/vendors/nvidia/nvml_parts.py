"""Parts of a GPU's reading through NVML: GPM samples, MIG partitions, NVLinks and memory errors."""

import math
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from accelscope.model import (
    EccCount,
    Link,
    LinkErrors,
    Partition,
    RemappedRows,
    Vendor,
    device_id,
    pci_address,
)
from accelscope.vendors.nvidia.nvml_library import (
    INVALID_ARGUMENT,
    NOT_FOUND,
    TRANSIENT,
    NvmlCaller,
    decode_text,
)

# GPM, the profiling counters of Hopper and later cards: metric ids of nvml.h -> fields of Device and Pcie.
ACTIVITY = {
    1: "graphics_active_ratio",
    2: "sm_active_ratio",
    3: "sm_occupancy_ratio",
    5: "tensor_active_ratio",
    10: "dram_active_ratio",
    11: "fp64_active_ratio",
    12: "fp32_active_ratio",
    13: "fp16_active_ratio",
}
PCIE = {20: "transmit_bytes_per_second", 21: "receive_bytes_per_second"}
_MIB = 2**20


class Gpm:
    """GPM values of one GPU or of one of its GPU instances. Each value is the change between two samples."""

    def __init__(self, binding: Any, handle: Any, gpu_instance_id: int | None = None) -> None:
        self._nvml = binding
        self._handle = handle
        self._instance = gpu_instance_id
        self._previous: Any = None
        self._spare: Any = None  # an allocated sample that can be overwritten

    def read(self) -> dict[str, float]:
        """Field -> value since the last reading; empty at the first. Raises the binding's NVMLError."""
        sample = self._spare or self._nvml.nvmlGpmSampleAlloc()
        self._spare = None
        try:
            if self._instance is None:
                self._nvml.nvmlGpmSampleGet(self._handle, sample)
            else:
                self._nvml.nvmlGpmMigSampleGet(self._handle, self._instance, sample)
        except self._nvml.NVMLError:
            self._spare = sample
            raise
        previous, self._previous = self._previous, sample
        if previous is None:
            return {}
        self._spare = previous
        return self._compare(previous, sample)

    def _compare(self, first: Any, second: Any) -> dict[str, float]:
        metrics = (*ACTIVITY, *PCIE)
        request = self._nvml.c_nvmlGpmMetricsGet_t()
        request.version = self._nvml.NVML_GPM_METRICS_GET_VERSION
        request.numMetrics = len(metrics)
        request.sample1, request.sample2 = first, second
        for position, metric in enumerate(metrics):
            request.metrics[position].metricId = metric
        self._nvml.nvmlGpmMetricsGet(request)
        values = {}
        for position, metric in enumerate(metrics):
            result = request.metrics[position]
            if result.nvmlReturn != 0 or not math.isfinite(result.value):
                continue
            if metric in ACTIVITY:
                values[ACTIVITY[metric]] = round(result.value / 100, 6)  # finer than any card measures
            else:
                values[PCIE[metric]] = result.value * _MIB
        return values

    def __del__(self) -> None:
        """Free the samples, which NVML allocated. An unloaded library has freed them already."""
        if self._nvml.nvmlLib is None:
            return
        for sample in (self._previous, self._spare):
            if sample is not None:
                with suppress(self._nvml.NVMLError):
                    self._nvml.nvmlGpmSampleFree(sample)


_MIG_PROFILE = re.compile(r"MIG (\S+)$")
_EMPTY_SLOT = (NOT_FOUND, INVALID_ARGUMENT)


class MigInstances:
    """The MIG instances of a GPU. They are listed at each reading, since users create and remove them."""

    def __init__(self, binding: Any, handle: Any, call: NvmlCaller) -> None:
        self._nvml = binding
        self._handle = handle
        self._call = call
        self._gpm: dict[int, Gpm] = {}

    def read(self) -> tuple[Partition, ...]:
        count = self._call("partitions", "nvmlDeviceGetMaxMigDeviceCount", self._handle) or 0
        instances = []
        for index in range(count):
            try:
                handle = self._nvml.nvmlDeviceGetMigDeviceHandleByIndex(self._handle, index)
            except self._nvml.NVMLError as error:
                # Most slots are empty. Any other error hides an instance.
                if error.value not in _EMPTY_SLOT:
                    self._call.record_code(f"partitions.{index}", error.value)
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
        uuid = self._call(f"{field}.uuid", "nvmlDeviceGetUUID", handle)
        gpu_instance = self._call(f"{field}.gpu_instance_id", "nvmlDeviceGetGpuInstanceId", handle)
        if uuid is None or gpu_instance is None:
            return None  # removed in the meantime
        compute_instance = self._call(
            f"{field}.compute_instance_id", "nvmlDeviceGetComputeInstanceId", handle
        )
        attributes = self._call(f"{field}.attributes", "nvmlDeviceGetAttributes_v2", handle)
        name = self._call(f"{field}.profile", "nvmlDeviceGetName", handle) or ""
        profile = _MIG_PROFILE.search(name)
        first_of_instance = gpu_instance not in memory_counted
        memory_counted.add(gpu_instance)
        memory = None
        activity: dict[str, float] = {}
        if first_of_instance:
            memory = self._call(f"{field}.memory", "nvmlDeviceGetMemoryInfo", handle)
            activity = self._activity(field, gpu_instance)
        return Partition(
            id=device_id(Vendor("nvidia"), uuid=uuid),
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
            self._call.record_code(f"{field}.activity", error.value)
            return {}


# NVLink field ids of nvml.h; the scope is the link. All are read with the device's one batched call.
_TRANSMIT_KIB = 138
_RECEIVE_KIB = 139
_STATE = 165
_ERROR_FIELDS = {161: "dl_replay", 162: "dl_recovery", 163: "dl_crc"}
_SPEED_MBPS = 90  # the same for all links of a device: no scope
# Cards before Hopper have only these counters, each read with its own call.
_ERROR_COUNTERS = {0: "dl_replay", 1: "dl_recovery", 2: "crc_flit", 3: "crc_data"}
_MAX_LINKS = 36  # a driver that supports fewer returns an error for the others
_ACTIVE = 1
_KIB = 1024


class NvLinks:
    """State, traffic and errors of a GPU's NVLinks."""

    def __init__(self, handle: Any, call: NvmlCaller) -> None:
        self._handle = handle
        self._call = call
        self._count: int | None = None
        self._remotes: dict[int, str | None] = {}
        # The last active state of each link: its counters must not fall when the link goes down.
        self._last: dict[int, Link] = {}

    def wanted_fields(self) -> list[tuple[int, int]]:
        """(field id, scope) of the values that `read` needs."""
        if self._count is None:
            self._count = self._count_links()
        if not self._count:
            return []
        per_link = (_STATE, _TRANSMIT_KIB, _RECEIVE_KIB, *_ERROR_FIELDS)
        return [(_SPEED_MBPS, 0), *((number, link) for link in range(self._count) for number in per_link)]

    def read(self, fields: Mapping[tuple[int, int], float]) -> tuple[Link, ...]:
        return tuple(self._link(index, fields) for index in range(self._count or 0))

    def _count_links(self) -> int | None:
        """The number of links, which never changes while the driver is loaded. None: not known yet."""
        for index in range(_MAX_LINKS):
            if self._state(index) is None:
                reason = self._call.discard(f"links.{index}")
                if reason in TRANSIENT:
                    self._call.record("links", reason)
                    return None
                return index
        return _MAX_LINKS

    def _state(self, index: int) -> int | None:
        state: int | None = self._call(f"links.{index}", "nvmlDeviceGetNvLinkState", self._handle, index)
        return state

    def _link(self, index: int, fields: Mapping[tuple[int, int], float]) -> Link:
        state = fields.get((_STATE, index))
        if state is None:
            state = self._state(index)
        if state != _ACTIVE:
            last = self._last.get(index, Link("nvlink", index))
            return replace(last, active=None if state is None else False, bytes_per_second=None)
        speed = fields.get((_SPEED_MBPS, 0))
        transmitted = fields.get((_TRANSMIT_KIB, index))
        received = fields.get((_RECEIVE_KIB, index))
        link = Link(
            "nvlink",
            index,
            active=True,
            remote=self._remote(index),
            bytes_per_second=speed * 1e6 if speed else None,
            transmit_bytes_total=None if transmitted is None else transmitted * _KIB,
            receive_bytes_total=None if received is None else received * _KIB,
            errors=self._errors(index, fields),
        )
        self._last[index] = link
        return link

    def _remote(self, index: int) -> str | None:
        if index not in self._remotes:
            info = self._call(
                f"links.{index}.remote", "nvmlDeviceGetNvLinkRemotePciInfo", self._handle, index
            )
            self._remotes[index] = None if info is None else pci_address(decode_text(info.busId))
        return self._remotes[index]

    def _errors(self, index: int, fields: Mapping[tuple[int, int], float]) -> tuple[LinkErrors, ...]:
        counts = {name: fields.get((number, index)) for number, name in _ERROR_FIELDS.items()}
        errors = [LinkErrors(name, int(count)) for name, count in counts.items() if count is not None]
        if errors:
            return tuple(errors)
        for counter, name in _ERROR_COUNTERS.items():
            # The absence is recorded once for all links: it depends on the card.
            count = self._call(
                f"links.errors.{name}", "nvmlDeviceGetNvLinkErrorCounter", self._handle, index, counter
            )
            if count is not None:
                errors.append(LinkErrors(name, count))
        return tuple(errors)


_SEVERITIES = {0: "corrected", 1: "uncorrected"}
_BLOCKS = {1: "l2_cache", 2: "dram", 3: "register_file", 7: "sram"}
_PAGE_CAUSES = {0: "corrected", 1: "uncorrected"}  # multiple single-bit errors, one double-bit error


class MemoryErrors:
    """ECC counts, remapped rows and retired pages of a GPU."""

    def __init__(self, handle: Any, call: NvmlCaller) -> None:
        self._handle = handle
        self._call = call
        self._blocks: dict[str, tuple[int, dict[str, int]]] = {}  # total when they were read, counts

    def ecc_mode(self) -> bool | None:
        mode = self._call("ecc_enabled", "nvmlDeviceGetEccMode", self._handle)
        return None if mode is None else bool(mode[0])

    def ecc(self) -> tuple[EccCount, ...]:
        counts = []
        for lifetime in (False, True):
            for number, severity in _SEVERITIES.items():
                field = f"ecc.{severity}.{'lifetime' if lifetime else 'volatile'}"
                total = self._call(field, "nvmlDeviceGetTotalEccErrors", self._handle, number, int(lifetime))
                if total is None:
                    continue
                counts.append(EccCount(severity, lifetime, total))
                # The total is the sum of the blocks: they are read again when it changes.
                known_total, blocks = self._blocks.get(field, (None, {}))
                if known_total != total:
                    blocks = {}
                    self._blocks[field] = total, blocks
                for location, block in _BLOCKS.items():
                    if block not in blocks:
                        part = self._call(
                            f"{field}.{block}",
                            "nvmlDeviceGetMemoryErrorCounter",
                            self._handle,
                            number,
                            int(lifetime),
                            location,
                        )
                        if part is None:
                            continue
                        blocks[block] = part
                    counts.append(EccCount(severity, lifetime, blocks[block], block))
        return tuple(counts)

    def remapped_rows(self) -> RemappedRows | None:
        rows = self._call("remapped_rows", "nvmlDeviceGetRemappedRows", self._handle)
        if rows is None:
            return None
        correctable, uncorrectable, pending, failed = rows
        return RemappedRows(correctable, uncorrectable, bool(pending), bool(failed))

    def retired_pages(self) -> tuple[EccCount, ...]:
        counts = []
        for cause, severity in _PAGE_CAUSES.items():
            pages = self._call(f"retired_pages.{severity}", "nvmlDeviceGetRetiredPages", self._handle, cause)
            if pages is not None:
                counts.append(EccCount(severity, lifetime=True, count=len(pages)))
        return tuple(counts)
