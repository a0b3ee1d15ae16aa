"""The AMD reader. What it takes to read GPUs is loaded only on a node that has something of them."""

from typing import TYPE_CHECKING

from accelscope.model import Reading, Vendor
from accelscope.readers.contract import DriverAbsent, Paths, ReaderOptions, Survey
from accelscope.readers.files import entries, told

if TYPE_CHECKING:
    from accelscope.readers.amd.driver_source import DriverSource

_VENDOR_CODE = "0x1002"
_COMPUTE_DEVICE = "kfd"  # made by every driver of AMD's kind, forks included


class AmdReader:
    def __init__(self, options: ReaderOptions) -> None:
        self._options = options
        self._source: DriverSource | None = None

    @property
    def vendor(self) -> Vendor:
        return Vendor.AMD

    def survey(self) -> Survey:
        if not _is_there(self._options.paths):
            raise DriverAbsent("no AMD GPU in /sys/class/drm, and the amdgpu driver is not loaded")
        if self._source is None:
            from accelscope.readers.amd.driver_source import DriverSource  # noqa: PLC0415 - as said above

            self._source = DriverSource(self._options)
        return self._source.survey()

    def read(self, key: str) -> Reading:
        assert self._source is not None  # a survey named the key
        return self._source.read(key)

    def close(self) -> None:
        if self._source is not None:
            self._source.close()


def open_reader(options: ReaderOptions) -> AmdReader:
    return AmdReader(options)


def _is_there(paths: Paths) -> bool:
    """The driver, or a GPU that it shows."""
    if (paths.sys / "module/amdgpu").is_dir() or (paths.dev / _COMPUTE_DEVICE).exists():
        return True
    drm = f"{paths.sys}/class/drm"
    return any(told(f"{drm}/{name}/device/vendor") == _VENDOR_CODE for name in entries(drm))
