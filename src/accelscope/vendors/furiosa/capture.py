"""furiosa-smi, furiosactl, and the files of the drivers of Warboy and RNGD."""

from accelscope.capture.plan import Command, Plan, Tree
from accelscope.model import Vendor
from accelscope.readers.furiosa.reader import CLASS_FOLDERS

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
    vendor=Vendor.FURIOSA,
    commands=(
        Command("furiosa-smi-version", "furiosa_smi", ("version",)),
        Command("furiosa-smi-info", "furiosa_smi", ("info", *_JSON), "json"),
        Command("furiosa-smi-info", "furiosa_smi", ("info", "--format", "full"), "full"),
        Command("furiosa-smi-info", "furiosa_smi", ("info",)),
        Command("furiosa-smi-status", "furiosa_smi", ("status", *_JSON), "json"),
        Command("furiosa-smi-status", "furiosa_smi", ("status",)),
        Command("furiosa-smi-ps", "furiosa_smi", ("ps", *_JSON), "json"),
        Command("furiosa-smi-ps", "furiosa_smi", ("ps",)),
        Command("furiosactl-version", "furiosactl", ("--version",)),
        Command("furiosactl-info", "furiosactl", ("info", *_JSON), "json"),
        Command("furiosactl-info", "furiosactl", ("info", "--full"), "full"),
        Command("furiosactl-info", "furiosactl", ("info",)),
        Command("furiosactl-list", "furiosactl", ("list",)),
        Command("furiosactl-ps", "furiosactl", ("ps",)),
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
        Tree("furiosa-devices", "dev", ("npu*", "rngd/*"), ()),
    ),
)
