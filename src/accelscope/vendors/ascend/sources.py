"""Formats of npu-smi that `accelscope parse` reads."""

from accelscope.parsing import OutputFormat
from accelscope.vendors.ascend import parse_info
from accelscope.vendors.ascend.parse_values import (
    parse_board,
    parse_common,
    parse_ecc,
    parse_health,
    parse_map,
    parse_proc_mem,
    parse_usages,
)

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
