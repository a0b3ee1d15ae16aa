"""The Ascend reader: is there anything of Ascend's chips on this node?"""

from accelscope.model import Vendor
from accelscope.readers.contract import DriverAbsent, Paths, ReaderOptions
from accelscope.readers.files import entries
from accelscope.readers.lazy import LazyReader, Source
from accelscope.readers.tool import find_program

DEVICE_FILE = "davinci"  # davinci0 …, and davinci_manager for the driver as a whole


class AscendReader(LazyReader):
    vendor = Vendor.ASCEND

    def _look_for_driver(self) -> None:
        paths = self._options.paths
        if find_program(paths.npu_smi) is None and not has_device_files(paths):
            raise DriverAbsent("npu-smi is not on this node")

    def _load_source(self) -> Source:
        from accelscope.readers.ascend.driver_source import DriverSource  # noqa: PLC0415 - see LazyReader

        return DriverSource(self._options)


def open_reader(options: ReaderOptions) -> AscendReader:
    return AscendReader(options)


def has_device_files(paths: Paths) -> bool:
    return any(name.startswith(DEVICE_FILE) for name in entries(str(paths.dev)))
