"""XID errors: the driver tells of each once, through NVML's event set; here they become counters."""

import ctypes
from contextlib import suppress
from typing import Any

from accelscope.model import ErrorCount
from accelscope.readers.nvidia.nvml_binding import GPU_IS_LOST, TIMEOUT

_XID = 0x8  # event type of nvml.h
_MOST_AT_ONCE = 1000


class XidCounter:
    """Counts XIDs by device and code since the agent started. Polling never waits."""

    def __init__(self) -> None:
        self._nvml: Any = None
        self._set: Any = None
        self._devices: dict[int, str] = {}  # address of the handle -> Device.id
        self._counts: dict[str, dict[str, ErrorCount]] = {}

    def attach(self, binding: Any) -> None:
        """Begin with a freshly initialised library. Counts go on from where they were."""
        self._nvml = binding
        self._create_set()

    def _create_set(self) -> None:
        self._devices = {}
        try:
            self._set = self._nvml.nvmlEventSetCreate()
        except self._nvml.NVMLError:
            self._set = None  # a driver without events (vGPU guests): there are no XIDs to be had

    def watch(self, handle: Any, device: str) -> None:
        """At every reading: it is asked for events once, and again after others were lost."""
        address = _address(handle)
        if self._set is None or address in self._devices:
            return
        self._devices[address] = device
        try:
            if self._nvml.nvmlDeviceGetSupportedEventTypes(handle) & _XID:
                self._nvml.nvmlDeviceRegisterEvents(handle, _XID, self._set)
        except self._nvml.NVMLError:
            return  # this GPU has no events; the others do

    def opened_anew(self, handle: Any) -> None:
        """What was asked for when the GPU was open before is no longer so."""
        self._devices.pop(_address(handle), None)

    def poll(self, now: float) -> None:
        for _ in range(_MOST_AT_ONCE if self._set is not None else 0):
            try:
                event = self._nvml.nvmlEventSetWait_v2(self._set, 0)
            except self._nvml.NVMLError as error:
                if error.value == GPU_IS_LOST:
                    self._begin_anew()
                elif error.value != TIMEOUT:
                    self._set = None  # for good: until the library is initialised again
                return
            device = self._devices.get(_address(event.device))
            if device is not None and event.eventType & _XID:
                self._count(device, str(event.eventData), now)

    def _begin_anew(self) -> None:
        """With one of its GPUs gone, a set tells of no other any more. A new one does, when the others are
        next read: that one cannot be registered."""
        with suppress(self._nvml.NVMLError):
            self._nvml.nvmlEventSetFree(self._set)
        self._create_set()

    def counts(self, device: str) -> tuple[ErrorCount, ...]:
        return tuple(self._counts.get(device, {}).values())

    def _count(self, device: str, code: str, now: float) -> None:
        codes = self._counts.setdefault(device, {})
        before = codes.get(code)
        codes[code] = ErrorCount("xid", code, (before.count if before else 0) + 1, now)


def _address(handle: Any) -> int:
    return ctypes.cast(handle, ctypes.c_void_p).value or 0
