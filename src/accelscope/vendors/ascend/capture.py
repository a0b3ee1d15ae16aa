"""Outputs of npu-smi: which accelscope parse reads and which accelscope capture records."""

import re
from collections.abc import Iterable

from accelscope.capture.plan import Command, Outputs, Plan, Tree
from accelscope.model import Vendor
from accelscope.parsing import OutputFormat
from accelscope.vendors.ascend import NPU_SMI, details, parse_info
from accelscope.vendors.ascend.parse_values import (
    parse_board,
    parse_common,
    parse_ecc,
    parse_health,
    parse_map,
    parse_proc_mem,
    parse_usages,
)

# --- accelscope parse -----------------------------------------------------


SOURCES = (
    OutputFormat(
        "npu-smi-info",
        "npu-smi info: the table of chips and processes",
        lambda text, _fields: parse_info.parse(text),
    ),
    OutputFormat(
        "npu-smi-board",
        "npu-smi info -t board -i N [-c N]: identity of a board or chip",
        lambda text, _fields: parse_board(text),
    ),
    OutputFormat(
        "npu-smi-usages",
        "npu-smi info -t usages -i N: utilisation of the units of a chip",
        lambda text, _fields: parse_usages(text),
    ),
    OutputFormat(
        "npu-smi-common",
        "npu-smi info -t common -i N: clock, temperature and power",
        lambda text, _fields: parse_common(text),
    ),
    OutputFormat(
        "npu-smi-map",
        "npu-smi info -m: numbers of the chips in the runtime and in /dev",
        lambda text, _fields: parse_map(text),
    ),
    OutputFormat(
        "npu-smi-proc-mem",
        "npu-smi info -t proc-mem -i N: processes with their memory",
        lambda text, _fields: parse_proc_mem(text),
    ),
    OutputFormat(
        "npu-smi-health",
        "npu-smi info -t health -i N -c N: health with error codes",
        lambda text, _fields: parse_health(text),
    ),
    OutputFormat(
        "npu-smi-ecc",
        "npu-smi info -t ecc -i N: memory errors",
        lambda text, _fields: parse_ecc(text),
    ),
)


# --- accelscope capture ---------------------------------------------------


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
    environment=details.environment,
    command_lines=(
        re.compile(r"(Process name[ \t]*:[ \t]*)(.*?)([ \t]*(?:Process memory.*)?)$", re.MULTILINE),
    ),
    serial_names=(r"[dnv]?die[ _]id",),
)
