"""The NVML source: survey and read, over a library that may come, go and be reloaded."""

import ctypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from accelscope.model import ErrorCount, Reading
from accelscope.vendors.common.contract import DeviceLost, DriverAbsent, ReaderOptions, Survey
from accelscope.vendors.common.files import DISPLAY_CLASS, pci_devices
from accelscope.vendors.nvidia import NVML_LIBRARY
from accelscope.vendors.nvidia.nvml_binding import (
    DRIVER_NOT_LOADED,
    GPU_IS_LOST,
    RESET_REQUIRED,
    TIMEOUT,
    driver_error,
    library_version,
    load_binding,
    unload,
)
from accelscope.vendors.nvidia.nvml_device import NvmlDevice

# XID errors: the driver tells of each once, through NVML's event set; here they become counters.

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


PCI_CODES = (0x10DE, DISPLAY_CLASS)  # NVIDIA's vendor number, graphics and 3D controllers


class NvmlSource:
    """Keys are the driver's indices within one enumeration: everything else about a GPU needs a call to that
    GPU, which may hang, and so belongs into `read`. When the enumeration changes, so do all keys: an index
    may be another GPU's now."""

    name = "nvml"

    def __init__(self, options: ReaderOptions) -> None:
        self._paths = options.paths
        self._library = options.value(NVML_LIBRARY)
        self._clock = options.clock
        self._nvml: Any = None
        self._spare: Any = None  # the binding of a library that was let go of
        self._driver_version: str | None = None
        self._seen: object = None
        self._devices: dict[str, NvmlDevice] = {}
        self._count = 0
        self._enumeration = 0
        self._shown: frozenset[str] | None = None
        self._xids = XidCounter()
        self._inside = 0  # calls under way, abandoned ones included: the library stays open under them
        self._lock = threading.Lock()

    def survey(self) -> Survey:
        with self._call():
            if self._nvml is not None and self._changed():
                self._shut_down()
            if self._nvml is None:
                self._start()
            try:
                count = self._nvml.nvmlDeviceGetCount()
                self._xids.poll(self._clock())
            except self._nvml.NVMLError as error:
                self._shut_down()
                raise driver_error(error, "NVML") from None
            if count != self._count:
                self._forget_devices()
                self._count = count
            return Survey(
                self.name,
                tuple(f"{self._enumeration}.{index}" for index in range(count)),
                driver_version=self._driver_version,
                expected=len(self._shown or ()),
            )

    def read(self, key: str) -> Reading:
        with self._call():
            now, nvml = self._clock(), self._nvml
            try:
                device = self._devices.get(key) or self._open(key)
                self._xids.watch(device.handle, device.id)
                return device.read(now, self._xids.counts(device.id))
            except nvml.NVMLError as error:
                self._devices.pop(key, None)
                if error.value in (GPU_IS_LOST, RESET_REQUIRED):
                    reason = "lost" if error.value == GPU_IS_LOST else "reset_required"
                    raise DeviceLost(str(error), reason=reason) from None
                raise driver_error(error, f"GPU {_index(key)}") from None
            except DeviceLost:
                self._devices.pop(key, None)
                raise

    def close(self) -> None:
        with self._call():
            self._shut_down()

    def _open(self, key: str) -> NvmlDevice:
        device = NvmlDevice(self._nvml, _index(key), self._driver_version, self._paths.sys)
        self._xids.opened_anew(device.handle)
        self._devices[key] = device
        return device

    def _start(self) -> None:
        binding = load_binding(self._library, self._spare)
        self._spare = None
        try:
            binding.nvmlInit()
            self._driver_version = binding.nvmlSystemGetDriverVersion()
        except binding.NVMLError as error:
            self._release(binding)
            if error.value == DRIVER_NOT_LOADED and pci_devices(self._paths.sys, *PCI_CODES) == ():
                raise DriverAbsent("the NVML library is here, but neither a driver nor a GPU") from None
            raise driver_error(error, "NVML does not start") from None
        self._nvml = binding
        self._seen = self._look()
        self._xids.attach(binding)

    def _changed(self) -> bool:
        """NVML counts devices when it starts. That the driver has others now shows in its folder in /proc;
        that the library was replaced or removed, in the file."""
        return self._look() != self._seen

    def _look(self) -> object:
        try:
            self._shown = frozenset(
                entry.name for entry in (self._paths.proc / "driver/nvidia/gpus").iterdir()
            )
        except (FileNotFoundError, NotADirectoryError):
            self._shown = None
        except OSError:
            pass  # no descriptor is free: nothing was seen to change
        return library_version(self._nvml), self._shown

    def _forget_devices(self) -> None:
        self._devices.clear()
        self._enumeration += 1

    def _shut_down(self) -> None:
        """Let go of the library, unless another call is still inside it."""
        with self._lock:
            binding, self._nvml = self._nvml, None
            busy = self._inside > 1
        self._forget_devices()
        if binding is None or busy:
            return
        with suppress(binding.NVMLError):  # it was not up any more, which is what was wanted
            binding.nvmlShutdown()
        self._release(binding)

    def _release(self, binding: Any) -> None:
        unload(binding)
        self._spare = binding

    @contextmanager
    def _call(self) -> Iterator[None]:
        with self._lock:
            self._inside += 1
        try:
            yield
        finally:
            with self._lock:
                self._inside -= 1


def _index(key: str) -> int:
    return int(key.rpartition(".")[2])
