"""Formats of Huawei's collectors: dialect `npu-exporter`, annotation k8s-monitor.io/npu-metrics."""

from collections.abc import Iterable, Iterator, Mapping

from accelscope.metrics.dialects import (
    DeviceView,
    Dialect,
    Label,
    LabelOrder,
    MissingMetrics,
    NodeView,
    Section,
    gauge,
    gauges,
    mebibytes,
    megahertz,
    node_gauges,
    percent,
    rounded,
)
from accelscope.metrics.family import Family
from accelscope.model import Device, EccCount, HealthState, Owner, OwnerKind, Process, Vendor
from accelscope.sinks.documents import Entry, is_answered, numbers, without_none

_MOST_ERROR_CODES = 10


def _has_hbm(device: Device) -> bool:
    """The 310 family has DDR memory, all others have HBM."""
    return "310" not in (device.model or "")


def _has_vector_cores(device: Device) -> bool:
    """All but the first generation of the 910, which reports the names 910A, 910B, 910ProA ..."""
    return (device.model or "") not in ("910", "910A", "910B", "910ProA", "910ProB", "910PremiumA")


def _hbm(view: DeviceView, size: int | None) -> int | None:
    return mebibytes(size) if _has_hbm(view.device) else None


def _ddr(view: DeviceView, size: int | None) -> int | None:
    return None if _has_hbm(view.device) else mebibytes(size)


def _hbm_fill(view: DeviceView) -> int | None:
    used, total = view.device.memory_used_bytes, view.device.memory_total_bytes
    if used is None or not total or not _has_hbm(view.device):
        return None
    return percent(used / total)


def _health(view: DeviceView) -> int:
    state = view.device.health.state
    if view.device.stale or state in (HealthState.UNKNOWN, HealthState.LOST):
        return -1
    return int(state is HealthState.OK)


def _error_codes(device: Device) -> list[int]:
    """The current faults: the error codes with the latest timestamp."""
    if device.health.state in (HealthState.OK, HealthState.UNKNOWN):
        return []
    seen = [e for e in device.errors if e.kind == "npu" and e.count]
    latest = max((e.last_seen or 0.0 for e in seen), default=0.0)
    codes = [_number(e.code) for e in seen if (e.last_seen or 0.0) == latest]
    return [code for code in codes if code is not None][:_MOST_ERROR_CODES]


def _number(code: str) -> int | None:
    try:
        return int(code.removeprefix("0x").removeprefix("0X"), 16)
    except ValueError:
        return None


def _error_code(place: int) -> Family:
    def value(view: DeviceView) -> int | None:
        codes = _error_codes(view.device)
        return codes[place] if place < len(codes) else None

    name = "npu_chip_info_error_code" + (f"_{place}" if place else "")
    return gauge(name, "Code of a current fault of the chip, as a decimal number.", value)


def _count(counts: tuple[EccCount, ...], severity: str, *, lifetime: bool | None) -> int | None:
    """The count of the HBM if it is known, else that of the chip."""
    matching = [c for c in counts if c.severity == severity and lifetime in (None, c.lifetime)]
    by_block = {c.block: c.count for c in matching}
    return by_block.get("hbm", by_block.get(None))


def _hbm_errors(name: str, text: str, severity: str, *, lifetime: bool) -> Family:
    def value(view: DeviceView) -> int | None:
        return _count(view.device.ecc, severity, lifetime=lifetime) if _has_hbm(view.device) else None

    return gauge(f"npu_chip_info_hbm_ecc_{name}", text, value)


def _hbm_pages(name: str, text: str, severity: str) -> Family:
    def value(view: DeviceView) -> int | None:
        return _count(view.device.retired_pages, severity, lifetime=None) if _has_hbm(view.device) else None

    return gauge(f"npu_chip_info_hbm_ecc_{name}", text, value)


def _hbm_temperature(view: DeviceView) -> int | None:
    return rounded(next((s.celsius for s in view.device.sensors if s.name.lower() == "hbm"), None))


def _temperature(view: DeviceView) -> int | None:
    return rounded(view.device.temperature_celsius)


def _clock(view: DeviceView) -> int | None:
    return megahertz(next((c.hertz for c in view.device.clocks if c.domain == "aicore"), None))


