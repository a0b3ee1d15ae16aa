"""Names, types and labels of each dialect, as the exporters have them, written down here a second time."""

import re
from dataclasses import replace
from fnmatch import fnmatchcase

import pytest
from tests.metrics.dialect_nodes import (
    ASCEND_910B,
    CUT_H100,
    H100,
    MI250,
    MI300X,
    NODES,
    RNGD,
    RTX,
    WARBOY,
    later,
    node,
    on,
)

from accelscope.agent.settings import AgentSettings
from accelscope.config import ConfigError, load
from accelscope.metrics import dialects
from accelscope.metrics.exposition import Exposition
from accelscope.model import Clock, Device, Health, HealthState, Snapshot, Throttle

GAUGE, COUNTER = "gauge", "counter"

DCGM_LABELS = "gpu UUID pci_bus_id device modelName GPU_I_PROFILE? GPU_I_ID? Hostname DCGM_FI_DRIVER_VERSION"
DCGM = {
    "DCGM_FI_DEV_SM_CLOCK": GAUGE,
    "DCGM_FI_DEV_MEM_CLOCK": GAUGE,
    "DCGM_FI_DEV_MEMORY_TEMP": GAUGE,
    "DCGM_FI_DEV_GPU_TEMP": GAUGE,
    "DCGM_FI_DEV_POWER_USAGE": GAUGE,
    "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": COUNTER,
    "DCGM_FI_DEV_PCIE_REPLAY_COUNTER": COUNTER,
    "DCGM_FI_DEV_GPU_UTIL": GAUGE,
    "DCGM_FI_DEV_MEM_COPY_UTIL": GAUGE,
    "DCGM_FI_DEV_ENC_UTIL": GAUGE,
    "DCGM_FI_DEV_DEC_UTIL": GAUGE,
    "DCGM_FI_DEV_XID_ERRORS": GAUGE,
    "DCGM_FI_DEV_FB_FREE": GAUGE,
    "DCGM_FI_DEV_FB_USED": GAUGE,
    "DCGM_FI_DEV_FB_RESERVED": GAUGE,
    "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL": COUNTER,
    "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS": COUNTER,
    "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS": COUNTER,
    "DCGM_FI_DEV_ROW_REMAP_FAILURE": GAUGE,
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE": GAUGE,
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": GAUGE,
    "DCGM_FI_PROF_DRAM_ACTIVE": GAUGE,
    "DCGM_FI_PROF_PCIE_TX_BYTES": GAUGE,
    "DCGM_FI_PROF_PCIE_RX_BYTES": GAUGE,
}
NPU_LABELS = "container_name id model_name namespace pcie_bus_info pod_name vdie_id"
NPU_OWN = {
    "machine_npu_nums": "",
    "machine_card_nums": "",
    "npu_exporter_version_info": "exporterVersion",
    "node_base_info": "driverVersion exporterVersion",
    "npu_chip_info_name": "container_name id name namespace pcie_bus_info pod_name vdie_id",
    "npu_chip_info_serial_number": (
        "container_name id model_name namespace pcie_bus_info pod_name serial_number vdie_id"
    ),
    "npu_chip_info_process_info": (
        "container_id container_name id model_name namespace pcie_bus_info pod_name process_id vdie_id"
    ),
}
NPU = [
    "machine_npu_nums",
    "machine_card_nums",
    "npu_exporter_version_info",
    "node_base_info",
    "npu_chip_info_name",
    "npu_chip_info_health_status",
    "npu_chip_info_error_code",
    "npu_chip_info_error_code_1",
    "npu_chip_info_utilization",
    "npu_chip_info_overall_utilization",
    "npu_chip_info_vector_utilization",
    "npu_chip_info_cube_utilization",
    "npu_chip_info_temperature",
    "npu_chip_info_power",
    "npu_chip_info_voltage",
    "npu_chip_info_aicore_current_freq",
    "npu_chip_info_hbm_used_memory",
    "npu_chip_info_hbm_total_memory",
    "npu_chip_info_hbm_utilization",
    "npu_chip_info_hbm_bandwidth_utilization",
    "npu_chip_info_hbm_temperature",
    "npu_chip_info_hbm_ecc_single_bit_error_cnt",
    "npu_chip_info_hbm_ecc_double_bit_error_cnt",
    "npu_chip_info_hbm_ecc_total_single_bit_error_cnt",
    "npu_chip_info_hbm_ecc_total_double_bit_error_cnt",
    "npu_chip_info_hbm_ecc_single_bit_isolated_pages_cnt",
    "npu_chip_info_hbm_ecc_double_bit_isolated_pages_cnt",
    "npu_chip_info_used_memory",
    "npu_chip_info_total_memory",
    "npu_chip_info_process_info",
    "npu_chip_info_process_info_num",
    "npu_chip_info_serial_number",
]
AMD_LABELS = (
    "card_model card_series card_vendor cluster_name container deployment_mode driver_version "
    "gpu_compute_partition_type gpu_id gpu_memory_partition_type gpu_partition_id gpu_uuid hostname job_id "
    "job_partition job_user namespace pod serial_number vbios_version"
)
AMD_OWN = {
    "gpu_nodes_total": "cluster_name hostname",
    "gpu_hbm_temperature": f"{AMD_LABELS} hbm_index",
    "gpu_gfx_busy_instantaneous": f"{AMD_LABELS} xcc_index",
    "gpu_clock": f"{AMD_LABELS} clock_index clock_type",
    "gpu_max_clock": f"{AMD_LABELS} clock_index clock_type",
    "gpu_xgmi_link_rx": f"{AMD_LABELS} link_index",
    "gpu_xgmi_link_tx": f"{AMD_LABELS} link_index",
}
AMD = [
    "gpu_nodes_total",
    "gpu_health",
    "gpu_package_power",
    "gpu_average_package_power",
    "gpu_power_usage",
    "gpu_energy_consumed",
    "gpu_edge_temperature",
    "gpu_junction_temperature",
    "gpu_memory_temperature",
    "gpu_hbm_temperature",
    "gpu_gfx_activity",
    "gpu_umc_activity",
    "gpu_gfx_busy_instantaneous",
    "gpu_clock",
    "gpu_max_clock",
    "gpu_voltage",
    "gpu_gfx_voltage",
    "gpu_memory_voltage",
    "gpu_total_vram",
    "gpu_used_vram",
    "gpu_free_vram",
    "pcie_speed",
    "pcie_max_speed",
    "pcie_bandwidth",
    "pcie_replay_count",
    "pcie_recovery_count",
    "pcie_nack_sent_count",
    "gpu_xgmi_link_rx",
    "gpu_xgmi_link_tx",
    "gpu_ecc_correct_total",
    "gpu_ecc_uncorrect_total",
    "gpu_ecc_deferred_total",
    "gpu_ecc_correct_umc",
    "gpu_ecc_uncorrect_bif",
]
FURIOSA_LABELS = "arch core device kubernetes_node_name uuid"
FURIOSA = {
    "furiosa_npu_alive": "",
    "furiosa_npu_uptime": "",
    "furiosa_npu_error": "label",
    "furiosa_npu_hw_temperature": "label",
    "furiosa_npu_hw_power": "label",
    "furiosa_npu_hw_voltage": "label",
    "furiosa_npu_hw_current": "label",
    "furiosa_npu_core_utilization": "",
}
FURIOSA_2024 = {
    "furiosa_npu_alive": "",
    "furiosa_npu_error": "label",
    "furiosa_npu_hw_temperature": "label",
    "furiosa_npu_hw_power": "label",
    "furiosa_npu_core_utilization": "",
}
FURIOSA_2025_LABELS = "arch core device driver_version? firmware_version? hostname pci_bus_id? uuid"
FURIOSA_2025 = {
    "furiosa_npu_alive": "",
    "furiosa_npu_hw_temperature": "label",
    "furiosa_npu_hw_power": "label",
    "furiosa_npu_core_utilization": "",
    "furiosa_npu_core_frequency": "",
    "furiosa_npu_dram_total": "",
    "furiosa_npu_dram_usage": "",
    "furiosa_npu_throttling_events_count": "label",
}
FURIOSA_2025_COUNTERS = ("furiosa_npu_total_cycle_count", "furiosa_npu_task_execution_cycle")
OPENSHIFT = [
    "accelerator_gpu_utilization",
    "accelerator_power_usage_watts",
    "accelerator_sm_clock_hertz",
    "accelerator_memory_clock_hertz",
]
VGPU = ["pod_gpu_sm_util", "pod_gpu_memory_used", "pod_total_gpu_memory"]

