"""What a vendor brings to the examination, and which vendors there are.

A new vendor is one line here and a module that has `EXAMINATION`. What is the same for every vendor, one real
pass through its reader, is added to its own checks.
"""

from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module

from accelscope.agent.runner import Result
from accelscope.doctor.check import Area, Check
from accelscope.doctor.subject import Subject
from accelscope.model import Vendor

# The modules of their examinations.
VENDORS: Mapping[Vendor, str] = {
    Vendor.NVIDIA: "accelscope.doctor.nvidia.examination",
    Vendor.AMD: "accelscope.doctor.amd.examination",
    Vendor.ASCEND: "accelscope.doctor.ascend.examination",
    Vendor.FURIOSA: "accelscope.doctor.furiosa.examination",
}


@dataclass(frozen=True, slots=True)
class Hardware:
    """What there is of a vendor, told by others than its driver: what the reader's count is held against."""

    addresses: frozenset[str] = frozenset()  # of devices that the vendor's driver holds, on PCI
    unheld: frozenset[str] = frozenset()  # of those that no driver holds
    device_files: int | None = None  # None: this vendor's devices have none that can be counted
    driver_loaded: bool = False

    @property
    def is_there(self) -> bool:
        return bool(self.addresses or self.unheld)


@dataclass(frozen=True, slots=True)
class VendorExamination:
    vendor: Vendor
    checks: tuple[Check, ...]
    hardware: Callable[[Subject], Hardware]
    # What to do, by the reason of a reader's error or of an absent value, or by what is said of a device's
    # health. Beside those: driver_absent, library_absent, missing, unheld, no_devices.
    advice: Callable[[str, Subject], str]


def examination_of(vendor: Vendor) -> VendorExamination:
    examination: VendorExamination = import_module(VENDORS[vendor]).EXAMINATION
    return examination


def vendor_area(vendor: Vendor, results: MutableMapping[Vendor, Result] | None = None) -> Area:
    """What its reader brings is left in `results`."""
    from accelscope.doctor import reading  # noqa: PLC0415 - it knows what a vendor's examination is

    examination = examination_of(vendor)
    read = Check(
        "reading",
        partial(reading.reading, examination, results=results),
        reading.seconds,
        "The reader did not even give up by itself: this is a fault in AccelScope, please report it.",
    )
    return Area(vendor.value, (*examination.checks, read))
