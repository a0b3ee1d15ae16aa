"""nvidia-smi in all its forms, and what the kernel module says of itself."""

import re
from collections.abc import Iterable

from accelscope.capture.plan import Command, Outputs, Plan, Tree
from accelscope.model import Vendor
from accelscope.readers.nvidia.parse_query_gpu import DEFAULT_FIELDS

_HELP = "nvidia-smi-help-query-gpu"
_FIELD = re.compile(r'^"([a-z0-9_.]+)"', re.MULTILINE)  # the first spelling, where there are several


def _all_fields(outputs: Outputs) -> Iterable[Command]:
    """All fields that this version knows, since one that it does not know fails the whole query. The name
    comes last: it may hold commas."""
    known = [field for field in _FIELD.findall(outputs.get(_HELP, "")) if field not in ("name", "gpu_name")]
    fields = [*dict.fromkeys(known), "name"] if "uuid" in known else list(DEFAULT_FIELDS)
    yield Command("nvidia-smi-query-gpu", "nvidia_smi", (f"--query-gpu={','.join(fields)}", "--format=csv"))


PLAN = Plan(
    vendor=Vendor.NVIDIA,
    commands=(
        Command("nvidia-smi-version", "nvidia_smi", ("--version",)),
        Command("nvidia-smi-list", "nvidia_smi", ("-L",)),
        Command("nvidia-smi-xml", "nvidia_smi", ("-q", "-x")),
        Command(_HELP, "nvidia_smi", ("--help-query-gpu",)),
        Command("nvidia-smi-pmon", "nvidia_smi", ("pmon", "-s", "um", "-c", "1")),
        Command(
            "nvidia-smi-compute-apps",
            "nvidia_smi",
            ("--query-compute-apps=gpu_uuid,pid,process_name,used_memory", "--format=csv"),
        ),
        Command("nvidia-smi-topo", "nvidia_smi", ("topo", "-m")),
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
)
