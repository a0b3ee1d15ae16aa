"""The outputs of NVIDIA's tools that `accelscope parse` reads."""

from accelscope.parsing import OutputFormat
from accelscope.vendors.nvidia import parse_csv, parse_text, parse_xml

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
