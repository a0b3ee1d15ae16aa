"""Outputs of AMD's tools and files of its driver: which accelscope parse reads and which accelscope capture
records."""

import re

from accelscope.capture.plan import Command, Plan, Tree
from accelscope.model import Vendor
from accelscope.parsing import OutputFormat
from accelscope.vendors.amd import AMD_SMI, ROCM_SMI, parse_amd_smi, parse_monitor, parse_rocm_smi

# --- accelscope parse -----------------------------------------------------


SOURCES = (
    OutputFormat(
        "rocm-smi-json",
        "rocm-smi … --json: cards and processes",
        lambda text, _fields: parse_rocm_smi.parse_rocm_json(text),
    ),
    OutputFormat(
        "rocm-smi-csv",
        "rocm-smi … --csv: one row per card",
        lambda text, _fields: parse_rocm_smi.parse_rocm_csv(text),
    ),
    OutputFormat(
        "rocm-smi-table",
        "rocm-smi without --json: the table of GPUs, also that of --showhw",
        lambda text, _fields: parse_rocm_smi.parse_rocm_table(text),
    ),
    OutputFormat(
        "amd-smi-metric",
        "amd-smi metric, as JSON or text: measurements of each GPU",
        lambda text, _fields: parse_amd_smi.parse_metric(text),
    ),
    OutputFormat(
        "amd-smi-static",
        "amd-smi static, as JSON or text: identity and limits of each GPU",
        lambda text, _fields: parse_amd_smi.parse_static(text),
        names_devices=True,
    ),
    OutputFormat(
        "amd-smi-process",
        "amd-smi process, as JSON or text: processes with their memory",
        lambda text, _fields: parse_amd_smi.parse_process(text),
    ),
    OutputFormat(
        "amd-smi-monitor",
        "amd-smi monitor: the tables of GPUs and processes",
        lambda text, _fields: parse_monitor.parse(text),
    ),
)


# --- accelscope capture ---------------------------------------------------


_IDENTITY_FILES = (  # which do not wake the GPU
    "vendor",
    "device",
    "revision",
    "subsystem_vendor",
    "subsystem_device",
    "uevent",
    "unique_id",
    "serial_number",
    "product_name",
    "product_number",
    "vbios_version",
    "numa_node",
    "drm/*/dev",
)
_DEVICE_FILES = (
    *_IDENTITY_FILES,
    "gpu_busy_percent",
    "mem_busy_percent",
    "vcn_busy_percent",
    "mem_info_*",
    "pp_dpm_*",
    "pcie_replay_count",
    "current_link_speed",
    "current_link_width",
    "max_link_speed",
    "max_link_width",
    "thermal_throttling_logging",
    "current_compute_partition",
    "available_compute_partition",
    "current_memory_partition",
    "xgmi_hive_info/*",
    "xgmi_device_id",
    "xgmi_physical_id",
    "xgmi_port_num",
    "gpu_metrics",
    "power/runtime_status",
    "ras/*_err_count",
    "ras/features",
    "ras/gpu_vram_bad_pages",
    "hwmon/hwmon*/name",
    "hwmon/hwmon*/*_input",
    "hwmon/hwmon*/*_label",
    "hwmon/hwmon*/*_average",
    "hwmon/hwmon*/*_crit",
    "hwmon/hwmon*/*_emergency",
    "hwmon/hwmon*/power1_cap*",
    "hwmon/hwmon*/pwm1*",
)

PLAN = Plan(
    vendor=Vendor("amd"),
    commands=(
        Command("amd-smi-version", AMD_SMI, ("version",)),
        Command("amd-smi-list", AMD_SMI, ("list", "--json")),
        Command("amd-smi-static", AMD_SMI, ("static", "--json")),
        Command("amd-smi-metric", AMD_SMI, ("metric", "--json")),
        Command("amd-smi-xgmi", AMD_SMI, ("xgmi", "--json")),
        Command("amd-smi-process", AMD_SMI, ("process", "--json")),
        Command("amd-smi-monitor", AMD_SMI, ("monitor",)),
        Command("rocm-smi-json", ROCM_SMI, ("-a", "--json")),
    ),
    trees=(
        Tree(
            "amd-sysfs",
            "sys",
            ("class/drm/card[0-9]*/device",),
            _DEVICE_FILES,
            only=("vendor", "0x1002"),
            asleep=("power/runtime_status", "suspend"),
            asleep_files=_IDENTITY_FILES,
            binary=("gpu_metrics",),
        ),
        Tree("amd-module", "sys", ("module/amdgpu",), ("version", "srcversion", "initstate")),
        Tree("kernel-release", "proc", ("sys/kernel",), ("osrelease",), shared=True),
        Tree("drm-render-nodes", "sys", ("class/drm/renderD*",), (), shared=True),
        Tree(
            "drm-fdinfo",
            "proc",
            ("[0-9]*/fdinfo",),
            ("[0-9]*",),
            opened=re.compile(r"(?:.*/)?dri/(?:renderD|card)[0-9]+"),
            shared=True,
        ),
        Tree(
            "amd-kfd",
            "sys",
            ("class/kfd/kfd",),
            (
                "topology/generation_id",
                "topology/nodes/*/gpu_id",
                "topology/nodes/*/name",
                "topology/nodes/*/properties",
                "topology/nodes/*/mem_banks/*/properties",
                "topology/nodes/*/mem_banks/*/used_memory",
                "proc/*/pasid",
                "proc/*/vram_*",
                "proc/*/sdma_*",
                "proc/*/stats_*/*",
            ),
        ),
    ),
    command_lines=(
        re.compile(r'("PID[0-9]+"\s*:\s*")((?:[^"\\]|\\.)*?)((?:,[^,"]*){4}")'),  # rocm-smi
        re.compile(r"^(drm-client-name:[ \t]*)(.*)()$", re.MULTILINE),
    ),
    decimal_serials=(re.compile(r"^unique_id ([0-9]{4,20})$", re.MULTILINE),),  # properties of a KFD node
    hex_ids=(r"(?<=GPU-)[0-9A-Fa-f]{16}(?![0-9A-Fa-f-])",),  # HIP's uuid: a unique id after GPU-
)
