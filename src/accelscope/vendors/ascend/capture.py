"""What `accelscope capture` saves for Ascend: the output of npu-smi for the node, each NPU and each chip."""

import re
from collections.abc import Iterable

from accelscope.capture.plan import Command, Outputs, Plan, Tree
from accelscope.model import Vendor
from accelscope.vendors.ascend import NPU_SMI, smi

_LISTED = re.compile(r"^\s*NPU ID\s*:\s*([0-9]{1,6})\s*$", re.MULTILINE)
_MAPPED = re.compile(r"^\s*([0-9]{1,6})\s+([0-9]{1,3})\s+[0-9]{1,6}\s", re.MULTILINE)  # NPU, chip, logic id
_NPU_SUBJECTS = ("board", "usages", "common", "ecc", "memory", "volt", "proc-mem", "temp", "power")
_CHIP_SUBJECTS = ("board", "health")


def _info(source: str, *arguments: str, tag: str = "") -> Command:
    return Command(f"npu-smi-{source}", NPU_SMI, ("info", *arguments), tag)


def _further_commands(outputs: Outputs) -> Iterable[Command]:
    chips = list(dict.fromkeys(_MAPPED.findall(outputs.get("npu-smi-map", ""))))
    listed = [*_LISTED.findall(outputs.get("npu-smi-list", "")), *(npu for npu, _ in chips)]
    for npu in dict.fromkeys(listed):
        for kind in _NPU_SUBJECTS:
            yield _info(kind, "-t", kind, "-i", npu, tag=f"npu{npu}")
    for npu, chip in chips:
        for kind in _CHIP_SUBJECTS:
            yield _info(kind, "-t", kind, "-i", npu, "-c", chip, tag=f"npu{npu}-chip{chip}")


PLAN = Plan(
    vendor=Vendor("ascend"),
    commands=(_info("info"), _info("map", "-m"), _info("list", "-l")),
    then=_further_commands,
    then_text=(
        *(f"npu-smi info -t {kind} -i (each NPU)" for kind in _NPU_SUBJECTS),
        *(f"npu-smi info -t {kind} -i (each NPU) -c (each chip)" for kind in _CHIP_SUBJECTS),
    ),
    trees=(Tree("ascend-devices", "dev", ("davinci*", "devmm_svm", "hisi_hdc"), ()),),
    environment=smi.environment,
    command_lines=(
        re.compile(r"(Process name[ \t]*:[ \t]*)(.*?)([ \t]*(?:Process memory.*)?)$", re.MULTILINE),
    ),
    serial_names=(r"[dnv]?die[ _]id",),
)
