"""Which readers there are. A new vendor is one line here; its package is loaded only where it is used."""

from importlib import import_module

from accelscope.model import Vendor
from accelscope.readers.contract import Reader, ReaderFactory, ReaderOptions

_MODULES = {
    Vendor.NVIDIA: "accelscope.readers.nvidia.reader",
    Vendor.AMD: "accelscope.readers.amd.reader",
    Vendor.ASCEND: "accelscope.readers.ascend.reader",
    Vendor.FURIOSA: "accelscope.readers.furiosa.reader",
}

VENDORS: tuple[Vendor, ...] = tuple(_MODULES)


def open_reader(vendor: Vendor, options: ReaderOptions) -> Reader:
    """The vendor's reader: its module has `open_reader(options)`."""
    factory: ReaderFactory = import_module(_MODULES[vendor]).open_reader
    return factory(options)
