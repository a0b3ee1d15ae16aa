"""The Furiosa reader: is there anything of Furiosa's cards on this node?"""

from accelscope.model import Vendor
from accelscope.readers.contract import DriverAbsent, ReaderOptions
from accelscope.readers.lazy import LazyReader, Source
from accelscope.readers.tool import find_program

CLASS_FOLDERS = ("npu_mgmt", "rngd_mgmt", "renegade_mgmt")


class FuriosaReader(LazyReader):
    vendor = Vendor.FURIOSA

    def _look_for_driver(self) -> None:
        paths = self._options.paths
        shown = any((paths.sys / "class" / name).is_dir() for name in CLASS_FOLDERS)
        if not shown and not find_program(paths.furiosa_smi) and not find_program(paths.furiosactl):
            raise DriverAbsent(
                f"neither npu_mgmt nor rngd_mgmt in {paths.sys}/class, and neither furiosa-smi nor furiosactl"
            )

    def _load_source(self) -> Source:
        from accelscope.readers.furiosa.driver_source import DriverSource  # noqa: PLC0415 - see LazyReader

        return DriverSource(self._options)


def open_reader(options: ReaderOptions) -> FuriosaReader:
    return FuriosaReader(options)
