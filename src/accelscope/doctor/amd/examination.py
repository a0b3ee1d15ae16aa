"""The checks of this vendor, in the order in which one thing rests on another."""

from accelscope.agent.settings import AgentSettings
from accelscope.doctor.amd import driver, tools
from accelscope.doctor.amd.advice import HANG, TOOL_HANG, advice
from accelscope.doctor.check import Check
from accelscope.doctor.vendors import VendorExamination
from accelscope.model import Vendor


def _tool_seconds(settings: AgentSettings) -> float:
    return settings.reader_timeout + 5  # the tool is given up by itself before


EXAMINATION = VendorExamination(
    Vendor.AMD,
    (
        Check("pci", driver.on_pci),
        Check("module", driver.module),
        Check("files", driver.files, if_it_hangs=HANG),
        Check("device files", driver.device_files),
        Check("processes", driver.processes),
        Check("amd-smi", tools.amd_smi, _tool_seconds, TOOL_HANG),
        Check("rocm-smi", tools.rocm_smi, _tool_seconds, TOOL_HANG),
    ),
    driver.hardware,
    advice,
)
