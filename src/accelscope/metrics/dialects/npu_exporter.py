"""`npu-exporter`: the names of Huawei's npu-exporter for Ascend."""

from accelscope.metrics.dialects.dialect import (
    Dialect,
    Label,
    Labels,
    Missing,
    Section,
    gauge,
    node_gauges,
)
from accelscope.metrics.dialects.npu_exporter_containers import CONTAINER_INFO, PROCESS_INFO
from accelscope.metrics.dialects.npu_exporter_families import CHIP_FAMILIES, CONTAINER_FAMILIES
from accelscope.metrics.dialects.view import DeviceView, NodeView
from accelscope.model import Vendor

# Beside its name a chip answers these to the driver's library; all chips so far do alike.
_CHIP_TYPE, _CHIP_VERSION = "Ascend", "V1"


def _id(view: DeviceView) -> str:
    number = view.device.index if view.device.physical_id is None else view.device.physical_id
    return "" if number is None else str(number)


def _model(view: DeviceView) -> str:
    return f"{view.device.model}-{_CHIP_TYPE}-{_CHIP_VERSION}" if view.device.model else ""


def _die(view: DeviceView) -> str:
    """Five words of hex; npu-smi has blanks between them, the exporter a hyphen."""
    return "-".join((view.device.uuid or "").split()).upper()


LABELS = Labels(
    others=(
        Label("container_name", lambda v: v.container),
        Label("id", _id),
        Label("model_name", _model),
        Label("namespace", lambda v: v.namespace),
        Label("pcie_bus_info", lambda v: (v.device.pci_address or "").upper()),
        Label("pod_name", lambda v: v.pod),
        Label("vdie_id", _die),
    )
)
NAME_LABELS = Labels(others=(*LABELS.without("model_name").others, Label("name", _model)))
# Pod and container of these are a process's or container's, not the chip's.
PROCESS_LABELS = LABELS.without("container_name").without("namespace").without("pod_name")
CONTAINER_LABELS = Labels(others=(*PROCESS_LABELS.without("id").others, Label("npuID", _id)))


def _cards(node: NodeView) -> int | None:
    """A card holds one or several chips; npu-smi calls it an NPU. The exporter counts those of the 310P and
    of the 910 in all its generations."""
    if not all(_counts_cards(device.model or "") for device in node.devices):
        return None
    return len({d.id if d.board_id is None else str(d.board_id) for d in node.devices})


def _counts_cards(model: str) -> bool:
    return "310P" in model or "910" in model


NODE_FAMILIES = (
    node_gauges("machine_npu_nums", "Chips of the node.", (), lambda n: [((), len(n.devices))]),
    node_gauges("machine_card_nums", "Cards of the node.", (), lambda n: [((), _cards(n))]),
    node_gauges(
        "npu_exporter_version_info",
        "Version of what exports this page; 1.",
        ("exporterVersion",),
        lambda n: [((n.agent_version,), 1)],
    ),
    node_gauges(
        "node_base_info",
        "Versions of what exports this page and of the driver; 1.",
        ("driverVersion", "exporterVersion"),
        lambda n: [
            ((version, n.agent_version), 1)
            for version in sorted({d.driver_version for d in n.devices if d.driver_version})[:1]
        ],
    ),
)


def dialect() -> Dialect:
    return Dialect(
        name="npu-exporter",
        exporter="Huawei npu-exporter of mind-cluster v26.1.0",
        vendors=(Vendor.ASCEND,),
        node_families=NODE_FAMILIES,
        sections=(
            Section(NAME_LABELS, (gauge("npu_chip_info_name", "Name of the chip; 1.", lambda _: 1),)),
            Section(LABELS, (*CHIP_FAMILIES, *CONTAINER_FAMILIES)),
            Section(CONTAINER_LABELS, (CONTAINER_INFO,)),
            Section(PROCESS_LABELS, (PROCESS_INFO,), per_process=True),
        ),
        notes=NOTES,
        missing=MISSING,
    )