CHIP_FAMILIES = (
    gauge("npu_chip_info_health_status", "1 if the chip is healthy, 0 if not, -1 if unknown.", _health),
    *(_error_code(place) for place in range(_MOST_ERROR_CODES)),
    gauge(
        "npu_chip_info_utilization",
        "Utilisation of the AI cores, in %.",
        lambda v: percent(v.device.utilization_ratio),
    ),
    gauge(
        "npu_chip_info_overall_utilization",
        "Utilisation of the chip as a whole, in %.",
        lambda v: percent(v.device.overall_utilization_ratio),
    ),
    gauge(
        "npu_chip_info_vector_utilization",
        "Utilisation of the vector cores, in %.",
        lambda v: percent(v.device.vector_utilization_ratio) if _has_vector_cores(v.device) else None,
    ),
    gauge(
        "npu_chip_info_cube_utilization",
        "Utilisation of the cube (matrix) cores, in %.",
        lambda v: percent(v.device.tensor_active_ratio),
    ),
    gauge("npu_chip_info_temperature", "Temperature of the chip, in degrees Celsius.", _temperature),
    gauge(
        "npu_chip_info_power",
        "Power of the chip, or of the card for the 310P, in W.",
        lambda v: v.device.power_watts,
    ),
    gauge(
        "npu_chip_info_voltage",
        "Voltage of the chip, in V.",
        lambda v: next((rail.volts for rail in v.device.rails), None),
    ),
    gauge("npu_chip_info_aicore_current_freq", "Clock of the AI cores, in MHz.", _clock),
    gauge(
        "npu_chip_info_hbm_used_memory",
        "Used HBM, in MB of 2^20 bytes.",
        lambda v: _hbm(v, v.device.memory_used_bytes),
    ),
    gauge(
        "npu_chip_info_hbm_total_memory",
        "Total HBM, in MB of 2^20 bytes.",
        lambda v: _hbm(v, v.device.memory_total_bytes),
    ),
    gauge("npu_chip_info_hbm_utilization", "Used fraction of the HBM, in %.", _hbm_fill),
    gauge(
        "npu_chip_info_hbm_bandwidth_utilization",
        "Utilisation of the HBM bandwidth, in %.",
        lambda v: percent(v.device.memory_utilization_ratio) if _has_hbm(v.device) else None,
    ),
    gauge(
        "npu_chip_info_hbm_temperature",
        "Temperature of the HBM, in degrees Celsius.",
        _hbm_temperature,
    ),
    _hbm_errors(
        "single_bit_error_cnt", "Single-bit errors since the driver was loaded.", "corrected", lifetime=False
    ),
    _hbm_errors(
        "double_bit_error_cnt",
        "Double-bit errors since the driver was loaded.",
        "uncorrected",
        lifetime=False,
    ),
    _hbm_errors(
        "total_single_bit_error_cnt", "Single-bit errors over the lifetime.", "corrected", lifetime=True
    ),
    _hbm_errors(
        "total_double_bit_error_cnt", "Double-bit errors over the lifetime.", "uncorrected", lifetime=True
    ),
    _hbm_pages("single_bit_isolated_pages_cnt", "Pages isolated after single-bit errors.", "corrected"),
    _hbm_pages("double_bit_isolated_pages_cnt", "Pages isolated after double-bit errors.", "uncorrected"),
    gauge(
        "npu_chip_info_used_memory",
        "Used DDR memory, in MB of 2^20 bytes.",
        lambda v: _ddr(v, v.device.memory_used_bytes),
    ),
    gauge(
        "npu_chip_info_total_memory",
        "Total DDR memory, in MB of 2^20 bytes.",
        lambda v: _ddr(v, v.device.memory_total_bytes),
    ),
    gauge(
        "npu_chip_info_process_info_num",
        "Number of processes on the chip.",
        lambda v: None if v.device.stale else len(v.processes),
    ),
    gauges(
        "npu_chip_info_serial_number",
        "Serial number of the card, in a label; always 1.",
        ("serial_number",),
        lambda v: [((v.device.serial,), 1)] if v.device.serial else [],
    ),
)

# For a chip that is attributed to one pod.
CONTAINER_FAMILIES = (
    gauge(
        "container_npu_utilization",
        "Utilisation of the AI cores of a container's chip, in %.",
        lambda v: percent(v.device.utilization_ratio) if v.pod else None,
    ),
    gauge(
        "container_npu_total_memory",
        "Total memory of a container's chip, in MB of 2^20 bytes.",
        lambda v: mebibytes(v.device.memory_total_bytes) if v.pod else None,
    ),
    gauge(
        "container_npu_used_memory",
        "Used memory of a container's chip, in MB of 2^20 bytes.",
        lambda v: mebibytes(v.device.memory_used_bytes) if v.pod else None,
    ),
)


# Containers and processes on a chip.

_Values = list[tuple[tuple[str, ...], float | None]]


def _container_name(*names: str | None) -> str:
    """Namespace, pod and container in one label, as in the exporter."""
    return "_".join(name for name in names if name)


def _chip_labels(view: DeviceView) -> tuple[str, ...]:
    return ("", _container_name(view.namespace, view.pod, view.container), view.namespace, view.pod)


