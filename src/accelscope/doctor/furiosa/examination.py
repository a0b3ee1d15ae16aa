"""The checks of this vendor, in the order in which one thing rests on another."""

from accelscope.doctor.check import Check
from accelscope.doctor.furiosa import cards
from accelscope.doctor.furiosa.advice import HANG, advice
from accelscope.doctor.furiosa.tools import seconds, tools
from accelscope.doctor.vendors import VendorExamination
from accelscope.model import Vendor

EXAMINATION = VendorExamination(
    Vendor.FURIOSA,
    (
        Check("pci", cards.on_pci),
        Check("driver", cards.driver, if_it_hangs=HANG),
        Check("attributes", cards.attributes, if_it_hangs=HANG),
        Check("device files", cards.files),
        Check("tools", tools, seconds),
    ),
    cards.hardware,
    advice,
)