NOTES = (
    "`id` is the chip's physical id where npu-smi tells it, else its logic id. `vdie_id` is npu-smi's VDie "
    "ID with hyphens; it is empty where that is not known.",
    "`exporterVersion` is the version of AccelScope.",
    "The exporter's MB are MiB. Series have no timestamp of their own.",
    "An NPU of two chips (A3) has one power, shown at its first chip: `sum()` is right.",
    "`namespace`, `pod_name` and `container_name` name who holds the chip, else the only pod whose "
    "processes use it. They are empty for a free chip, and for one that several pods share; the families "
    "`container_npu_*` then have no series. `accelerator_pod_*` tell the pods apart.",
    "On `npu_chip_info_process_info` and `npu_container_info` pod and container are those of the process: a "
    "process in no pod has none, and one of which nobody knows whose it is has those that hold the chip. "
    "`npu_container_info` begins with the first process of a container on the chip, which tells its id.",
)
MISSING = (
    Missing(
        "npu_chip_info_network_status, npu_chip_info_link_status, npu_chip_link_speed, npu_chip_link_up_num, "
        "npu_chip_info_bandwidth_rx, npu_chip_info_bandwidth_tx",
        "the chip's network port is not read",
    ),
    Missing(
        "npu_chip_optical_*, npu_chip_mac_*, npu_chip_roce_*, npu_chip_info_rx_fcs_num, "
        "npu_chip_info_rx_ecn_num, npu_chip_info_sio_crc_tx_err_cnt, npu_chip_info_sio_crc_rx_err_cnt",
        "optics, MAC, RoCE and SIO counters are not read",
    ),
    Missing(
        "npu_chip_info_hccs_statistic_info_*, npu_chip_info_hccs_bandwidth_info_*, "
        "npu_chip_info_pcie_rx_*_bw, npu_chip_info_pcie_tx_*_bw",
        "counters of the chip's links are not read",
    ),
    Missing(
        "npu_chip_info_ub_ipv4_pkt_cnt_rx, npu_chip_info_ub_ipv6_pkt_cnt_rx, "
        "npu_chip_info_unic_ipv4_pkt_cnt_rx, npu_chip_info_unic_ipv6_pkt_cnt_rx, "
        "npu_chip_info_ub_compact_pkt_cnt_rx, npu_chip_info_ub_umoc_ctph_cnt_rx, "
        "npu_chip_info_ub_umoc_ntph_cnt_rx, npu_chip_info_ub_mem_pkt_cnt_rx, "
        "npu_chip_info_unknown_pkt_cnt_rx, npu_chip_info_drop_ind_cnt_rx, npu_chip_info_err_ind_cnt_rx, "
        "npu_chip_info_to_host_pkt_cnt_rx, npu_chip_info_to_imp_pkt_cnt_rx, "
        "npu_chip_info_to_mar_pkt_cnt_rx, npu_chip_info_to_link_pkt_cnt_rx, "
        "npu_chip_info_to_noc_pkt_cnt_rx, npu_chip_info_route_err_cnt_rx, npu_chip_info_out_err_cnt_rx, "
        "npu_chip_info_length_err_cnt_rx, npu_chip_info_rx_busi_flit_num, npu_chip_info_rx_send_ack_flit, "
        "npu_chip_info_ub_ipv4_pkt_cnt_tx, npu_chip_info_ub_ipv6_pkt_cnt_tx, "
        "npu_chip_info_unic_ipv4_pkt_cnt_tx, npu_chip_info_unic_ipv6_pkt_cnt_tx, "
        "npu_chip_info_ub_compact_pkt_cnt_tx, npu_chip_info_ub_umoc_ctph_cnt_tx, "
        "npu_chip_info_ub_umoc_ntph_cnt_tx, npu_chip_info_ub_mem_pkt_cnt_tx, "
        "npu_chip_info_unknown_pkt_cnt_tx, npu_chip_info_drop_ind_cnt_tx, npu_chip_info_err_ind_cnt_tx, "
        "npu_chip_info_lpbk_ind_cnt_tx, npu_chip_info_out_err_cnt_tx, npu_chip_info_length_err_cnt_tx, "
        "npu_chip_info_tx_busi_flit_num, npu_chip_info_tx_recv_ack_flit, npu_chip_info_retry_req_sum, "
        "npu_chip_info_retry_ack_sum, npu_chip_info_crc_error_sum, npu_chip_info_core_mib_rxpausepkts, "
        "npu_chip_info_core_mib_txpausepkts, npu_chip_info_core_mib_rxpfcpkts, "
        "npu_chip_info_core_mib_txpfcpkts, npu_chip_info_core_mib_rxbadpkts, "
        "npu_chip_info_core_mib_txbadpkts, npu_chip_info_core_mib_rxbadoctets, "
        "npu_chip_info_core_mib_txbadoctets",
        "the ports of the 950's interconnect (UB) are not read",
    ),
    Missing(
        "machine_healthy_npu_nums, machine_unhealthy_npu_nums, machine_unknown_npu_nums",
        "later than v26.1.0; count over `npu_chip_info_health_status`",
    ),
    Missing(
        "npu_chip_info_hbm_ecc_enable_flag, npu_chip_info_product_type", "not among what is read of a chip"
    ),
    Missing(
        "vnpu_pod_aicore_utilization, vnpu_pod_total_memory, vnpu_pod_used_memory",
        "virtual NPUs are not read",
    ),
    Missing("npu_chip_info_used_memory, npu_chip_info_total_memory of a 910", "its DDR memory is not read"),
)
