"""The NVML source: survey and read, over a library that may come, go and be reloaded."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from accelscope.model import Reading
from accelscope.readers.contract import DeviceLost, DriverAbsent, Paths, Survey
from accelscope.readers.nvidia.nvml_binding import (
    DRIVER_NOT_LOADED,
    GPU_IS_LOST,
    RESET_REQUIRED,
    driver_error,
    load_binding,
)
from accelscope.readers.nvidia.nvml_device import NvmlDevice
from accelscope.readers.nvidia.nvml_events import XidCounter
from accelscope.readers.pci import DISPLAY_CLASS, pci_devices

PCI_CODES = (0x10DE, DISPLAY_CLASS)  # NVIDIA's vendor number, graphics and 3D controllers


class NvmlSource:
    """Keys are the driver's indices: everything else about a GPU needs a call to that GPU, which may hang,
    and so belongs into `read`."""

    name = "nvml"

    def __init__(self, paths: Paths, clock: Callable[[], float] = time.time) -> None:
        self._paths = paths
        self._clock = clock
        self._nvml: Any = None
        self._driver_version: str | None = None
        self._enumerated: object = None
        self._devices: dict[str, NvmlDevice] = {}
        self._count = 0
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
            if count != self._count:  # indices may have moved: identities are asked anew
                self._devices.clear()
                self._count = count
            return Survey(
                self.name, tuple(str(index) for index in range(count)), driver_version=self._driver_version
            )

    def read(self, key: str) -> Reading:
        with self._call():
            now, nvml = self._clock(), self._nvml
            try:
                device = self._devices.get(key) or self._open(key, now)
                return device.read(now, self._xids.counts(device.identity["id"]))
            except nvml.NVMLError as error:
                self._devices.pop(key, None)
                if error.value in (GPU_IS_LOST, RESET_REQUIRED):
                    reason = "lost" if error.value == GPU_IS_LOST else "reset_required"
                    raise DeviceLost(str(error), reason=reason) from None
                raise driver_error(error, f"GPU {key}") from None
            except DeviceLost:
                self._devices.pop(key, None)
                raise

    def close(self) -> None:
        with self._call():
            self._shut_down()

    def _open(self, key: str, now: float) -> NvmlDevice:
        device = NvmlDevice(self._nvml, int(key), self._driver_version, now)
        self._xids.watch(device.handle, device.identity["id"])
        self._devices[key] = device
        return device

    def _start(self) -> None:
        binding = load_binding(self._paths.nvml_library)
        try:
            binding.nvmlInit()
            self._driver_version = binding.nvmlSystemGetDriverVersion()
        except binding.NVMLError as error:
            if error.value == DRIVER_NOT_LOADED and pci_devices(self._paths.sys, *PCI_CODES) == ():
                raise DriverAbsent("the NVML library is here, but neither a driver nor a GPU") from None
            raise driver_error(error, "NVML does not start") from None
        self._nvml = binding
        self._enumerated = self._enumeration()
        self._xids.attach(binding)

    def _changed(self) -> bool:
        """NVML counts devices when it starts. That the driver has others now shows in its folder in /proc;
        that the library was replaced or removed, in the file."""
        return self._enumeration() != self._enumerated

    def _enumeration(self) -> object:
        shown: frozenset[str] | None
        try:
            status = Path(self._paths.nvml_library).stat()
            file = (status.st_ino, status.st_mtime_ns)
        except OSError:
            file = None  # gone, or a bare name that the loader looks up
        try:
            shown = frozenset(entry.name for entry in (self._paths.proc / "driver/nvidia/gpus").iterdir())
        except OSError:
            shown = None
        return (file, shown)

    def _shut_down(self) -> None:
        """Let go of the library, unless another call is still inside it."""
        with self._lock:
            binding, self._nvml = self._nvml, None
            busy = self._inside > 1
        self._devices.clear()
        if binding is not None and not busy:
            try:
                binding.nvmlShutdown()
            except binding.NVMLError:
                return  # it was not up any more, which is what was wanted

    @contextmanager
    def _call(self) -> Iterator[None]:
        with self._lock:
            self._inside += 1
        try:
            yield
        finally:
            with self._lock:
                self._inside -= 1
