"""What `accelscope parse` can read of Furiosa's tools."""

from accelscope.parsing import OutputFormat
from accelscope.vendors.furiosa.parse_tools import parse_info, parse_list, parse_ps, parse_status

SOURCES = (
    OutputFormat(
        "furiosactl-info",
        "furiosactl info, table, JSON or YAML: cards with temperature and power",
        lambda text, _fields: parse_info(text, "furiosactl info"),
    ),
    OutputFormat(
        "furiosactl-list",
        "furiosactl list, table, JSON or YAML: cards with device files and the cores that are occupied",
        lambda text, _fields: parse_list(text),
    ),
    OutputFormat(
        "furiosactl-ps",
        "furiosactl ps, table, JSON or YAML: processes with the cores that they have opened",
        lambda text, _fields: parse_ps(text, "furiosactl ps"),
    ),
    OutputFormat(
        "furiosa-smi-info",
        "furiosa-smi info, table or JSON: cards with temperature, power and clock",
        lambda text, _fields: parse_info(text, "furiosa-smi info"),
    ),
    OutputFormat(
        "furiosa-smi-status",
        "furiosa-smi status, table or JSON: cards with liveness, memory and cores",
        lambda text, _fields: parse_status(text),
    ),
    OutputFormat(
        "furiosa-smi-ps",
        "furiosa-smi ps, table or JSON: processes with the cores that they have opened",
        lambda text, _fields: parse_ps(text, "furiosa-smi ps"),
    ),
)
