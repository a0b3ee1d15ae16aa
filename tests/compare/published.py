"""Pages of the other exporters as people have published them, written here from their facts.

Names, types, labels and values are those of the samples. The pages themselves are made here, and help texts
are left out. Sources:

- DCGM: dcgm-exporter 4 of NVIDIA's GPU operator on one RTX 4000 Ada that a pod holds, in the conformance
  report of a Kubernetes service.
- AMD: the labels of one MI300X in a program that reads device-metrics-exporter, with the names of its list of
  metrics that a plain container publishes for such a card.
- ASCEND: eight 910A in the documentation of npu-exporter, which cuts the page after two chip metrics.

Furiosa's page is among the captures.
"""

from tests.compare.pages import Labels, family

# --- dcgm-exporter

RTX_4000 = {
    "gpu": "0",
    "UUID": "GPU-a8394b51-c086-568a-9f1a-c1e1c934c44c",
    "pci_bus_id": "00000000:00:02.0",
    "device": "nvidia0",
    "modelName": "NVIDIA RTX 4000 Ada Generation",
    "Hostname": "lke529760-766837-0a634ab30000",
    "DCGM_FI_DRIVER_VERSION": "580.95.05",
    "container": "cuda",
    "namespace": "default",
    "pod": "cuda-75454ffb9f-8ljq7",
    "pod_uid": "",
}
_DCGM_GAUGES = {
    "DCGM_FI_DEV_SM_CLOCK": "2310",
    "DCGM_FI_DEV_MEM_CLOCK": "9001",
    "DCGM_FI_DEV_MEMORY_TEMP": "0",
    "DCGM_FI_DEV_GPU_TEMP": "48",
    "DCGM_FI_DEV_POWER_USAGE": "40.979000",
    "DCGM_FI_DEV_GPU_UTIL": "0",
    "DCGM_FI_DEV_MEM_COPY_UTIL": "0",
    "DCGM_FI_DEV_ENC_UTIL": "0",
    "DCGM_FI_DEV_DEC_UTIL": "0",
    "DCGM_FI_DEV_FB_FREE": "20015",
    "DCGM_FI_DEV_FB_USED": "1",
    "DCGM_FI_DEV_FB_RESERVED": "457",
    "DCGM_FI_DEV_ROW_REMAP_FAILURE": "0",
    "DCGM_FI_DEV_VGPU_LICENSE_STATUS": "0",
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE": "0.004656",
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": "0.000000",
    "DCGM_FI_PROF_DRAM_ACTIVE": "0.003074",
    "DCGM_FI_PROF_PCIE_TX_BYTES": "78398480",
    "DCGM_FI_PROF_PCIE_RX_BYTES": "45987793",
}
_DCGM_COUNTERS = {
    "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": "455497156",
    "DCGM_FI_DEV_PCIE_REPLAY_COUNTER": "0",
    "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS": "0",
    "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS": "0",
    "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL": "0",
}


def _gauges(values: dict[str, str], labels: Labels) -> str:
    return "".join(family(name, "gauge", [(labels, value)], "") for name, value in values.items())


DCGM = (
    _gauges(_DCGM_GAUGES, RTX_4000)
    + _gauges({"DCGM_FI_DEV_XID_ERRORS": "0"}, RTX_4000 | {"err_code": "0", "err_msg": "No Error"})
    + "".join(family(name, "counter", [(RTX_4000, value)], "") for name, value in _DCGM_COUNTERS.items())
)

# --- device-metrics-exporter

MI300X = {
    "card_model": "102-G30211-0C",
    "card_series": "AMD Instinct MI300X OAM",
    "card_vendor": "AMD",
    "cluster_name": "",
    "container": "",
    "driver_version": "6.12.12",
    "gpu_compute_partition_type": "spx",
    "gpu_id": "2",
    "gpu_memory_partition_type": "nps1",
    "gpu_partition_id": "0",
    "gpu_uuid": "ccff74a1-0000-1000-80e0-c6d49f5b0d86",
    "hostname": "tw038",
    "namespace": "",
    "pod": "",
    "serial_number": "692409005408",
    "vbios_version": "022.040.003.043.000001",
}
_ECC_BLOCKS = "total sdma gfx mmhub athub bif hdp xgmi_wafl df smn sem mp0 mp1 fuse umc mca vcn jpeg ih mpio"
# The value of a name is published for the clocks and the activity only; the others are of an idle card.
_AMD_GAUGES = {
    "gpu_package_power": "142",
    "gpu_power_usage": "142",
    "gpu_energy_consumed": "1500000",
    "gpu_junction_temperature": "44",
    "gpu_memory_temperature": "39",
    "gpu_gfx_activity": "0",
    "gpu_umc_activity": "0",
    "gpu_total_vram": "196592",
    "gpu_used_vram": "285",
    "gpu_free_vram": "196307",
    "gpu_total_visible_vram": "196592",
    "gpu_total_gtt": "1031918",
    "pcie_speed": "32",
    "pcie_max_speed": "32",
    "pcie_bandwidth": "100",
    "pcie_bidirectional_bandwidth": "735095170856",
    "pcie_replay_count": "0",
    "pcie_nack_sent_count": "0",
    "gpu_current_accumulated_counter": "1",
    "gpu_violation_ppt_residency_accumulated": "0",
    "gpu_xgmi_nbr_0_nop_tx": "0",
    "gpu_xgmi_nbr_3_tx_thrput": "0",
    **{f"gpu_ecc_{kind}_{block}": "0" for kind in ("correct", "uncorrect") for block in _ECC_BLOCKS.split()},
}
_AMD_CLOCKS = (("2", "system", "132"), ("8", "memory", "900"), ("9", "video", "29"), ("14", "data", "22"))
AMD = _gauges(_AMD_GAUGES, MI300X) + family(
    "gpu_clock",
    "gauge",
    [(MI300X | {"clock_index": index, "clock_type": kind}, value) for index, kind, value in _AMD_CLOCKS],
    "",
)

# --- npu-exporter

_ASCEND_CHIPS = (
    ("61", "185011D4-21104518-A0C4ED94-14CC040A-56102003"),
    ("DB", "185011D4-21E04718-93B2ED94-14CC040A-BF102003"),
    ("B2", "185011D4-20C02418-59D4ED94-14CC040A-F9102003"),
    ("3E", "185011D4-21502C18-0464ED94-14CC040A-6E102003"),
    ("60", "185011D4-21A02418-64946D94-14CC040A-F8102003"),
    ("DA", "185011DC-21F02B18-C4B66D94-14CC040A-57102003"),
    ("B1", "185011D4-20602118-14646D94-14CC040A-8A102003"),
    ("3D", "185011D4-21504C18-10656D94-14CC040A-6B102003"),
)
CHIPS_910A = [
    {
        "container_name": "",
        "id": str(index),
        "model_name": "910A-Ascend-V1",
        "namespace": "",
        "pcie_bus_info": f"0000:{bus}:00.0",
        "pod_name": "",
        "vdie_id": vdie,
    }
    for index, (bus, vdie) in enumerate(_ASCEND_CHIPS)
]
_READ_AT = 1723621883587  # npu-exporter's series have the time of the reading
ASCEND = (
    family("machine_npu_nums", "gauge", [({}, 8)], "")
    + family(
        "npu_chip_info_aicore_current_freq", "gauge", [(chip, f"1000 {_READ_AT}") for chip in CHIPS_910A], ""
    )
    + family("npu_chip_info_bandwidth_rx", "gauge", [(CHIPS_910A[0], f"0 {_READ_AT}")], "")
)
