"""What `accelscope parse` can read of AMD's tools."""

from accelscope.parsing import Source
from accelscope.vendors.amd import parse_amd_smi, parse_monitor, parse_rocm_smi

SOURCES = (
    Source(
        "rocm-smi-json",
        "rocm-smi … --json: cards and processes",
        lambda text, _fields: parse_rocm_smi.parse_rocm_json(text),
    ),
    Source(
        "rocm-smi-csv",
        "rocm-smi … --csv: one row per card",
        lambda text, _fields: parse_rocm_smi.parse_rocm_csv(text),
    ),
    Source(
        "rocm-smi-table",
        "rocm-smi without --json: its table of GPUs, and that of --showhw",
        lambda text, _fields: parse_rocm_smi.parse_rocm_table(text),
    ),
    Source(
        "amd-smi-metric",
        "amd-smi metric --json, or its text: what each GPU is doing",
        lambda text, _fields: parse_amd_smi.parse_metric(text),
    ),
    Source(
        "amd-smi-static",
        "amd-smi static --json, or its text: who each GPU is, and its limits",
        lambda text, _fields: parse_amd_smi.parse_static(text),
        names_devices=True,
    ),
    Source(
        "amd-smi-process",
        "amd-smi process --json, or its text: processes with their memory",
        lambda text, _fields: parse_amd_smi.parse_process(text),
    ),
    Source(
        "amd-smi-monitor",
        "amd-smi monitor: its table of GPUs and its table of processes",
        lambda text, _fields: parse_monitor.parse(text),
    ),
)
