"""What is particular to each vendor: ids, parts, resources, and what a container needs."""

from importlib import import_module

from accelscope.deviceplugin.roots import Roots
from accelscope.deviceplugin.vendors.contract import VendorPart
from accelscope.model import Vendor


def open_vendor(vendor: Vendor, roots: Roots) -> VendorPart:
    """Its module has `open_part(roots)`."""
    part: VendorPart = import_module(f"{__name__}.{vendor.value}").open_part(roots)
    return part
