"""What `accelscope capture` records: the outputs of nvidia-smi and the kernel module's files in /proc."""

import re
from collections.abc import Iterable

from accelscope.capture.plan import Command, Outputs, Plan, Tree
from accelscope.model import Vendor
from accelscope.vendors.nvidia import NVIDIA_SMI
from accelscope.vendors.nvidia.parse_csv import QUERY_GPU_FIELDS

_HELP = "nvidia-smi-help-query-gpu"
_FIELD = re.compile(r'^"([a-z0-9_.]+)"', re.MULTILINE)  # the first name of a field with aliases


def _all_fields(outputs: Outputs) -> Iterable[Command]:
    """Query all fields that this version supports: one unknown field fails the whole query. The name comes
    last, because it may contain commas."""
    known = [field for field in _FIELD.findall(outputs.get(_HELP, "")) if field not in ("name", "gpu_name")]
    fields = [*dict.fromkeys(known), "name"] if "uuid" in known else list(QUERY_GPU_FIELDS)
    yield Command("nvidia-smi-query-gpu", NVIDIA_SMI, (f"--query-gpu={','.join(fields)}", "--format=csv"))


PLAN = Plan(
    vendor=Vendor("nvidia"),
    commands=(
        Command("nvidia-smi-version", NVIDIA_SMI, ("--version",)),
        Command("nvidia-smi-list", NVIDIA_SMI, ("-L",)),
        Command("nvidia-smi-xml", NVIDIA_SMI, ("-q", "-x")),
        Command(_HELP, NVIDIA_SMI, ("--help-query-gpu",)),
        Command("nvidia-smi-pmon", NVIDIA_SMI, ("pmon", "-s", "um", "-c", "1")),
        Command(
            "nvidia-smi-compute-apps",
            NVIDIA_SMI,
            ("--query-compute-apps=gpu_uuid,pid,process_name,used_memory", "--format=csv"),
        ),
        Command("nvidia-smi-topo", NVIDIA_SMI, ("topo", "-m")),
    ),
    then=_all_fields,
    then_text=("nvidia-smi --query-gpu=(all fields of --help-query-gpu) --format=csv",),
    trees=(
        Tree(
            "nvidia-proc",
            "proc",
            ("driver/nvidia", "driver/nvidia/gpus/*"),
            ("version", "params", "information"),
        ),
    ),
    # Tools do not escape the name; a truncated output may end in it.
    command_lines=(re.compile(r"(<process_name>)([^<]*(?:<(?!/?process_name>)[^<]*)*)(</process_name>|\Z)"),),
    serial_names=(r"[\w.]{0,16}fabric_guid", r"(?:gpu[_ ])?pdi"),
)