def _process_labels(process: Process, view: DeviceView) -> tuple[str, ...]:
    """Container id, container, namespace and pod of a process. If the owner of the process is unknown, those
    of the chip, as in the exporter. They are empty for a process outside of pods."""
    owner = process.owner
    if owner is None or owner.kind is OwnerKind.UNKNOWN:
        return _chip_labels(view)
    if owner.pod is None:
        return (owner.container_id or "", "", "", "")
    name = _container_name(owner.namespace, owner.pod, owner.container)
    return (owner.container_id or "", name, owner.namespace or "", owner.pod)


def _process_memory(view: DeviceView) -> _Values:
    if not view.processes and not view.device.stale:
        return [(("", *_chip_labels(view)), 0)]
    return [
        (
            (str(p.pid), *_process_labels(p, view)),
            None if p.memory_bytes is None else round(p.memory_bytes / 2**20, 6),
        )
        for p in view.shown_processes
    ]


def _containers(view: DeviceView) -> _Values:
    """Containers with processes on the chip: the id of a container comes from its processes."""
    owners: dict[str, Owner] = {}
    for process in view.processes:
        owner = process.owner
        if owner is not None and owner.pod is not None and owner.container_id is not None:
            owners.setdefault(owner.container_id, owner)
    return [
        (
            (
                container_id,
                _container_name(owner.namespace, owner.pod, owner.container),
                owner.container or "",
                owner.namespace or "",
                owner.pod or "",
            ),
            1,
        )
        for container_id, owner in sorted(owners.items())
    ]


CONTAINER_INFO = gauges(
    "npu_container_info",
    "A container with processes on the chip; always 1.",
    ("containerID", "containerName", "container_name", "namespace", "pod_name"),
    _containers,
)
PROCESS_INFO = gauges(
    "npu_chip_info_process_info",
    "Memory of a process on the chip, in MB of 2^20 bytes; 0 and an empty process_id without processes.",
    ("process_id", "container_id", "container_name", "namespace", "pod_name"),
    _process_memory,
)


# The driver's library reports these besides the name, the same for all chips so far.
_CHIP_TYPE, _CHIP_VERSION = "Ascend", "V1"


def _id(view: DeviceView) -> str:
    number = view.device.index if view.device.physical_id is None else view.device.physical_id
    return "" if number is None else str(number)


def _model(view: DeviceView) -> str:
    return f"{view.device.model}-{_CHIP_TYPE}-{_CHIP_VERSION}" if view.device.model else ""


def _die(view: DeviceView) -> str:
    """Five hexadecimal words, separated by blanks in npu-smi and by hyphens in the exporter."""
    return "-".join((view.device.uuid or "").split()).upper()


