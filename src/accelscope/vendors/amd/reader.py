"""The AMD reader. It checks whether the node has AMD GPUs before it loads the code that reads them."""

from accelscope.model import Vendor
from accelscope.vendors.common.contract import DriverAbsent, LazyReader, Paths, ReaderOptions, ReaderSource
from accelscope.vendors.common.files import entries, read_optional

_VENDOR_CODE = "0x1002"
_COMPUTE_DEVICE = "kfd"  # exists with amdgpu and its forks


class AmdReader(LazyReader):
    vendor = Vendor("amd")

    def _look_for_driver(self) -> None:
        if not _has_driver_or_gpu(self._options.paths):
            drm = self._options.paths.sys / "class/drm"
            raise DriverAbsent(f"no AMD GPU in {drm}, and the amdgpu driver is not loaded")

    def _load_source(self) -> ReaderSource:
        from accelscope.vendors.amd.driver_source import DriverSource  # noqa: PLC0415 - see LazyReader

        return DriverSource(self._options)


def open_reader(options: ReaderOptions) -> AmdReader:
    return AmdReader(options)


def _has_driver_or_gpu(paths: Paths) -> bool:
    if (paths.sys / "module/amdgpu").is_dir() or (paths.dev / _COMPUTE_DEVICE).exists():
        return True
    drm = f"{paths.sys}/class/drm"
    return any(read_optional(f"{drm}/{name}/device/vendor") == _VENDOR_CODE for name in entries(drm))
