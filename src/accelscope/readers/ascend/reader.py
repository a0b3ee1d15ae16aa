"""The Ascend reader. What it takes to read chips is loaded only on a node that has something of them: half a
mebibyte that other nodes' agents do without."""

from typing import TYPE_CHECKING

from accelscope.model import Reading, Vendor
from accelscope.readers.contract import DriverAbsent, Paths, ReaderOptions, Survey
from accelscope.readers.files import entries
from accelscope.readers.tool import find_program

if TYPE_CHECKING:
    from accelscope.readers.ascend.driver_source import DriverSource

DEVICE_FILE = "davinci"  # davinci0 …, and davinci_manager for the driver as a whole


class AscendReader:
    def __init__(self, options: ReaderOptions) -> None:
        self._options = options
        self._source: DriverSource | None = None

    @property
    def vendor(self) -> Vendor:
        return Vendor.ASCEND

    def survey(self) -> Survey:
        paths = self._options.paths
        if find_program(paths.npu_smi) is None and not has_device_files(paths):
            raise DriverAbsent("npu-smi is not on this node")
        if self._source is None:
            from accelscope.readers.ascend.driver_source import DriverSource  # noqa: PLC0415 - as said above

            self._source = DriverSource(self._options)
        return self._source.survey()

    def read(self, key: str) -> Reading:
        assert self._source is not None  # a survey named the key
        return self._source.read(key)

    def close(self) -> None:
        if self._source is not None:
            self._source.close()


def has_device_files(paths: Paths) -> bool:
    return any(name.startswith(DEVICE_FILE) for name in entries(str(paths.dev)))


def open_reader(options: ReaderOptions) -> AscendReader:
    return AscendReader(options)
