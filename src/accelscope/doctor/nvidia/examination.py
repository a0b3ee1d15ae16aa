"""The checks of this vendor, in the order in which one thing rests on another."""

from accelscope.agent.settings import AgentSettings
from accelscope.doctor.check import Check
from accelscope.doctor.nvidia import driver, library
from accelscope.doctor.nvidia.advice import HANG, advice
from accelscope.doctor.vendors import VendorExamination
from accelscope.model import Vendor


def _driver_seconds(settings: AgentSettings) -> float:
    return settings.reader_timeout


def _devices_seconds(settings: AgentSettings) -> float:
    return min(settings.reader_timeout, 2 * settings.device_timeout)


EXAMINATION = VendorExamination(
    Vendor.NVIDIA,
    (
        Check("pci", driver.on_pci),
        Check("module", driver.module),
        Check("device files", driver.files, if_it_hangs=HANG),
        Check("library", library.library, _driver_seconds, HANG),
        Check("binding", library.binding),
        Check("nvml", library.nvml, _driver_seconds, HANG),
        Check("xids", library.xids, _devices_seconds, HANG, unless_hung="nvml"),
        Check("nvidia-smi", library.tool),
    ),
    driver.hardware,
    advice,
)
