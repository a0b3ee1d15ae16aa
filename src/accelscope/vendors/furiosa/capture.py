"""Outputs of furiosa-smi and furiosactl, and files of the drivers of Warboy and RNGD: which accelscope parse
reads and which accelscope capture records."""

from accelscope.capture.plan import Command, Plan, Tree
from accelscope.model import Vendor
from accelscope.parsing import OutputFormat
from accelscope.vendors.furiosa import FURIOSA_SMI, FURIOSACTL
from accelscope.vendors.furiosa.parse_tools import parse_info, parse_list, parse_ps, parse_status
from accelscope.vendors.furiosa.reader import CLASS_FOLDERS

# --- accelscope parse -----------------------------------------------------


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


# --- accelscope capture ---------------------------------------------------


_JSON = ("--format", "json")
_CARD_FILES = (
    "alive",
    "device_state",
    "heartbeat",
    "atr_error",
    "busname",
    "device_type",
    "platform_type",
    "device_uuid",
    "device_sn",
    "fw_version",
    "version",
    "soc_rev",
    "soc_id",
    "soc_uid",
    "board_revision",
    "dev",
    "cur_pe_ids",
    "ne_clk_freq_info",
    "npu_clocks",
    "pe_occupancy",
    "npu_governor",
    "alloc_status",
    "metrics",
    "perf_regs",
    "throttle_reason",
    "throttle_reason_list",
)

PLAN = Plan(
    vendor=Vendor("furiosa"),
    commands=(
        Command("furiosa-smi-version", FURIOSA_SMI, ("version",)),
        Command("furiosa-smi-info", FURIOSA_SMI, ("info", *_JSON), "json"),
        Command("furiosa-smi-info", FURIOSA_SMI, ("info", "--format", "full"), "full"),
        Command("furiosa-smi-info", FURIOSA_SMI, ("info",)),
        Command("furiosa-smi-status", FURIOSA_SMI, ("status", *_JSON), "json"),
        Command("furiosa-smi-status", FURIOSA_SMI, ("status",)),
        Command("furiosa-smi-ps", FURIOSA_SMI, ("ps", *_JSON), "json"),
        Command("furiosa-smi-ps", FURIOSA_SMI, ("ps",)),
        Command("furiosactl-version", FURIOSACTL, ("--version",)),
        Command("furiosactl-info", FURIOSACTL, ("info", *_JSON), "json"),
        Command("furiosactl-info", FURIOSACTL, ("info", "--full"), "full"),
        Command("furiosactl-info", FURIOSACTL, ("info",)),
        Command("furiosactl-list", FURIOSACTL, ("list",)),
        Command("furiosactl-ps", FURIOSACTL, ("ps",)),
    ),
    trees=(
        Tree("furiosa-sysfs", "sys", tuple(f"class/{name}/*" for name in CLASS_FOLDERS), _CARD_FILES),
        Tree(
            "furiosa-hwmon",
            "sys",
            ("bus/pci/devices/*",),
            (
                "vendor",
                "device",
                "numa_node",
                "current_link_speed",
                "current_link_width",
                "max_link_speed",
                "max_link_width",
                "hwmon/hwmon*/name",
                "hwmon/hwmon*/*_input",
                "hwmon/hwmon*/*_label",
                "hwmon/hwmon*/*_average",
                "hwmon/hwmon*/*_max",
            ),
            only=("vendor", "0x1ed2"),
        ),
        Tree("furiosa-debugfs", "sys", ("kernel/debug/rngd/mgmt*",), ("power_limit*_mw", "power_max_mw")),
        Tree("furiosa-devices", "dev", ("npu*", "rngd/*"), ()),
    ),
    serial_names=("soc_u?id",),
)
