"""The dashboards that people have: each name and label that their queries use is on our pages.

What a dashboard asks for and no page of ours has is named here with the reason, and in the documentation.
"""

import re

import pytest
from tests.metrics.dialect_nodes import EVERYTHING, later

from accelscope.metrics import dialects
from accelscope.metrics.exposition import Exposition

# Put on by Prometheus at the scrape, or made from ours by `honor_labels: false`.
SCRAPE = {"instance", "job", "exported_pod", "exported_namespace", "exported_container"}
# Where no pod holds a device, these have no value and, in some dialects, no place.
WORKLOAD = {"pod", "namespace", "container", "job_id", "pod_name", "container_name"}

# dashboard -> dialect, names, labels, names that it asks for in vain
DASHBOARDS: dict[str, tuple[str, str, str, str]] = {
    "dcgm-exporter-dashboard.json (12239)": (
        "dcgm",
        "DCGM_FI_DEV_GPU_TEMP DCGM_FI_DEV_POWER_USAGE DCGM_FI_DEV_SM_CLOCK DCGM_FI_DEV_GPU_UTIL "
        "DCGM_FI_DEV_FB_USED DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",
        "instance gpu",
        "",
    ),
    "OpenShift console plugin": (
        "dcgm",
        "DCGM_FI_PROF_GR_ENGINE_ACTIVE DCGM_FI_DEV_MEM_COPY_UTIL DCGM_FI_DEV_ENC_UTIL DCGM_FI_DEV_DEC_UTIL "
        "DCGM_FI_DEV_POWER_USAGE DCGM_FI_DEV_GPU_TEMP DCGM_FI_DEV_SM_CLOCK DCGM_FI_DEV_MEM_CLOCK "
        "DCGM_FI_DEV_MEMORY_TEMP DCGM_FI_DEV_GPU_UTIL",
        "UUID GPU_I_ID modelName gpu device instance exported_pod exported_namespace",
        "",  # its four further fields are in no default list of the exporter: see below
    ),
    "HAMi-WebUI": (
        "npu-exporter",
        "npu_chip_info_hbm_used_memory npu_chip_info_hbm_total_memory npu_chip_info_utilization "
        "npu_chip_info_temperature npu_chip_info_power",
        "vdie_id",
        "",
    ),
    "KubeSphere whizard": (
        "npu-exporter",
        "npu_chip_info_temperature npu_chip_info_power npu_chip_info_hbm_used_memory "
        "npu_chip_info_hbm_total_memory npu_chip_info_hbm_utilization",
        "id model_name container_name pod_name exported_namespace",
        "",
    ),
    "device-metrics-exporter grafana/dashboard_*.json": (
        "amd",
        "gpu_package_power gpu_average_package_power gpu_edge_temperature gpu_junction_temperature "
        "gpu_memory_temperature gpu_hbm_temperature gpu_gfx_activity gpu_gfx_busy_instantaneous gpu_health "
        "gpu_nodes_total gpu_total_vram gpu_used_vram gpu_energy_consumed gpu_ecc_correct_total "
        "gpu_ecc_uncorrect_total pcie_bandwidth pcie_max_speed pcie_replay_count pcie_recovery_count "
        "pcie_replay_rollover_count pcie_nack_sent_count pcie_nack_received_count",
        "cluster_name hostname gpu_id gpu_uuid gpu_partition_id card_model job_id pod hbm_index xcc_index "
        "vbios_version driver_version card_vendor card_series serial_number",
        "gpu_prof_",  # profiling is off by default there too
    ),
    "furiosa npu-dashboard.json, npu-dashboard-with-pod.json": (
        "furiosa-2025",
        "furiosa_npu_alive furiosa_npu_core_frequency furiosa_npu_core_utilization furiosa_npu_hw_power "
        "furiosa_npu_hw_temperature furiosa_npu_task_execution_cycle furiosa_npu_total_cycle_count",
        "hostname device core namespace pod container",
        "",
    ),
    "Perses: Accelerators common metrics": (
        "openshift",
        "accelerator_gpu_utilization accelerator_memory_used_bytes accelerator_memory_total_bytes "
        "accelerator_power_usage_watts accelerator_temperature_celsius accelerator_sm_clock_hertz "
        "accelerator_memory_clock_hertz",
        "vendor",
        "",
    ),
}
each = pytest.mark.parametrize("dashboard", DASHBOARDS)

# Which of a dialect's families have a series depends on what a device gives; the page tests show those. The
# names must be declared, and on a page that has them their labels must be these.
NOT_ON_THESE_NODES = {"pcie_bandwidth", "pcie_replay_rollover_count", "pcie_nack_received_count"}


def page(dialect: str) -> str:
    exposition = Exposition(dialects=dialects.load((dialect,)))
    exposition.render(EVERYTHING)
    return exposition.render(later(EVERYTHING)).text.decode()


@each
def test_names_of_a_dashboard_are_on_the_page(dashboard: str) -> None:
    dialect, names, _, _ = DASHBOARDS[dashboard]
    declared = {family.name for family in dialects.load((dialect,))[0].families}
    shown = set(re.findall(r"^# TYPE (\S+)", page(dialect), re.MULTILINE))
    assert set(names.split()) - NOT_ON_THESE_NODES <= shown
    assert set(names.split()) <= declared | shown


@each
def test_labels_of_a_dashboard_are_on_the_series_that_it_asks_for(dashboard: str) -> None:
    dialect, names, labels, _ = DASHBOARDS[dashboard]
    series = [x for x in page(dialect).splitlines() if x.split("{")[0] in names.split()]
    found = {label for line in series for label in re.findall(r'(\w+)="', line)}
    assert set(labels.split()) - SCRAPE - WORKLOAD <= found


@each
def test_what_a_dashboard_asks_for_in_vain_is_told(dashboard: str) -> None:
    dialect, _, _, vain = DASHBOARDS[dashboard]
    [made] = dialects.load((dialect,))
    told = " ".join(missing.names for missing in made.missing)
    assert all(name in told for name in vain.split())


def test_the_further_fields_of_the_openshift_console_plugin_can_be_chosen() -> None:
    [made] = dialects.load(("dcgm",))
    wanted = ("POWER_MGMT_LIMIT_MAX", "MAX_SM_CLOCK", "MAX_MEM_CLOCK", "FAN_SPEED")
    assert {f"DCGM_FI_DEV_{name}" for name in wanted} <= {f.name for f in made.optional_families}
