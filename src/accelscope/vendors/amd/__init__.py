"""AMD GPUs: read from the files of the amdgpu driver, completed with amd-smi or rocm-smi."""

from accelscope.vendors.declaration import (
    DialectDeclaration,
    PluginDeclaration,
    VendorDeclaration,
    VendorSetting,
)

AMD_SMI = VendorSetting(
    name="amd_smi_path",
    default="amd-smi",
    help="Path of amd-smi, used for values that the amdgpu driver does not provide in /sys.",
    plugin_help="Path of amd-smi, used for values that the amdgpu driver does not provide in /sys.",
)
ROCM_SMI = VendorSetting(
    name="rocm_smi_path",
    default="rocm-smi",
    help="Path of rocm-smi, used if amd-smi is not installed.",
    plugin_help="Path of rocm-smi, used if amd-smi is not installed.",
)
DIALECT_PREFIX = VendorSetting(
    name="amd_dialect_prefix",
    default="",
    help="Prefix of metric names in the dialect amd; AMD's charts set amd_.",
    metavar="PREFIX",
    pattern=("the beginning of a metric name, such as amd_", r"([A-Za-z_:][A-Za-z0-9_:]*)?"),
)

VENDOR = VendorDeclaration(
    package=__name__,
    name="amd",
    title="AMD",
    order=20,
    reader="reader:open_reader",
    sources="capture:SOURCES",
    examination="doctor:EXAMINATION",
    capture_plan="capture:PLAN",
    error_codes="error_codes",
    resets_after_errors=True,
    reset_counters=("energy",),  # replays have two sources
    driver_modules=("amdgpu",),
    plugin=PluginDeclaration(part="plugin:open_part", resource="amd.com/gpu"),
    settings=(AMD_SMI, ROCM_SMI),
    dialects=(
        DialectDeclaration(
            name="amd",
            package=__name__,
            part="dialect:dialect",
            options=(DIALECT_PREFIX,),
            exporter="AMD's device-metrics-exporter",
            page_marker="gpu_nodes_total",
        ),
    ),
    exporter_labels="dialect:exporter_labels",
    simulated="simulated.driver:VENDOR",
    words=("amdgpu", "amdsmi", "rocm", "kfd", "1002"),
    model_prefix="AMD",
    harmless_throttles=(
        "low_utilization",
        "total_gfx_clk_below_host_limit",  # for any reason, including low utilization
    ),
    fault_throttles=(
        "prochot",
        "socket_thermal",
        "vr_thermal",
        "hbm_thermal",
        "gfx_clk_below_host_limit_thermal",
    ),
    resource_domain="amd.com",
    device_ids="plugin:resolve",
    first_partition_by_address=True,
    visible_devices=("AMD_VISIBLE_DEVICES",),
    makes_gpus=True,
    # Only PCI classes 03 (display) and 12 (accelerator): AMD makes other PCI devices too.
    node_labels=(
        r"(?:beta\.)?amd\.com/gpu\..+",
        r"feature\.node\.kubernetes\.io/amd-v?gpu",
        r"feature\.node\.kubernetes\.io/pci-(?:03|12)[0-9a-f]{2}_1002\.present",
    ),
)
