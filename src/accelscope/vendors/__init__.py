"""The vendors, one folder each with everything that is particular to it. `common` holds what they share.

Every folder here that declares `VENDOR` is a vendor: nothing else lists them. docs/adding-a-vendor.md shows
what a folder contains.
"""

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pathlib import Path

from accelscope.vendors.declaration import DialectDeclaration, VendorDeclaration

__all__ = ["DialectDeclaration", "VendorDeclaration", "declarations", "dialect_declarations"]


@cache
def declarations() -> Mapping[str, VendorDeclaration]:
    """All vendors by name, in the order in which they are shown."""
    # Not pkgutil.iter_modules: importing pkgutil takes 130 KiB of the agent's memory.
    folders = {file.parent.name for root in __path__ for file in Path(root).glob("*/__init__.py")} - {
        "common"
    }
    found: list[VendorDeclaration] = [import_module(f"{__name__}.{folder}").VENDOR for folder in folders]
    return {vendor.name: vendor for vendor in sorted(found, key=lambda vendor: (vendor.order, vendor.name))}


@cache
def dialect_declarations() -> Mapping[str, DialectDeclaration]:
    """All dialects by name: each vendor's, then those of several vendors."""
    common: tuple[DialectDeclaration, ...] = import_module(f"{__name__}.common").DIALECTS
    found = (*(dialect for vendor in declarations().values() for dialect in vendor.dialects), *common)
    return {dialect.name: dialect for dialect in found}
