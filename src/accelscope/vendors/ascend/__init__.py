"""Huawei Ascend NPUs, through the driver's npu-smi."""

from accelscope.vendors.declaration import (
    DialectDeclaration,
    NodeAnnotation,
    PluginDeclaration,
    VendorDeclaration,
    VendorSetting,
)

NPU_METRICS = "k8s-monitor.io/npu-metrics"
NPU_SMI = VendorSetting(
    name="npu_smi_path",
    default="npu-smi",
    help="Path of npu-smi, the tool of Ascend's driver.",
    plugin_help="Path of npu-smi, the tool of Ascend's driver.",
)
DRIVER_ROOT = VendorSetting(
    name="ascend_driver_root",
    default="/usr/local/Ascend/driver",
    help="Folder of Ascend's driver, with the libraries of npu-smi.",
    plugin_help="Folder of Ascend's driver, which is mounted into containers.",
    absolute=True,
)

VENDOR = VendorDeclaration(
    package=__name__,
    name="ascend",
    title="Ascend",
    order=30,
    reader="reader:open_reader",
    sources="capture:SOURCES",
    examination="doctor:EXAMINATION",
    capture_plan="capture:PLAN",
    error_codes="error_codes",
    lists_current_errors=True,
    plugin=PluginDeclaration(
        part="plugin:open_part",
        other_resources=("huawei.com/Ascend910", "huawei.com/Ascend310P"),
        why_no_cdi="Ascend's driver has no CDI names",
    ),
    settings=(NPU_SMI, DRIVER_ROOT),
    dialects=(
        DialectDeclaration(
            name="npu-exporter",
            package=__name__,
            part="npu_exporter:dialect",
            exporter="npu-exporter",
            page_marker="npu_chip_info_",
        ),
    ),
    account_names=("hwhiaiuser",),
    simulated="simulated.driver:VENDOR",
    words=("npu-smi", "npu-exporter", "davinci", "hccn", "19e5"),
    model_prefix="Huawei",
    resource_domain="huawei.com",
    device_ids="plugin:resolve",
    visible_devices=("ASCEND_VISIBLE_DEVICES", "ASCEND_RT_VISIBLE_DEVICES"),
    annotation=NodeAnnotation(
        name=NPU_METRICS,
        setting="npu_annotation",
        help="Write the state of Ascend chips to the Node annotation k8s-monitor.io/npu-metrics if --readers "
        "includes ascend. Needs permission to patch nodes.",
        member="chips",
        entries="npu_exporter:entries",
        device="draft:device_of",
    ),
    node_labels=(
        r"accelerator/huawei-npu",
        r"feature\.node\.kubernetes\.io/pci-12[0-9a-f]{2}_19e5\.present",
    ),
)