# Those of the series that the operators' rules record: of dcgm-exporter for NVIDIA, of AMD's exporter
# for AMD. A label without a value is left out.
OPENSHIFT_LABELS = " ".join(
    f"{label}?"
    for label in sorted(
        {"accelerator_id"}
        | {label.rstrip("?") for label in DCGM_LABELS.split()} - {"device", "GPU_I_PROFILE", "GPU_I_ID"}
        | set(AMD_LABELS.split())
    )
)


# dialect -> name -> type, labels in the order of the page (`x?`: not on every series)
TABLES: dict[str, dict[str, tuple[str, str]]] = {
    "dcgm": {
        name: (kind, DCGM_LABELS + (" err_code err_msg" if name.endswith("XID_ERRORS") else ""))
        for name, kind in DCGM.items()
    },
    "npu-exporter": {name: (GAUGE, NPU_OWN.get(name, NPU_LABELS)) for name in NPU},
    "amd": {name: (GAUGE, " ".join(sorted(AMD_OWN.get(name, AMD_LABELS).split()))) for name in AMD},
    "furiosa": {
        name: (GAUGE, " ".join(sorted(f"{FURIOSA_LABELS} {own}".split()))) for name, own in FURIOSA.items()
    },
    "furiosa-2024": {
        name: (GAUGE, " ".join(sorted(f"{FURIOSA_LABELS} {own}".split())))
        for name, own in FURIOSA_2024.items()
    },
    "furiosa-2025": {
        name: (GAUGE, " ".join(sorted(f"{FURIOSA_2025_LABELS} {own}".split())))
        for name, own in FURIOSA_2025.items()
    }
    | dict.fromkeys(FURIOSA_2025_COUNTERS, (COUNTER, FURIOSA_2025_LABELS)),
    "openshift": dict.fromkeys(OPENSHIFT, (GAUGE, f"vendor device index {OPENSHIFT_LABELS}")),
    "vgpu": dict.fromkeys(VGPU, (GAUGE, "gpu_id namespace pod")),
}


