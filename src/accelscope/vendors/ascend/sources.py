"""What `accelscope parse` can read of npu-smi."""

from accelscope.parsing.source import Source
from accelscope.readers.ascend import (
    parse_board,
    parse_common,
    parse_ecc,
    parse_health,
    parse_info,
    parse_map,
    parse_proc_mem,
    parse_usages,
)

SOURCES = (
    Source(
        "npu-smi-info",
        "npu-smi info: chips in a table, with their processes",
        lambda text, _fields: parse_info.parse(text),
    ),
    Source(
        "npu-smi-board",
        "npu-smi info -t board -i N [-c N]: who a board or chip is",
        lambda text, _fields: parse_board.parse(text),
    ),
    Source(
        "npu-smi-usages",
        "npu-smi info -t usages -i N: how busy the parts of a chip are",
        lambda text, _fields: parse_usages.parse(text),
    ),
    Source(
        "npu-smi-common",
        "npu-smi info -t common -i N: clock, temperature and power",
        lambda text, _fields: parse_common.parse(text),
    ),
    Source(
        "npu-smi-map",
        "npu-smi info -m: numbers of chips",
        lambda text, _fields: parse_map.parse(text),
    ),
    Source(
        "npu-smi-proc-mem",
        "npu-smi info -t proc-mem -i N: processes with their memory",
        lambda text, _fields: parse_proc_mem.parse(text),
    ),
    Source(
        "npu-smi-health",
        "npu-smi info -t health -i N -c N: health with error codes",
        lambda text, _fields: parse_health.parse(text),
    ),
    Source(
        "npu-smi-ecc",
        "npu-smi info -t ecc -i N: memory errors",
        lambda text, _fields: parse_ecc.parse(text),
    ),
)
