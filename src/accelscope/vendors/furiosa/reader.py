"""The Furiosa reader: looks for the driver, the tools and the cards."""

from accelscope.model import Vendor
from accelscope.vendors.common.contract import DriverAbsent, LazyReader, ReaderOptions, ReaderSource
from accelscope.vendors.common.tool import find_program
from accelscope.vendors.furiosa import FURIOSA_SMI, FURIOSACTL

CLASS_FOLDERS = ("npu_mgmt", "rngd_mgmt", "renegade_mgmt")


class FuriosaReader(LazyReader):
    vendor = Vendor("furiosa")

    def _look_for_driver(self) -> None:
        paths = self._options.paths
        shown = any((paths.sys / "class" / name).is_dir() for name in CLASS_FOLDERS)
        tools = (find_program(self._options.value(tool)) for tool in (FURIOSA_SMI, FURIOSACTL))
        if not shown and not any(tools):
            raise DriverAbsent(
                f"neither npu_mgmt nor rngd_mgmt in {paths.sys}/class, and neither furiosa-smi nor furiosactl"
            )

    def _load_source(self) -> ReaderSource:
        from accelscope.vendors.furiosa.driver_source import DriverSource  # noqa: PLC0415 - see LazyReader

        return DriverSource(self._options)


def open_reader(options: ReaderOptions) -> FuriosaReader:
    return FuriosaReader(options)
