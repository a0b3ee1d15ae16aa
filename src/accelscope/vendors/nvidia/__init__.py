"""NVIDIA GPUs, through NVML if its library is installed, else through nvidia-smi."""

from accelscope.vendors.declaration import (
    DialectDeclaration,
    DriverPods,
    PluginDeclaration,
    VendorDeclaration,
    VendorSetting,
)

NVML_LIBRARY = VendorSetting(
    name="nvml_library",
    default="libnvidia-ml.so.1",
    help="NVML library: name or path. The usual paths of driver containers are tried, too.",
    plugin_help="NVML library: name or path.",
)
NVIDIA_SMI = VendorSetting(
    name="nvidia_smi_path",
    default="nvidia-smi",
    help="The nvidia-smi tool, used if there is no NVML library.",
    plugin_help="The nvidia-smi tool, used if there is no NVML library.",
)
DCGM_COUNTERS = VendorSetting(
    name="dcgm_counters",
    default="",
    help="Counters file of dcgm-exporter (CSV: field, type, help text) that selects the fields of the "
    "dialect dcgm; default: dcgm-exporter's default list. Reloaded when it changes.",
    metavar="FILE",
    watched=True,
)
DCGM_HOSTNAME_LABEL = VendorSetting(
    name="dcgm_hostname_label",
    default="Hostname",
    help="Label of the dialect dcgm for the node's name: Hostname as in dcgm-exporter up to 4.8.2, "
    "hostname as in 4.8.3 and later.",
    choices=("Hostname", "hostname"),
)

VENDOR = VendorDeclaration(
    package=__name__,
    name="nvidia",
    title="NVIDIA",
    order=10,  # the lowest: the simulated NVML uses addresses of the first PCI domain
    reader="reader:open_reader",
    sources="capture:SOURCES",
    examination="doctor:EXAMINATION",
    capture_plan="capture:PLAN",
    error_codes="error_codes",
    reset_counters=("energy", "replays"),
    driver_modules=("nvidia",),
    plugin=PluginDeclaration(part="plugin:open_part", resource="nvidia.com/gpu"),
    settings=(NVML_LIBRARY, NVIDIA_SMI),
    dialects=(
        DialectDeclaration(
            name="dcgm",
            package=__name__,
            part="dcgm:dialect",
            options=(DCGM_COUNTERS, DCGM_HOSTNAME_LABEL),
            exporter="dcgm-exporter",
            page_marker="DCGM_FI_",
        ),
    ),
    exporter_labels="dcgm:exporter_labels",
    simulated="simulated.driver:VENDOR",
    words=("nvml", "pynvml", "dcgm", "cuda", "xid", "10de"),
    model_prefix="NVIDIA",
    harmless_throttles=(
        "gpu_idle",
        "applications_clocks_setting",
        "display_clock_setting",
        "sync_boost",
    ),
    fault_throttles=(
        "hw_slowdown",
        "hw_thermal_slowdown",
        "sw_thermal_slowdown",
        "hw_power_brake_slowdown",
    ),
    lists_all_processes=True,
    resource_domain="nvidia.com",
    device_ids="plugin:resolve",
    visible_devices=("NVIDIA_VISIBLE_DEVICES",),
    visible_devices_folder="/var/run/nvidia-container-devices",
    indexes_job_files=True,  # the folder is that of dcgm-exporter
    makes_gpus=True,
    node_labels=(
        r"nvidia\.com/gpu\.(?:present|product|count)",
        r"feature\.node\.kubernetes\.io/pci-(?:03[0-9a-f]{2}_)?10de\.present",
    ),
    driver_pods=DriverPods(
        namespaces=("gpu-operator", "nvidia-gpu-operator"),
        containers="driver_pods:containers",
        tool="driver_pods:NvidiaSmi",
    ),
)
