"""The Ascend reader. It checks whether the node has Ascend chips before it loads the code that reads them."""

from accelscope.model import Vendor
from accelscope.vendors.ascend import NPU_SMI
from accelscope.vendors.common.contract import DriverAbsent, LazyReader, Paths, ReaderOptions, ReaderSource
from accelscope.vendors.common.files import entries
from accelscope.vendors.common.tool import find_program

DEVICE_FILE = "davinci"  # davinci0 … for chips, davinci_manager for the driver


class AscendReader(LazyReader):
    vendor = Vendor("ascend")

    def _look_for_driver(self) -> None:
        options = self._options
        if find_program(options.value(NPU_SMI)) is None and not has_device_files(options.paths):
            raise DriverAbsent("npu-smi is not installed, and there are no Ascend device files")

    def _load_source(self) -> ReaderSource:
        from accelscope.vendors.ascend.driver_source import DriverSource  # noqa: PLC0415 - see LazyReader

        return DriverSource(self._options)


def open_reader(options: ReaderOptions) -> AscendReader:
    return AscendReader(options)


def has_device_files(paths: Paths) -> bool:
    return any(name.startswith(DEVICE_FILE) for name in entries(str(paths.dev)))
