"""Formats of AMD's tools that `accelscope parse` reads."""

from accelscope.parsing import OutputFormat
from accelscope.vendors.amd import parse_amd_smi, parse_monitor, parse_rocm_smi

SOURCES = (
    OutputFormat(
        "rocm-smi-json",
        "rocm-smi … --json: cards and processes",
        lambda text, _fields: parse_rocm_smi.parse_rocm_json(text),
    ),
    OutputFormat(
        "rocm-smi-csv",
        "rocm-smi … --csv: one row per card",
        lambda text, _fields: parse_rocm_smi.parse_rocm_csv(text),
    ),
    OutputFormat(
        "rocm-smi-table",
        "rocm-smi without --json: the table of GPUs, also that of --showhw",
        lambda text, _fields: parse_rocm_smi.parse_rocm_table(text),
    ),
    OutputFormat(
        "amd-smi-metric",
        "amd-smi metric, as JSON or text: measurements of each GPU",
        lambda text, _fields: parse_amd_smi.parse_metric(text),
    ),
    OutputFormat(
        "amd-smi-static",
        "amd-smi static, as JSON or text: identity and limits of each GPU",
        lambda text, _fields: parse_amd_smi.parse_static(text),
        names_devices=True,
    ),
    OutputFormat(
        "amd-smi-process",
        "amd-smi process, as JSON or text: processes with their memory",
        lambda text, _fields: parse_amd_smi.parse_process(text),
    ),
    OutputFormat(
        "amd-smi-monitor",
        "amd-smi monitor: the tables of GPUs and processes",
        lambda text, _fields: parse_monitor.parse(text),
    ),
)