def page(snapshot: Snapshot, name: str, **options: str) -> str:
    exposition = Exposition(families=(), dialects=dialects.load((name,), **options))
    exposition.render(snapshot)
    return exposition.render(later(snapshot)).text.decode()


def lines(text: str, name: str) -> list[str]:
    return re.findall(rf"^{name}(?:{{.*)? \S+$", text, re.MULTILINE)


def value(device: Device, dialect: str, name: str, *holding: str) -> str | None:
    """What the one series says whose labels hold these words."""
    found = [x for x in lines(page(node(device), dialect), name) if all(word in x for word in holding)]
    assert len(found) <= 1, found
    return found[0].rsplit(" ", 1)[1] if found else None


@pytest.mark.parametrize("name", TABLES)
def test_names_and_types(name: str) -> None:
    declared = dict(re.findall(r"^# TYPE (\S+) (\S+)$", page(NODES[name], name), re.MULTILINE))
    assert declared == {family: kind for family, (kind, _) in TABLES[name].items()}


@pytest.mark.parametrize(
    ("name", "family"), [(name, family) for name, table in TABLES.items() for family in table]
)
def test_labels_and_their_order(name: str, family: str) -> None:
    wanted = TABLES[name][family][1].split()
    needed = {label for label in wanted if not label.endswith("?")}
    order = [label.removesuffix("?") for label in wanted]
    for line in lines(page(NODES[name], name), family):
        labels = re.findall(r'(\w+)="', line)
        assert needed <= set(labels) <= set(order)
        assert labels == [label for label in order if label in labels]


def test_every_family_of_a_dialect_is_in_the_table_or_shown_to_be_absent() -> None:
    """Families that no node of these tests has: further fault codes, blocks without errors, pods."""
    rest = {
        name: {family.name for family in dialects.load((name,))[0].families} - set(table)
        for name, table in TABLES.items()
    }
    assert {name for name, families in rest.items() if families} == {"npu-exporter", "amd"}
    assert rest["npu-exporter"] == {
        *(f"npu_chip_info_error_code_{n}" for n in range(2, 10)),
        *(f"container_npu_{what}" for what in ("utilization", "total_memory", "used_memory")),
        "npu_container_info",
    }
    blocks = [
        "sdma",
        "gfx",
        "mmhub",
        "athub",
        "bif",
        "hdp",
        "xgmi_wafl",
        "df",
        "smn",
        "sem",
        "mp0",
        "mp1",
        "fuse",
        "umc",
        "mca",
        "vcn",
        "jpeg",
        "ih",
        "mpio",
    ]
    ecc = {f"gpu_ecc_{word}_{block}" for word in ("correct", "uncorrect", "deferred") for block in blocks}
    shown = {"gpu_ecc_correct_umc", "gpu_ecc_uncorrect_bif"}
    assert rest["amd"] == (ecc - shown) | {
        "pcie_replay_rollover_count",
        "pcie_nack_received_count",
    }


