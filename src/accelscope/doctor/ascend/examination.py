"""The checks of this vendor, in the order in which one thing rests on another."""

from accelscope.doctor.ascend import driver, tool
from accelscope.doctor.ascend.advice import HANG, advice
from accelscope.doctor.check import Check
from accelscope.doctor.vendors import VendorExamination
from accelscope.model import Vendor

EXAMINATION = VendorExamination(
    Vendor.ASCEND,
    (
        Check("pci", driver.on_pci),
        Check("module", driver.module),
        Check("device files", driver.files, if_it_hangs=HANG),
        Check("driver folder", tool.driver_folder),
        Check("npu-smi", tool.tool),
    ),
    driver.hardware,
    advice,
)