LABELS = LabelOrder(
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
NAME_LABELS = LabelOrder(others=(*LABELS.without("model_name").others, Label("name", _model)))
# In these families, pod and container are those of the process or container, not those of the chip.
PROCESS_LABELS = LABELS.without("container_name").without("namespace").without("pod_name")
CONTAINER_LABELS = LabelOrder(others=(*PROCESS_LABELS.without("id").others, Label("npuID", _id)))


def _cards(node: NodeView) -> int | None:
    """A card, which npu-smi calls NPU, has one or several chips. The exporter counts cards of the 310P and of
    all generations of the 910."""
    if not all(_counts_cards(device.model or "") for device in node.devices):
        return None
    return len({d.id if d.board_id is None else str(d.board_id) for d in node.devices})


def _counts_cards(model: str) -> bool:
    return "310P" in model or "910" in model


NODE_FAMILIES = (
    node_gauges("machine_npu_nums", "Number of chips in the node.", (), lambda n: [((), len(n.devices))]),
    node_gauges("machine_card_nums", "Number of cards in the node.", (), lambda n: [((), _cards(n))]),
    node_gauges(
        "npu_exporter_version_info",
        "Version of the exporter; always 1.",
        ("exporterVersion",),
        lambda n: [((n.agent_version,), 1)],
    ),
    node_gauges(
        "node_base_info",
        "Versions of the exporter and the driver; always 1.",
        ("driverVersion", "exporterVersion"),
        lambda n: [
            ((version, n.agent_version), 1)
            for version in sorted({d.driver_version for d in n.devices if d.driver_version})[:1]
        ],
    ),
)


def dialect(_: Mapping[str, str]) -> Dialect:
    return Dialect(
        name="npu-exporter",
        exporter="Huawei npu-exporter of mind-cluster v26.1.0",
        vendors=(Vendor("ascend"),),
        node_families=NODE_FAMILIES,
        sections=(
            Section(NAME_LABELS, (gauge("npu_chip_info_name", "Name of the chip; always 1.", lambda _: 1),)),
            Section(LABELS, (*CHIP_FAMILIES, *CONTAINER_FAMILIES)),
            Section(CONTAINER_LABELS, (CONTAINER_INFO,)),
            Section(PROCESS_LABELS, (PROCESS_INFO,), per_process=True),
        ),
        notes=NOTES,
        missing=MISSING,
    )


NOTES = (
    "`id` is the chip's physical id if npu-smi prints it, else its logic id. `vdie_id` is npu-smi's VDie ID "
    "with hyphens, or empty if it is unknown.",
    "`exporterVersion` is the version of AccelScope.",
    "The exporter's MB are MiB. Series have no timestamps.",
    "The power of an NPU with two chips (A3) is published at its first chip, so `sum()` is correct.",
    "`namespace`, `pod_name` and `container_name` are those to which the chip is allocated, else the only "
    "pod whose processes use it. They are empty for a free chip, and for a chip that several pods share: "
    "then `container_npu_*` have no series; use `accelerator_pod_*`.",
    "On `npu_chip_info_process_info` and `npu_container_info`, pod and container are those of the process. "
    "They are empty for a process outside of pods, and those of the chip if the owner of the process is "
    "unknown. `npu_container_info` starts with the first process of a container on the chip.",
)
MISSING = (
    MissingMetrics(
        "npu_chip_info_network_status, npu_chip_info_link_status, npu_chip_link_speed, npu_chip_link_up_num, "
        "npu_chip_info_bandwidth_rx, npu_chip_info_bandwidth_tx",
        "the chip's network port is not read",
    ),
    MissingMetrics(
        "npu_chip_optical_*, npu_chip_mac_*, npu_chip_roce_*, npu_chip_info_rx_fcs_num, "
        "npu_chip_info_rx_ecn_num, npu_chip_info_sio_crc_tx_err_cnt, npu_chip_info_sio_crc_rx_err_cnt",
        "optics, MAC, RoCE and SIO counters are not read",
    ),
    MissingMetrics(
        "npu_chip_info_hccs_statistic_info_*, npu_chip_info_hccs_bandwidth_info_*, "
        "npu_chip_info_pcie_rx_*_bw, npu_chip_info_pcie_tx_*_bw",
        "counters of the chip's links are not read",
    ),
    MissingMetrics(
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
    MissingMetrics(
        "machine_healthy_npu_nums, machine_unhealthy_npu_nums, machine_unknown_npu_nums",
        "later than v26.1.0; count over `npu_chip_info_health_status`",
    ),
    MissingMetrics("npu_chip_info_hbm_ecc_enable_flag, npu_chip_info_product_type", "not read"),
    MissingMetrics(
        "vnpu_pod_aicore_utilization, vnpu_pod_total_memory, vnpu_pod_used_memory",
        "virtual NPUs are not read",
    ),
    MissingMetrics(
        "npu_chip_info_used_memory, npu_chip_info_total_memory of a 910", "its DDR memory is not read"
    ),
)


# --- annotation of the Node -----------------------------------------------
# The entries of the annotation k8s-monitor.io/npu-metrics, which the agent writes. Its readers decode them
# into Go structs with integer fields: with `40.0` instead of `40` they could not read the whole document.


_MIB = 1 << 20  # npu-smi's MB
_UNKNOWN = "UNKNOWN"  # npu-smi's word for an unknown health


def entries(chips: Iterable[Device]) -> Iterator[Entry]:
    """A lost chip is left out. A chip that could not be read has an unknown health and no measurements."""
    listed = (
        chip for chip in chips if chip.board_id is not None and chip.health.state is not HealthState.LOST
    )
    return map(_entry, sorted(listed, key=lambda chip: (chip.board_id or 0, chip.chip_id or 0)))


def _entry(chip: Device) -> Entry:
    # Readers print it as the number of the row. For a 910B or 310P, npu-smi prints no Phy-ID, so the logic id
    # is used instead: `Device` in the table of a 310P, and in `npu-smi info -m` for both.
    number = chip.index if chip.physical_id is None else chip.physical_id
    identity = without_none(
        ("npu", chip.board_id),
        ("chip", chip.chip_id),
        ("phy_id", number),
        # In upper case, as npu-smi prints it.
        ("bus_id", chip.pci_address.upper() if chip.pci_address is not None else None),
        ("health", _UNKNOWN if chip.stale else chip.health.vendor_word or _UNKNOWN),
    )
    return Entry(
        identity,
        numbers(
            ("power", chip.power_watts, 1),
            ("temp", chip.temperature_celsius, None),
            ("aicore", _scaled(chip.utilization_ratio, 100), None),
            ("hbm_used", _scaled(chip.memory_used_bytes, 1 / _MIB), None),
            ("hbm_total", _scaled(chip.memory_total_bytes, 1 / _MIB), None),
        ),
        chip.id,
        is_answered(chip),
        lacks_number=number is None,
    )


def _scaled(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor
