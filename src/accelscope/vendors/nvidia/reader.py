"""The NVIDIA reader: NVML if its library is installed, else nvidia-smi. Each survey checks that again."""

import ctypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from accelscope.model import ErrorCount, Reading, Vendor
from accelscope.vendors.common.contract import DeviceLost, DriverAbsent, ReaderError, ReaderOptions, Survey
from accelscope.vendors.common.files import DISPLAY_CLASS, pci_devices
from accelscope.vendors.common.tool import find_program
from accelscope.vendors.nvidia import NVIDIA_SMI, NVML_LIBRARY
from accelscope.vendors.nvidia.gpu import LOST_TEXT, RESET_TEXT
from accelscope.vendors.nvidia.nvml_device import NvmlDevice
from accelscope.vendors.nvidia.nvml_library import (
    DRIVER_NOT_LOADED,
    GPU_IS_LOST,
    RESET_REQUIRED,
    TIMEOUT,
    driver_error,
    library_version,
    load_binding,
    unload,
)

if TYPE_CHECKING:
    from accelscope.vendors.nvidia.smi import SmiSource


# --- NVML -----------------------------------------------------------------
# Surveys and readings through a library that may be removed or replaced at any time.


PCI_CODES = (0x10DE, DISPLAY_CLASS)  # NVIDIA's vendor id; graphics and 3D controllers

_XID_EVENT = 0x8  # nvmlEventTypeXidCriticalError of nvml.h
_MAX_EVENTS_PER_POLL = 1000
_XID_OFF_THE_BUS = "79"


class XidCounter:
    """Counts XIDs by device and code since the agent started. NVML reports each XID once, as an event."""

    def __init__(self) -> None:
        self._nvml: Any = None
        self._set: Any = None
        self._devices: dict[int, str] = {}  # address of the handle -> Device.id
        self._counts: dict[str, dict[str, ErrorCount]] = {}

    def attach(self, binding: Any) -> None:
        """Use a newly initialised library. The counts continue."""
        self._nvml = binding
        self._create_set()

    def _create_set(self) -> None:
        self._devices = {}
        try:
            self._set = self._nvml.nvmlEventSetCreate()
        except self._nvml.NVMLError:
            self._set = None  # a driver without events, as in vGPU guests, reports no XIDs

    def watch(self, handle: Any, device: str) -> None:
        """Register the device for events, unless it is registered. Called at every reading, because a new
        event set has no devices."""
        address = _address(handle)
        if self._set is None or address in self._devices:
            return
        self._devices[address] = device
        try:
            if self._nvml.nvmlDeviceGetSupportedEventTypes(handle) & _XID_EVENT:
                self._nvml.nvmlDeviceRegisterEvents(handle, _XID_EVENT, self._set)
        except self._nvml.NVMLError:
            return  # this GPU has no events; others may

    def unwatch(self, handle: Any) -> None:
        """Register the device again at its next reading: it was reopened."""
        self._devices.pop(_address(handle), None)

    def poll(self, now: float) -> None:
        """Count the pending events, without waiting."""
        for _ in range(_MAX_EVENTS_PER_POLL if self._set is not None else 0):
            try:
                event = self._nvml.nvmlEventSetWait_v2(self._set, 0)
            except self._nvml.NVMLError as error:
                if error.value == GPU_IS_LOST:
                    self._replace_set()
                elif error.value != TIMEOUT:
                    self._set = None  # until the library is initialised again
                return
            device = self._devices.get(_address(event.device))
            if device is not None and event.eventType & _XID_EVENT:
                self._count(device, str(event.eventData), now)

    def _replace_set(self) -> None:
        """A set with a lost GPU reports no more events. The other GPUs join the new set at their next
        reading; the lost one cannot be registered."""
        with suppress(self._nvml.NVMLError):
            self._nvml.nvmlEventSetFree(self._set)
        self._create_set()

    def counts(self, device: str) -> tuple[ErrorCount, ...]:
        return tuple(self._counts.get(device, {}).values())

    def _count(self, device: str, code: str, now: float) -> None:
        codes = self._counts.setdefault(device, {})
        previous = codes.get(code)
        codes[code] = ErrorCount("xid", code, (previous.count if previous else 0) + 1, now)


def _address(handle: Any) -> int:
    return ctypes.cast(handle, ctypes.c_void_p).value or 0


