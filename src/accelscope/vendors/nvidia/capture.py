"""Outputs of NVIDIA's tools: which accelscope parse reads and which accelscope capture records."""

import re
from collections.abc import Iterable

from accelscope.capture.plan import Command, Outputs, Plan, Tree
from accelscope.model import Vendor
from accelscope.parsing import OutputFormat
from accelscope.vendors.nvidia import NVIDIA_SMI, parse_csv, parse_text, parse_xml
from accelscope.vendors.nvidia.parse_csv import QUERY_GPU_FIELDS

# --- accelscope parse -----------------------------------------------------


SOURCES = (
    OutputFormat(
        "nvidia-smi-query-gpu",
        "nvidia-smi --query-gpu=… --format=csv: one row per GPU",
        parse_csv.parse_query_gpu,
        default_fields=parse_csv.QUERY_GPU_FIELDS,
    ),
    OutputFormat(
        "nvidia-smi-pmon",
        "nvidia-smi pmon: processes with their utilisation",
        lambda text, _fields: parse_text.parse_pmon(text),
        hide_command_lines=parse_text.without_command_lines,
    ),
    OutputFormat(
        "nvidia-smi-compute-apps",
        "nvidia-smi --query-compute-apps=… --format=csv: compute processes with their memory",
        parse_csv.parse_compute_apps,
        default_fields=parse_csv.COMPUTE_APPS_FIELDS,
    ),
    OutputFormat(
        "nvidia-smi-xml",
        "nvidia-smi -q -x: all values of GPUs, MIG devices and processes",
        lambda text, _fields: parse_xml.parse(text),
    ),
    OutputFormat(
        "nvidia-smi-list",
        "nvidia-smi -L: GPUs and MIG devices with their uuids",
        lambda text, _fields: parse_text.parse_list(text),
    ),
    OutputFormat(
        "nvidia-smi-table",
        "nvidia-smi without options: its table of GPUs, MIG devices and processes",
        lambda text, _fields: parse_text.parse_table(text),
    ),
    OutputFormat(
        "nvidia-smi-version",
        "nvidia-smi --version: versions of the driver, of NVML and of CUDA",
        lambda text, _fields: parse_text.parse_version(text),
        output="versions",
    ),
)


# --- accelscope capture ---------------------------------------------------


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
