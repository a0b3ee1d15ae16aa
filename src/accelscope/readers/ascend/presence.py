"""Whether a node has anything of Ascend's. What it takes to read chips is loaded only where it does: half a
mebibyte that other nodes' agents do without."""

from typing import TYPE_CHECKING

from accelscope.model import Reading, Vendor
from accelscope.readers.contract import DriverAbsent, ReaderOptions, Survey
from accelscope.readers.tool import find_program

if TYPE_CHECKING:
    from accelscope.readers.ascend.reader import AscendReader

_DEVICE_FILE = "davinci"  # davinci0 …, and davinci_manager for the driver as a whole


class AscendWhereItIs:
    def __init__(self, options: ReaderOptions) -> None:
        self._options = options
        self._reader: AscendReader | None = None

    @property
    def vendor(self) -> Vendor:
        return Vendor.ASCEND

    def survey(self) -> Survey:
        if self._reader is None:
            if not self._is_there():
                raise DriverAbsent("npu-smi is not on this node")
            from accelscope.readers.ascend.reader import AscendReader  # noqa: PLC0415 - as said above

            self._reader = AscendReader(self._options)
        return self._reader.survey()

    def read(self, key: str) -> Reading:
        assert self._reader is not None  # a survey named the key
        return self._reader.read(key)

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()

    def _is_there(self) -> bool:
        return find_program(self._options.paths.npu_smi) is not None or self._has_device_files()

    def _has_device_files(self) -> bool:
        try:
            return any(entry.name.startswith(_DEVICE_FILE) for entry in self._options.paths.dev.iterdir())
        except OSError:
            return False


def open_reader(options: ReaderOptions) -> AscendWhereItIs:
    return AscendWhereItIs(options)
