"""What a vendor contributes to the examination.

One real pass through the vendor's reader is the same for every vendor and is added to its own checks.
"""

from collections.abc import Callable, MutableMapping
from dataclasses import dataclass
from functools import partial

from accelscope.agent.runner import Result
from accelscope.doctor.check import Area, Check
from accelscope.doctor.subject import Subject
from accelscope.model import Vendor
from accelscope.vendors import declarations


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
    declaration = declarations()[vendor]
    examination: VendorExamination = declaration.load(declaration.examination)
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
