"""What `accelscope parse` can read of NVIDIA's tools."""

from accelscope.parsing.source import Source
from accelscope.vendors.nvidia import (
    parse_compute_apps,
    parse_list,
    parse_pmon,
    parse_query_gpu,
    parse_table,
    parse_version,
    parse_xml,
)

SOURCES = (
    Source(
        "nvidia-smi-query-gpu",
        "nvidia-smi --query-gpu=… --format=csv: one row per GPU",
        parse_query_gpu.parse_query_gpu,
        default_fields=parse_query_gpu.QUERY_GPU_FIELDS,
    ),
    Source(
        "nvidia-smi-pmon",
        "nvidia-smi pmon: processes with their utilisation",
        lambda text, _fields: parse_pmon.parse_pmon(text),
        hide_command_lines=parse_pmon.without_command_lines,
    ),
    Source(
        "nvidia-smi-compute-apps",
        "nvidia-smi --query-compute-apps=… --format=csv: compute processes with their memory",
        parse_compute_apps.parse_compute_apps,
        default_fields=parse_compute_apps.COMPUTE_APPS_FIELDS,
    ),
    Source(
        "nvidia-smi-xml",
        "nvidia-smi -q -x: all that the tool knows of GPUs, MIG devices and processes",
        lambda text, _fields: parse_xml.parse(text),
    ),
    Source(
        "nvidia-smi-list",
        "nvidia-smi -L: GPUs and MIG devices with their uuids",
        lambda text, _fields: parse_list.parse_list(text),
    ),
    Source(
        "nvidia-smi-table",
        "nvidia-smi without options: its table of GPUs, MIG devices and processes",
        lambda text, _fields: parse_table.parse_table(text),
    ),
    Source(
        "nvidia-smi-version",
        "nvidia-smi --version: versions of the driver, of NVML and of CUDA",
        lambda text, _fields: parse_version.parse_version(text),
        tells="versions",
    ),
)
