"""The NVML source: survey and read, over a library that may come, go and be reloaded."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from accelscope.model import Reading
from accelscope.readers.contract import DeviceLost, DriverAbsent, Paths, Survey
from accelscope.readers.nvidia.nvml_binding import (
    DRIVER_NOT_LOADED,
    GPU_IS_LOST,
    RESET_REQUIRED,
    driver_error,
    library_version,
    load_binding,
    unload,
)
from accelscope.readers.nvidia.nvml_device import NvmlDevice
from accelscope.readers.nvidia.nvml_events import XidCounter
from accelscope.readers.pci import DISPLAY_CLASS, pci_devices

PCI_CODES = (0x10DE, DISPLAY_CLASS)  # NVIDIA's vendor number, graphics and 3D controllers


class NvmlSource:
    """Keys are the driver's indices within one enumeration: everything else about a GPU needs a call to that
    GPU, which may hang, and so belongs into `read`. When the enumeration changes, so do all keys: an index
    may be another GPU's now."""

    name = "nvml"

    def __init__(self, paths: Paths, clock: Callable[[], float] = time.time) -> None:
        self._paths = paths
        self._clock = clock
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
        binding = load_binding(self._paths.nvml_library, self._spare)
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
