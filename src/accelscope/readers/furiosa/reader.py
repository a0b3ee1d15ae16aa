"""The Furiosa reader. What reads is loaded where there is something of the vendor to read."""

from typing import TYPE_CHECKING

from accelscope.model import Reading, Vendor
from accelscope.readers.contract import DriverAbsent, ReaderOptions, Survey
from accelscope.readers.tool import find_program

if TYPE_CHECKING:
    from accelscope.readers.furiosa.driver_source import DriverSource

CLASS_FOLDERS = ("npu_mgmt", "rngd_mgmt", "renegade_mgmt")


class FuriosaReader:
    def __init__(self, options: ReaderOptions) -> None:
        self._options = options
        self._source: DriverSource | None = None

    @property
    def vendor(self) -> Vendor:
        return Vendor.FURIOSA

    def survey(self) -> Survey:
        paths = self._options.paths
        shown = any((paths.sys / "class" / name).is_dir() for name in CLASS_FOLDERS)
        if not shown and not find_program(paths.furiosa_smi) and not find_program(paths.furiosactl):
            raise DriverAbsent(
                f"neither npu_mgmt nor rngd_mgmt in {paths.sys}/class, and neither furiosa-smi nor furiosactl"
            )
        return self._opened().survey()

    def read(self, key: str) -> Reading:
        return self._opened().read(key)

    def close(self) -> None:
        """Nothing is held open."""

    def _opened(self) -> "DriverSource":
        if self._source is None:
            from accelscope.readers.furiosa.driver_source import DriverSource  # noqa: PLC0415 - half a mebibyte

            self._source = DriverSource(self._options)
        return self._source


def open_reader(options: ReaderOptions) -> FuriosaReader:
    return FuriosaReader(options)
