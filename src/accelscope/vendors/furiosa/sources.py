"""What `accelscope parse` can read of Furiosa's tools."""

from accelscope.parsing.source import Source
from accelscope.readers.furiosa import parse_info, parse_list, parse_ps, parse_status

SOURCES = (
    Source(
        "furiosactl-info",
        "furiosactl info, table, JSON or YAML: cards with temperature and power",
        lambda text, _fields: parse_info.parse(text, "furiosactl info"),
    ),
    Source(
        "furiosactl-list",
        "furiosactl list, table, JSON or YAML: cards with device files and the cores that are held",
        lambda text, _fields: parse_list.parse(text),
    ),
    Source(
        "furiosactl-ps",
        "furiosactl ps, table, JSON or YAML: processes with the cores that they hold",
        lambda text, _fields: parse_ps.parse(text, "furiosactl ps"),
    ),
    Source(
        "furiosa-smi-info",
        "furiosa-smi info, table or JSON: cards with temperature, power and clock",
        lambda text, _fields: parse_info.parse(text, "furiosa-smi info"),
    ),
    Source(
        "furiosa-smi-status",
        "furiosa-smi status, table or JSON: cards with liveness, memory and cores",
        lambda text, _fields: parse_status.parse(text),
    ),
    Source(
        "furiosa-smi-ps",
        "furiosa-smi ps, table or JSON: processes with the cores that they hold",
        lambda text, _fields: parse_ps.parse(text, "furiosa-smi ps"),
    ),
)
