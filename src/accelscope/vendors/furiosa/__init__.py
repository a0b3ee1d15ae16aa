"""FuriosaAI Warboy and RNGD, from sysfs and hwmon, furiosa-smi and furiosactl."""

from accelscope.vendors.declaration import (
    DialectDeclaration,
    PluginDeclaration,
    VendorDeclaration,
    VendorSetting,
)

FURIOSA_SMI = VendorSetting(
    name="furiosa_smi_path",
    default="furiosa-smi",
    help="The furiosa-smi tool, for what Furiosa's driver does not show in /sys.",
    plugin_help="For what Furiosa's driver does not show in /sys.",
)
FURIOSACTL = VendorSetting(
    name="furiosactl_path",
    default="furiosactl",
    help="The furiosactl tool of older Warboy installations.",
    plugin_help="The tool of older Warboy installations.",
)
DEFAULT_PE = VendorSetting(
    name="default_pe",
    default="Fusion",
    help="Furiosa: offer whole cards (Fusion: npu0pe0-1) or each core by itself (Single: npu0pe0, npu0pe1).",
    choices=("Fusion", "Single"),
)
PARTITION = VendorSetting(
    name="partition",
    default="none",
    help="Furiosa RNGD: offer partitions of one, two or four cores, each size as a resource of its own.",
    choices=("none", "single-core", "dual-core", "quad-core"),
)

VENDOR = VendorDeclaration(
    package=__name__,
    name="furiosa",
    title="Furiosa",
    order=40,
    reader="reader:open_reader",
    sources="capture:SOURCES",
    examination="doctor:EXAMINATION",
    capture_plan="capture:PLAN",
    error_codes="error_codes",
    reset_counters=("uptime",),
    plugin=PluginDeclaration(
        part="plugin:open_part",
        default=True,
        socket_name="furiosa-npu",
        resource="beta.furiosa.ai/npu",
        other_resources=(
            "furiosa.ai/rngd-1core.6gb",
            "furiosa.ai/rngd-2core.12gb",
            "furiosa.ai/rngd-4core.24gb",
        ),
        settings=(DEFAULT_PE, PARTITION),
        division="plugin:division",
        partition_cores=(1, 2, 4),
        named_cores="plugin:named_cores",
    ),
    settings=(FURIOSA_SMI, FURIOSACTL),
    dialects=(
        DialectDeclaration(
            name="furiosa",
            package=__name__,
            part="dialect:dialect",
            same_names=("furiosa-2024", "furiosa-2025"),
            exporter="Furiosa's metrics exporter",
        ),
        DialectDeclaration(
            name="furiosa-2024",
            package=__name__,
            part="dialect:dialect_2024",
            same_names=("furiosa-2025",),
            exporter="Furiosa's metrics exporter",
        ),
        DialectDeclaration(
            name="furiosa-2025",
            package=__name__,
            part="dialect:dialect_2025",
            exporter="Furiosa's metrics exporter",
            page_marker="furiosa_npu_",
        ),
    ),
    simulated="simulated.driver:VENDOR",
    words=("furiosactl", "furiosasmi", "rngd", "warboy", "1ed2"),
    model_prefix="FuriosaAI",
    harmless_throttles=("idle",),
    fault_throttles=("thermal_slowdown", "hw_power_cap"),
    resource_domain="furiosa.ai",
    device_ids="plugin:resolve",
    visible_devices=("NPU_DEVNAME",),
    label_domains=(("beta.furiosa.ai", "dialect:former_labels"), ("furiosa.ai", "dialect:labels")),
    node_labels=(
        r"(?:beta\.)?furiosa\.ai/npu\.(?:count|product|family)",
        r"feature\.node\.kubernetes\.io/pci-(?:12[0-9a-f]{2}_)?1ed2\.present",
    ),
)
