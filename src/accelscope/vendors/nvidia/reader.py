"""The NVIDIA reader: NVML if its library is installed, else nvidia-smi. Each survey checks that again."""

from typing import TYPE_CHECKING

from accelscope.model import Reading, Vendor
from accelscope.vendors.common.contract import DriverAbsent, ReaderError, ReaderOptions, Survey
from accelscope.vendors.common.files import pci_devices
from accelscope.vendors.common.tool import find_program
from accelscope.vendors.nvidia import NVIDIA_SMI
from accelscope.vendors.nvidia.nvml import PCI_CODES, NvmlSource

if TYPE_CHECKING:
    from accelscope.vendors.nvidia.smi import SmiSource

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