class NvmlSource:
    """Keys are `ENUMERATION.INDEX`. The index is all that is known of a GPU without a call to it, and such a
    call may hang, so it belongs in `read`. All keys change when the enumeration changes, because an index may
    then refer to another GPU."""

    name = "nvml"

    def __init__(self, options: ReaderOptions) -> None:
        self._paths = options.paths
        self._library = options.value(NVML_LIBRARY)
        self._clock = options.clock
        self._nvml: Any = None
        self._spare: Any = None  # the binding of an unloaded library
        self._driver_version: str | None = None
        self._fingerprint: object = None
        self._devices: dict[str, NvmlDevice] = {}
        self._ids: dict[str, str] = {}  # key -> Device.id; kept when a device fails
        self._count = 0
        self._enumeration = 0
        self._kernel_gpus: frozenset[str] | None = None  # PCI addresses in the driver's /proc folder
        self._xids = XidCounter()
        self._running = 0  # calls, including abandoned ones: the library stays loaded while there are any
        self._lock = threading.Lock()

    def survey(self) -> Survey:
        with self._call():
            if self._nvml is not None and self._take_fingerprint() != self._fingerprint:
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
                self._start_enumeration()
                self._count = count
            return Survey(
                self.name,
                tuple(f"{self._enumeration}.{index}" for index in range(count)),
                driver_version=self._driver_version,
                expected=len(self._kernel_gpus or ()),
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
                if error.value == GPU_IS_LOST:
                    raise self._device_lost(key, "lost") from None
                if error.value == RESET_REQUIRED:
                    raise self._device_lost(key, "reset_required") from None
                raise driver_error(error, f"GPU {_index(key)}") from None
            except DeviceLost as error:
                self._devices.pop(key, None)
                raise self._device_lost(key, error.reason) from None

    def close(self) -> None:
        with self._call():
            self._shut_down()

    def _open(self, key: str) -> NvmlDevice:
        device = NvmlDevice(self._nvml, _index(key), self._driver_version, self._paths.sys)
        self._xids.unwatch(device.handle)
        self._devices[key] = device
        self._ids[key] = device.id
        return device

    def _device_lost(self, key: str, reason: str) -> DeviceLost:
        if reason == "reset_required":
            return DeviceLost(RESET_TEXT, reason=reason)
        codes = {error.code for error in self._xids.counts(self._ids.get(key, ""))}
        xid = f" (XID {_XID_OFF_THE_BUS})" if _XID_OFF_THE_BUS in codes else ""
        return DeviceLost(f"{LOST_TEXT}{xid}", reason=reason)

    def _start(self) -> None:
        binding = load_binding(self._library, self._spare)
        self._spare = None
        try:
            binding.nvmlInit()
            self._driver_version = binding.nvmlSystemGetDriverVersion()
        except binding.NVMLError as error:
            self._release(binding)
            if error.value == DRIVER_NOT_LOADED and pci_devices(self._paths.sys, *PCI_CODES) == ():
                raise DriverAbsent("NVML library found, but no driver and no GPU") from None
            raise driver_error(error, "cannot initialise NVML") from None
        self._nvml = binding
        self._fingerprint = self._take_fingerprint()
        self._xids.attach(binding)

    def _take_fingerprint(self) -> object:
        """The library's file and the driver's GPUs in /proc. NVML enumerates the GPUs only when it is
        initialised, so a change of either means that it must be initialised again."""
        try:
            self._kernel_gpus = frozenset(
                entry.name for entry in (self._paths.proc / "driver/nvidia/gpus").iterdir()
            )
        except (FileNotFoundError, NotADirectoryError):
            self._kernel_gpus = None
        except OSError:
            pass  # out of file descriptors: keep the last list
        return library_version(self._nvml), self._kernel_gpus

    def _start_enumeration(self) -> None:
        self._devices.clear()
        self._ids.clear()
        self._enumeration += 1

    def _shut_down(self) -> None:
        """Unload the library, unless another call is still running in it."""
        with self._lock:
            binding, self._nvml = self._nvml, None
            busy = self._running > 1
        self._start_enumeration()
        if binding is None or busy:
            return
        with suppress(binding.NVMLError):  # already shut down
            binding.nvmlShutdown()
        self._release(binding)

    def _release(self, binding: Any) -> None:
        unload(binding)
        self._spare = binding

    @contextmanager
    def _call(self) -> Iterator[None]:
        with self._lock:
            self._running += 1
        try:
            yield
        finally:
            with self._lock:
                self._running -= 1


def _index(key: str) -> int:
    return int(key.rpartition(".")[2])


# --- reader ---------------------------------------------------------------


_NVML_UNAVAILABLE = frozenset({"driver_absent", "library_unusable", "binding_missing"})


class NvidiaReader:
    def __init__(self, options: ReaderOptions) -> None:
        self._options = options
        self._nvml = NvmlSource(options)
        self._smi: SmiSource | None = None
        self._source: NvmlSource | SmiSource = self._nvml

    @property
    def vendor(self) -> Vendor:
        return Vendor("nvidia")

    def survey(self) -> Survey:
        try:
            survey = self._nvml.survey()
        except ReaderError as error:
            tool = find_program(self._options.value(NVIDIA_SMI))
            if error.reason not in _NVML_UNAVAILABLE or tool is None:
                if isinstance(error, DriverAbsent):
                    raise DriverAbsent(f"{error}; nvidia-smi not found") from None
                raise
            return self._survey_with_tool()
        self._source = self._nvml
        return survey

    def read(self, key: str) -> Reading:
        return self._source.read(key)

    def close(self) -> None:
        self._nvml.close()

    def _survey_with_tool(self) -> Survey:
        # Imported here because the parsers cost 2 MiB that nodes with NVML do not need.
        from accelscope.vendors.nvidia.smi import SmiSource  # noqa: PLC0415

        if self._smi is None:
            self._smi = SmiSource(self._options)
        self._source = self._smi
        try:
            return self._smi.survey()
        except ReaderError as error:
            if error.reason == "driver_not_loaded" and pci_devices(self._options.paths.sys, *PCI_CODES) == ():
                raise DriverAbsent("nvidia-smi found, but no driver and no GPU") from None
            raise


def open_reader(options: ReaderOptions) -> NvidiaReader:
    return NvidiaReader(options)