WHOLE_MI300X = replace(MI300X, partitions=(), compute_partition="SPX")
UNITS = [
    (H100, "dcgm", "DCGM_FI_DEV_SM_CLOCK", "1980"),
    (H100, "dcgm", "DCGM_FI_DEV_POWER_USAGE", "631.950000"),
    (H100, "dcgm", "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "123456789"),
    (H100, "dcgm", "DCGM_FI_DEV_GPU_UTIL", "29"),
    (H100, "dcgm", "DCGM_FI_DEV_MEM_COPY_UTIL", "57"),
    (H100, "dcgm", "DCGM_FI_DEV_MEMORY_TEMP", "52"),
    (H100, "dcgm", "DCGM_FI_DEV_FB_USED", "30720"),
    (H100, "dcgm", "DCGM_FI_DEV_FB_FREE", "50176"),
    (H100, "dcgm", "DCGM_FI_DEV_FB_RESERVED", "1023"),
    (H100, "dcgm", "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", "300"),  # 2 links, 100 + 50 MB/s each
    (H100, "dcgm", "DCGM_FI_PROF_DRAM_ACTIVE", "0.333333"),
    (H100, "dcgm", "DCGM_FI_PROF_PCIE_TX_BYTES", "1048576"),
    (MI300X, "amd", "gpu_energy_consumed", "1500000"),
    (WHOLE_MI300X, "amd", "gpu_gfx_activity", "7"),
    (WHOLE_MI300X, "amd", "gpu_total_vram", "196592"),
    (WHOLE_MI300X, "amd", "gpu_used_vram", "285"),
    (MI300X, "amd", "gpu_voltage", "800"),
    (MI300X, "amd", "gpu_gfx_voltage", "900"),
    (MI300X, "amd", "gpu_memory_voltage", "1100"),
    (MI300X, "amd", "pcie_speed", "32"),
    (MI300X, "amd", "pcie_bandwidth", "100"),
    (MI300X, "amd", "gpu_package_power", "142"),
    (ASCEND_910B, "npu-exporter", "npu_chip_info_hbm_used_memory", "59718"),
    (ASCEND_910B, "npu-exporter", "npu_chip_info_aicore_current_freq", "1800"),
    (ASCEND_910B, "npu-exporter", "npu_chip_info_power", "92.4"),
    (ASCEND_910B, "npu-exporter", "npu_chip_info_error_code", str(0x80E01801)),
    (WARBOY, "furiosa", 'furiosa_npu_hw_temperature{.*label="Peak".*', "49250"),
    (WARBOY, "furiosa", 'furiosa_npu_hw_power{.*label="PCI Total RMS PWR".*', "12920000"),
    (WARBOY, "furiosa", "furiosa_npu_hw_voltage", "750"),
    (WARBOY, "furiosa", "furiosa_npu_hw_current", "1200"),
    (WARBOY, "furiosa", "furiosa_npu_uptime", "42351"),
    (RNGD, "furiosa-2024", 'furiosa_npu_hw_temperature{.*label="peak".*', "67.756"),
    (RNGD, "furiosa-2024", 'furiosa_npu_hw_power{.*label="rms".*', "50500000"),
    (RNGD, "furiosa-2025", 'furiosa_npu_hw_temperature{.*label="peak".*', "67.756"),
    (RNGD, "furiosa-2025", 'furiosa_npu_hw_power{.*label="rms".*', "50.5"),
    (RNGD, "furiosa-2025", 'furiosa_npu_core_utilization{.*core="3".*', "3.07"),
    (RNGD, "furiosa-2025", 'furiosa_npu_core_frequency{.*core="7".*', "2000"),
    (RNGD, "furiosa-2025", "furiosa_npu_dram_total", "51002736640"),
    (RNGD, "furiosa-2025", 'furiosa_npu_total_cycle_count{.*core="3".*', "2022126000000000"),
    (RNGD, "furiosa-2025", 'furiosa_npu_task_execution_cycle{.*core="0".*', "0"),
    (H100, "openshift", "accelerator_gpu_utilization", "29"),
    (H100, "openshift", "accelerator_sm_clock_hertz", "1980000000"),
]


@pytest.mark.parametrize(("device", "dialect", "series", "expected"), UNITS, ids=[u[2] for u in UNITS])
def test_units(device: Device, dialect: str, series: str, expected: str) -> None:
    text = page(node(device), dialect)
    pattern = series if "{" in series else rf"{series}(?:{{.*}})?"
    assert re.findall(rf"^{pattern} (\S+)$", text, re.MULTILINE) == [expected]


# dcgm


def test_label_values_of_dcgm() -> None:
    [line] = lines(page(node(H100), "dcgm"), "DCGM_FI_DEV_GPU_UTIL")
    assert line == (
        'DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-11111111-2222-3333-4444-555555555555",'
        'pci_bus_id="00000000:1B:00.0",device="nvidia0",modelName="NVIDIA H100 80GB HBM3",'
        'Hostname="worker-1",DCGM_FI_DRIVER_VERSION="570.86.15"} 29'
    )
    assert 'pci_bus_id="0000000F:01:00.0"' in page(node(RTX), "dcgm")


def test_instances_stand_in_the_place_of_their_gpu() -> None:
    text = page(node(CUT_H100), "dcgm")
    assert all('GPU_I_ID="' in line for line in text.splitlines() if not line.startswith("#"))
    used = lines(text, "DCGM_FI_DEV_FB_USED")
    assert [re.findall(r'GPU_I_PROFILE="(.*?)",GPU_I_ID="(.*?)".* (\d+)$', x)[0] for x in used] == [
        ("3g.40gb", "1", "10240"),
        ("1g.10gb", "9", "0"),
    ]
    assert len(lines(text, "DCGM_FI_DEV_GPU_TEMP")) == 2
    assert not lines(text, "DCGM_FI_DEV_GPU_UTIL")
    assert [x.rsplit(" ", 1)[1] for x in lines(text, "DCGM_FI_DEV_FB_RESERVED")] == ["1024"]


def test_xid_is_the_last_one_and_absent_until_the_first() -> None:
    [line] = lines(page(node(H100), "dcgm"), "DCGM_FI_DEV_XID_ERRORS")
    assert line.endswith('err_code="79",err_msg="GPU fell off the bus"} 79')
    assert value(replace(H100, errors=()), "dcgm", "DCGM_FI_DEV_XID_ERRORS") is None


def test_nvlink_is_absent_without_links_and_at_the_first_reading() -> None:
    assert value(RTX, "dcgm", "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL") is None
    first = Exposition(families=(), dialects=dialects.load(("dcgm",))).render(node(H100)).text.decode()
    assert "NVLINK" not in first


def test_nvlink_counters_that_went_back_give_no_rate() -> None:
    exposition = Exposition(families=(), dialects=dialects.load(("dcgm",)))
    exposition.render(later(node(H100)))
    assert b"NVLINK" not in exposition.render(replace(node(replace(H100, read_at=1_900_000_000.0)))).text


def test_profiling_is_left_out_where_the_exporter_has_none() -> None:
    assert "DCGM_FI_PROF" not in page(node(RTX), "dcgm")


# amd


def test_prefix_of_amd_is_settable() -> None:
    text = page(NODES["amd"], "amd", amd_dialect_prefix="amd_")
    names = re.findall(r"^# TYPE (\S+)", text, re.MULTILINE)
    assert {"amd_gpu_gfx_activity", "amd_pcie_speed", "amd_gpu_nodes_total"} <= set(names)
    assert all(name.startswith("amd_") for name in names)


def test_labels_of_amd_have_the_exporters_forms() -> None:
    """As in the samples that its repository and its users publish."""
    device = replace(MI300X, partitions=(), compute_partition="SPX")
    [line] = lines(page(node(device), "amd"), "gpu_gfx_activity")
    labels = dict(re.findall(r'(\w+)="(.*?)"', line))
    assert labels | {"hostname": ""} == {
        "card_model": "102-G30211-0C",
        "card_series": "AMD Instinct MI300X OAM",
        "card_vendor": "AMD",
        "cluster_name": "amdgpu-k8s-metrics-exporter",
        "container": "",
        "deployment_mode": "",
        "driver_version": "6.12.12",
        "gpu_compute_partition_type": "spx",
        "gpu_id": "0",
        "gpu_memory_partition_type": "nps1",
        "gpu_partition_id": "0",
        "gpu_uuid": "72ff74a1-0000-1000-804c-3b58bf67050e",
        "hostname": "",
        "job_id": "",
        "job_partition": "",
        "job_user": "",
        "namespace": "",
        "pod": "",
        "serial_number": "692251001124",
        "vbios_version": "022.040.003.043.000001",
    }


@pytest.mark.parametrize(
    ("known", "labels"),
    [
        ({"part_number": None}, {"card_model": "AMD Instinct MI300X OAM"}),
        ({"vbios_version": None}, {"vbios_version": ""}),
        ({"uuid": "0xab"}, {"gpu_uuid": "00ff74a1-0000-1000-8000-0000000000ab"}),
        ({"pci_device_id": None}, {"gpu_uuid": "0x724c3b58bf67050e"}),
        ({"uuid": None}, {"gpu_uuid": ""}),
    ],
)
def test_labels_of_amd_for_a_gpu_of_which_less_is_known(
    known: dict[str, object], labels: dict[str, str]
) -> None:
    device = replace(MI300X, partitions=(), **known)  # type: ignore[arg-type]
    [line] = lines(page(node(device), "amd"), "gpu_gfx_activity")
    shown = dict(re.findall(r'(\w+)="(.*?)"', line))
    assert shown | labels == shown


def test_partitions_of_amd_count_as_gpus() -> None:
    """As amd-smi and the exporter number them."""
    second = replace(MI300X, id="amd:0x2", index=1)
    whole_gpu = replace(MI250, index=2)
    text = page(node(second, whole_gpu, MI300X), "amd")
    found = {
        tuple(re.findall(r'gpu_(?:id|partition_id)="(.*?)"', line)) for line in lines(text, "gpu_total_vram")
    }
    assert found == {("0", "0"), ("1", "1"), ("2", "0"), ("3", "1"), ("4", "NA")}


def test_power_of_amd_by_generation() -> None:
    assert value(MI300X, "amd", "gpu_package_power") == "142"
    assert value(MI300X, "amd", "gpu_average_package_power") is None
    assert value(MI250, "amd", "gpu_package_power") is None
    assert value(MI250, "amd", "gpu_average_package_power") == "89"
    assert value(MI250, "amd", "gpu_power_usage") == "89"


def test_sensors_of_a_partitioned_gpu_stand_at_its_first_partition() -> None:
    text = page(node(MI300X), "amd")
    assert len(lines(text, "gpu_junction_temperature")) == 1
    assert [x.rsplit(" ", 1)[1] for x in lines(text, "gpu_gfx_activity")] == ["7", "40"]
    totals = lines(text, "gpu_total_vram")
    assert [re.findall(r'gpu_partition_id="(.*?)"', x)[0] for x in totals] == ["0", "1"]
    assert [x.rsplit(" ", 1)[1] for x in totals] == ["24576", "24576"]  # each its own: sums are right


def test_cluster_name_of_amd_is_the_nodes_label() -> None:
    snapshot = node(MI250, labels=(("cluster_name", "lab"), ("rack", "7")))
    assert 'gpu_nodes_total{cluster_name="lab",hostname="worker-1"} 1' in page(snapshot, "amd")
    assert 'cluster_name="lab"' in lines(page(snapshot, "amd"), "gpu_health")[0]


@pytest.mark.parametrize(
    ("device", "healthy"),
    [
        (MI300X, "1"),
        (MI250, "0"),  # an uncorrectable error
        (replace(MI300X, health=Health(HealthState.WARNING)), "1"),
        (replace(MI300X, health=Health(HealthState.CRITICAL)), "0"),
        (replace(MI300X, stale=True), "0"),
    ],
)
def test_health_of_amd(device: Device, healthy: str) -> None:
    assert value(device, "amd", "gpu_health") == healthy


def test_clock_types_of_amd() -> None:
    names = ("gfx_0", "mem_0", "vclk_0", "dclk_0", "soc", "fclk", "unheard_of")
    device = replace(MI250, clocks=tuple(Clock(name, 100e6) for name in names))
    found = re.findall(r'clock_index="(\d)",clock_type="(\w+)"', page(node(device), "amd"))
    assert dict(found) == {
        "0": "system",
        "1": "memory",
        "2": "video",
        "3": "data",
        "4": "soc",
        "5": "fabric",
    }


# npu-exporter


@pytest.mark.parametrize(
    ("device", "status"),
    [
        (replace(ASCEND_910B, health=Health(HealthState.OK)), "1"),
        (ASCEND_910B, "0"),
        (replace(ASCEND_910B, health=Health(HealthState.CRITICAL)), "0"),
        (replace(ASCEND_910B, health=Health(HealthState.UNKNOWN)), "-1"),
        (replace(ASCEND_910B, stale=True), "-1"),
    ],
)
def test_health_of_npu_exporter(device: Device, status: str) -> None:
    assert value(device, "npu-exporter", "npu_chip_info_health_status") == status


def test_fault_codes_are_shown_while_there_is_a_fault() -> None:
    assert value(ASCEND_910B, "npu-exporter", "npu_chip_info_error_code_1") == str(0x80CB8009)
    recovered = replace(ASCEND_910B, health=Health(HealthState.OK))
    assert value(recovered, "npu-exporter", "npu_chip_info_error_code") is None


def test_memory_is_hbm_or_ddr() -> None:
    text = page(NODES["npu-exporter"], "npu-exporter")
    assert len(lines(text, "npu_chip_info_hbm_total_memory")) == 1
    assert len(lines(text, "npu_chip_info_total_memory")) == 1


def test_cards_are_counted_once_and_only_where_the_exporter_counts_them() -> None:
    chips = [replace(ASCEND_910B, id=f"ascend:{n}", chip_id=n, board_id=0) for n in range(2)]
    assert "\nmachine_card_nums 1\n" in page(node(*chips), "npu-exporter")
    assert "machine_npu_nums 2\n" in page(node(*chips), "npu-exporter")
    assert "machine_card_nums" not in page(node(replace(ASCEND_910B, model="310B4")), "npu-exporter")


def test_first_910_has_no_vector_cores() -> None:
    assert (
        value(replace(ASCEND_910B, model="910A"), "npu-exporter", "npu_chip_info_vector_utilization") is None
    )


# What npu-exporter has and we have not. The first are of the UB ports of the 950 (A5).
NPU_NOT_OFFERED = [
    *(
        f"npu_chip_info_{name}"
        for name in [
            "ub_ipv4_pkt_cnt_rx",
            "ub_ipv6_pkt_cnt_rx",
            "unic_ipv4_pkt_cnt_rx",
            "unic_ipv6_pkt_cnt_rx",
            "ub_compact_pkt_cnt_rx",
            "ub_umoc_ctph_cnt_rx",
            "ub_umoc_ntph_cnt_rx",
            "ub_mem_pkt_cnt_rx",
            "unknown_pkt_cnt_rx",
            "drop_ind_cnt_rx",
            "err_ind_cnt_rx",
            "to_host_pkt_cnt_rx",
            "to_imp_pkt_cnt_rx",
            "to_mar_pkt_cnt_rx",
            "to_link_pkt_cnt_rx",
            "to_noc_pkt_cnt_rx",
            "route_err_cnt_rx",
            "out_err_cnt_rx",
            "length_err_cnt_rx",
            "rx_busi_flit_num",
            "rx_send_ack_flit",
            "ub_ipv4_pkt_cnt_tx",
            "ub_ipv6_pkt_cnt_tx",
            "unic_ipv4_pkt_cnt_tx",
            "unic_ipv6_pkt_cnt_tx",
            "ub_compact_pkt_cnt_tx",
            "ub_umoc_ctph_cnt_tx",
            "ub_umoc_ntph_cnt_tx",
            "ub_mem_pkt_cnt_tx",
            "unknown_pkt_cnt_tx",
            "drop_ind_cnt_tx",
            "err_ind_cnt_tx",
            "lpbk_ind_cnt_tx",
            "out_err_cnt_tx",
            "length_err_cnt_tx",
            "tx_busi_flit_num",
            "tx_recv_ack_flit",
            "retry_req_sum",
            "retry_ack_sum",
            "crc_error_sum",
            "core_mib_rxpausepkts",
            "core_mib_txpausepkts",
            "core_mib_rxpfcpkts",
            "core_mib_txpfcpkts",
            "core_mib_rxbadpkts",
            "core_mib_txbadpkts",
            "core_mib_rxbadoctets",
            "core_mib_txbadoctets",
        ]
    ),
    *(f"npu_chip_info_{name}" for name in ("network_status", "link_status", "bandwidth_rx", "bandwidth_tx")),
    *("npu_chip_link_speed", "npu_chip_link_up_num"),
    *(f"npu_chip_info_pcie_{way}_{kind}_bw" for way in ("rx", "tx") for kind in ("p", "np", "cpl")),
    *(f"npu_chip_info_hccs_statistic_info_{kind}_cnt_0" for kind in ("tx", "rx", "crc_err")),
    *(f"npu_chip_info_hccs_bandwidth_info_{kind}" for kind in ("tx_0", "rx_7", "total_tx", "profiling_time")),
    *(f"npu_chip_optical_{kind}" for kind in ("state", "temp", "vcc", "tx_power_0", "rx_power_3")),
    *("npu_chip_mac_tx_pause_num", "npu_chip_roce_rx_all_pkt_num"),
    *("npu_chip_info_rx_fcs_num", "npu_chip_info_rx_ecn_num"),
    *("npu_chip_info_sio_crc_tx_err_cnt", "npu_chip_info_sio_crc_rx_err_cnt"),
    *("vnpu_pod_aicore_utilization", "vnpu_pod_total_memory", "vnpu_pod_used_memory"),
    *("npu_chip_info_overall_utilization", "npu_chip_info_hbm_ecc_enable_flag"),
    *("npu_chip_info_product_type", "machine_healthy_npu_nums", "machine_unhealthy_npu_nums"),
    "machine_unknown_npu_nums",
]


@pytest.mark.parametrize("name", NPU_NOT_OFFERED)
def test_what_npu_exporter_has_is_offered_or_listed_as_missing(name: str) -> None:
    [made] = dialects.load(("npu-exporter",))
    listed = [word for missing in made.missing for word in re.split(r",? ", missing.names)]
    offered = [family.name for family in made.families]
    assert name in offered or any(fnmatchcase(name, word) for word in listed)


# furiosa


@pytest.mark.parametrize(
    ("state", "stale", "alive"),
    [
        (HealthState.OK, False, "1"),
        (HealthState.WARNING, False, "1"),
        (HealthState.CRITICAL, False, "0"),
        (HealthState.LOST, True, "0"),
        (HealthState.UNKNOWN, False, None),
    ],
)
@pytest.mark.parametrize("dialect", ["furiosa", "furiosa-2025"])
def test_alive(dialect: str, state: HealthState, stale: bool, alive: str | None) -> None:
    device = replace(WARBOY, health=Health(state), stale=stale)
    assert value(device, dialect, "furiosa_npu_alive") == alive


def test_empty_labels_are_dropped_in_furiosa_2025_and_kept_in_furiosa() -> None:
    bare = replace(WARBOY, uuid=None)
    assert "uuid" not in page(node(bare), "furiosa-2025")
    assert 'uuid=""' in page(node(bare), "furiosa")


def test_changes_of_throttle_reasons_are_counted_over_five_minutes() -> None:
    exposition = Exposition(families=(), dialects=dialects.load(("furiosa-2025",)))
    counts = []
    for minute, active in enumerate((False, True, False, False, False, False, False, False)):
        device = replace(
            RNGD,
            read_at=60.0 * minute,
            throttles=(Throttle("thermal_slowdown", active), Throttle("unheard_of", active=True)),
        )
        text = exposition.render(node(device)).text.decode()
        counts.append([x.rsplit(" ", 1)[1] for x in lines(text, "furiosa_npu_throttling_events_count")])
    assert counts == [["0"], ["1"], ["2"], ["2"], ["2"], ["2"], ["1"], ["0"]]


# openshift


def test_openshift_has_the_labels_of_the_series_that_the_operators_record() -> None:
    held = node(H100, MI250, pod_usages=(on(H100, "train", allocated=1), on(MI250, "serve", allocated=1)))
    nvidia, amd = lines(page(held, "openshift"), "accelerator_gpu_utilization")
    assert nvidia == (
        'accelerator_gpu_utilization{vendor="nvidia",device="nvidia:GPU-11111111-2222-3333-4444-555555555555",'
        'index="0",DCGM_FI_DRIVER_VERSION="570.86.15",Hostname="worker-1",'
        'UUID="GPU-11111111-2222-3333-4444-555555555555",accelerator_id="0",container="main",gpu="0",'
        'modelName="NVIDIA H100 80GB HBM3",namespace="research",pci_bus_id="00000000:1B:00.0",pod="train"} 29'
    )
    source = dict(re.findall(r'(\w+)="([^"]*)"', lines(page(held, "amd"), "gpu_gfx_activity")[0]))
    shown = dict(re.findall(r'(\w+)="([^"]*)"', amd))
    assert {name: text for name, text in source.items() if text}.items() <= shown.items()
    assert (shown["accelerator_id"], shown["namespace"], shown["pod"]) == ("1", "research", "serve")


def test_openshift_names_the_pod_of_a_device_of_every_vendor() -> None:
    held = node(ASCEND_910B, RNGD, pod_usages=(on(RNGD, "serve", allocated=1),))
    free, used = lines(page(held, "openshift"), "accelerator_power_usage_watts")
    assert "namespace" not in free
    assert 'accelerator_id="0"' in free
    assert 'namespace="research",pod="serve"' in used


# settings


@pytest.mark.parametrize(
    ("one", "other"),
    [("furiosa", "furiosa-2024"), ("furiosa", "furiosa-2025"), ("furiosa-2024", "furiosa-2025")],
)
def test_dialects_of_furiosa_exclude_each_other(one: str, other: str) -> None:
    with pytest.raises(ConfigError, match=f"{one} and {other}"):
        load(AgentSettings, {"dialect": f"{one},{other}"}, {})


@pytest.mark.parametrize(
    ("arguments", "environment", "chosen"),
    [
        ({"dialect": "dcgm, openshift"}, {}, ("dcgm", "openshift")),
        ({}, {"DIALECT": "amd"}, ("amd",)),
        ({}, {}, ()),
    ],
)
def test_dialects_are_a_setting(
    arguments: dict[str, str], environment: dict[str, str], chosen: tuple[str, ...]
) -> None:
    assert load(AgentSettings, arguments, environment).settings.dialect == chosen


@pytest.mark.parametrize("given", [{"dialect": "gcdm"}, {"amd_dialect_prefix": "amd-"}])
def test_bad_settings_of_dialects(given: dict[str, str]) -> None:
    with pytest.raises(ConfigError):
        load(AgentSettings, given, {})
