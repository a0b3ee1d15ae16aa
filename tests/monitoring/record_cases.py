"""Test cases of the recording rules."""

from tests.monitoring.rule_case import (
    DEVICE,
    INFO,
    NEVER,
    NODE_INFO,
    PLACE,
    STEADY,
    RecordCase,
    Series,
    of_device,
    of_target,
    series,
)
from tools.monitoring.rules.recording import CAUSES, ON_DEVICE, TEMPERATURE_BOUNDS

_MODEL = {"cluster": "berlin", "vendor": "nvidia", "model": "H100"}
_NAMESPACE = {"cluster": "berlin", "namespace": "research", "vendor": "nvidia", "model": "H100"}
# A second device, of another node.
_SECOND = {**DEVICE, "instance": "10.0.0.2:9400", "device": "nvidia:GPU-2"}
_TWO = {**INFO, series("accelerator_info", {**_SECOND, **PLACE, "node": "node-2"}): STEADY}
_POD = {"namespace": "research", "pod": "train-0", "container": "main"}


def _both(family: str, first: float, second: float, **labels: str) -> Series:
    return {
        **_TWO,
        of_device(family, **labels): f"{first}+0x60",
        series(family, {**_SECOND, **labels}): f"{second}+0x60",
    }


def _sum(family: str, first: float, second: float) -> RecordCase:
    return RecordCase(series=_both(family, first, second), labels=_MODEL, value=first + second)


_HOT = _both("accelerator_temperature_celsius", 45, 82)
_HELD = _both("accelerator_pod_allocated", 1, 2, resource="nvidia.com/gpu", **_POD)
_SHARED = {
    **_HELD,
    of_device(
        "accelerator_pod_allocated", resource="nvidia.com/gpu", namespace="research", pod="b", container="c"
    ): "1+0x60",
}
_HOLDERS = (  # share, idle seconds
    (_POD, 0.25, 0),
    ({"namespace": "tests", "pod": "b", "container": "c"}, 0.25, 5000),
    ({"namespace": "web", "pod": "d", "container": "e"}, 0.5, 3599),
)
_IDLE = {
    **_TWO,
    **{of_device("accelerator_pod_device_share_ratio", **who): f"{share}+0x60" for who, share, _ in _HOLDERS},
    **{of_device("accelerator_pod_idle_seconds", **who): f"{idle}+0x60" for who, _, idle in _HOLDERS},
    series("accelerator_pod_device_share_ratio", {**_SECOND, **_POD}): "1+0x60",
    series("accelerator_pod_idle_seconds", {**_SECOND, **_POD}): "3600+0x60",
}
_HEALTH = of_device(
    "accelerator_health_cause_info",
    state="critical",
    cause="xid_48",
    reason="r",
    action="a",
    origin="hardware",
)


def _cause(given: Series, at: str = "10m", **labels: str) -> RecordCase:
    """`labels`: besides those of the rule."""
    identity = {key: DEVICE[key] for key in ("cluster", "vendor", "device", "index")}
    return RecordCase(series={**INFO, **given}, labels={**identity, **PLACE, **labels}, value=1, at=at)


# (name, what distinguishes rules of the same name) -> case
CASES: dict[tuple[str, str | None], RecordCase] = {
    ("cluster_vendor_model:accelerator_info:count", None): RecordCase(series=_TWO, labels=_MODEL, value=2),
    ("cluster_vendor_model:accelerator_up:sum", None): _sum("accelerator_up", 1, 0),
    ("cluster_vendor_model:accelerator_utilization_ratio:sum", None): _sum(
        "accelerator_utilization_ratio", 0.5, 0.25
    ),
    ("cluster_vendor_model:accelerator_memory_total_bytes:sum", None): _sum(
        "accelerator_memory_total_bytes", 80, 40
    ),
    ("cluster_vendor_model:accelerator_memory_used_bytes:sum", None): _sum(
        "accelerator_memory_used_bytes", 60, 10
    ),
    ("cluster_vendor_model:accelerator_power_watts:sum", None): _sum("accelerator_power_watts", 300, 400),
    ("cluster_vendor_model:accelerator_power_limit_watts:sum", None): _sum(
        "accelerator_power_limit_watts", 700, 700
    ),
    ("cluster_vendor_model:accelerator_utilization_ratio:count", None): RecordCase(
        series={**_TWO, of_device("accelerator_utilization_ratio"): "0+0x60"},
        labels=_MODEL,
        value=1,  # only devices that report it
    ),
    ("cluster_vendor_model_state:accelerator_health:sum", None): RecordCase(
        series=_both("accelerator_health", 1, 0, state="lost"),
        labels={**_MODEL, "state": "lost"},
        value=1,
    ),
    ("cluster_vendor_model_reason:accelerator_throttled:sum", None): RecordCase(
        series=_both("accelerator_throttled", 1, 1, reason="hw_slowdown"),
        labels={**_MODEL, "reason": "hw_slowdown"},
        value=2,
    ),
    ("cluster_vendor_model:accelerator_temperature_celsius:max", None): RecordCase(
        series=_HOT, labels=_MODEL, value=82
    ),
    **{
        ("cluster_vendor_model:accelerator_temperature_celsius:bucket", str(bound)): RecordCase(
            series=_HOT, labels=_MODEL, value=sum(celsius <= bound for celsius in (45, 82))
        )
        for bound in TEMPERATURE_BOUNDS
    },
    ("cluster_vendor_model:accelerator_temperature_celsius:bucket", "+Inf"): RecordCase(
        series=_HOT, labels=_MODEL, value=2
    ),
    ("cluster_vendor_model_severity:accelerator_ecc_errors:increase1h", None): RecordCase(
        series={**INFO, of_device("accelerator_ecc_errors_total", severity="corrected"): "0+2x200"},
        labels={**_MODEL, "severity": "corrected"},
        value=120,
        at="70m",
    ),
    ("cluster_vendor_model_kind:accelerator_errors:increase1h", None): RecordCase(
        series={
            **INFO,
            of_device("accelerator_errors_total", kind="axi", code="axi_post_error"): "0+1x200",
            of_device("accelerator_errors_total", kind="axi", code="axi_doorbell_done"): "0+100x200",
        },
        labels={**_MODEL, "kind": "axi"},
        value=60,
        at="70m",
    ),
    # A shared device counts once.
    ("cluster_vendor_model:accelerator_pod_allocated:count", None): RecordCase(
        series=_SHARED, labels=_MODEL, value=2
    ),
    ("cluster_namespace_vendor_model:accelerator_pod_allocated:count", None): RecordCase(
        series=_SHARED, labels=_NAMESPACE, value=2
    ),
    # One whole device and a quarter of the other are idle.
    ("cluster_vendor_model:accelerator_pod_idle_1h:count", None): RecordCase(
        series=_IDLE, labels=_MODEL, value=1.25
    ),
    ("cluster_namespace_vendor_model:accelerator_pod_idle_1h:count", None): RecordCase(
        series={name: values for name, values in _IDLE.items() if "tests" not in name and "web" not in name},
        labels=_NAMESPACE,
        value=1,
    ),
    ("cluster_namespace_vendor_model:accelerator_pod_utilization_ratio:sum", None): RecordCase(
        series=_both("accelerator_pod_utilization_ratio", 0.5, 0.25, **_POD), labels=_NAMESPACE, value=0.75
    ),
    ("cluster_namespace_vendor_model:accelerator_pod_memory_used_bytes:sum", None): RecordCase(
        series=_both("accelerator_pod_memory_used_bytes", 5, 7, **_POD), labels=_NAMESPACE, value=12
    ),
    ("cluster_namespace_vendor_model:accelerator_pod_energy_joules:rate5m", None): RecordCase(
        series={**INFO, of_device("accelerator_pod_energy_joules_total", **_POD): "0+6000x60"},
        labels=_NAMESPACE,
        value=100,
    ),
    ("cluster_vendor_model:accelerator_idle_energy_joules:rate5m", None): RecordCase(
        series={**INFO, of_device("accelerator_idle_energy_joules_total"): "0+3000x60"},
        labels=_MODEL,
        value=50,
    ),
    ("cluster_vendor_model_reason:accelerator_unattributed_memory_used_bytes:sum", None): RecordCase(
        series=_both(
            "accelerator_unattributed_memory_used_bytes",
            3,
            4,
            owner_kind="user",
            owner="ada",
            reason="not_in_a_pod",
        ),
        labels={**_MODEL, "reason": "not_in_a_pod"},
        value=7,
    ),
    ("cluster_version:accelscope_build_info:count", None): RecordCase(
        series={of_target("accelscope_build_info", version="1.0", python="3.13"): STEADY},
        labels={"cluster": "berlin", "version": "1.0"},
        value=1,
    ),
    ("cluster_node_vendor:accelerator_info:count", None): RecordCase(
        # Two jobs scrape the same device.
        series={
            **INFO,
            of_device("accelerator_info", **PLACE, job="pods"): STEADY,
            of_device("accelerator_info", **{**PLACE, "device": "nvidia:GPU-2", "index": "4"}): STEADY,
        },
        labels={"cluster": "berlin", "node": "node-1", "vendor": "nvidia"},
        value=2,
    ),
    (CAUSES, None): _cause({_HEALTH: STEADY}, state="critical", cause="xid_48", reason="r", action="a"),
    (CAUSES, "info"): _cause(
        {_HEALTH.replace("hardware", "application"): STEADY}, cause="xid_48", reason="r", action="a"
    ),
    (CAUSES, "reported by the driver, does not affect the health of the device"): _cause(
        {
            of_device("accelerator_error_last_seen_timestamp_seconds", kind="xid", code="13"): "0+60x60",
            of_device("accelerator_error_last_seen_timestamp_seconds", kind="xid", code="45"): "0+60x60",
            of_device("accelerator_error_last_seen_timestamp_seconds", kind="ras", code="umc.ce"): "0+60x60",
        },
        cause="xid_13",
    ),
    (CAUSES, "hot"): _cause({of_device("accelerator_temperature_celsius"): "95+0x60"}),
    (CAUSES, "link_down"): _cause(
        {of_device("accelerator_link_up", kind="nvlink", link="2"): "1+0x4 0+0x60"}, at="8m"
    ),
    (CAUSES, "pcie_lanes"): _cause(
        {
            series("accelerator_info", {**_SECOND, **PLACE}): STEADY,
            of_device("accelerator_pcie_link_width"): "8+0x60",
            series("accelerator_pcie_link_width", _SECOND): "16+0x60",
        }
    ),
    (ON_DEVICE, None): RecordCase(
        series={
            **INFO,
            of_device("accelerator_pod_allocated", resource="r", **_POD): "2+0x60",
            of_device("accelerator_pod_processes", **_POD): "1+0x60",
        },
        labels={
            **{key: DEVICE[key] for key in ("cluster", "vendor", "device")},
            "node": "node-1",
            "namespace": "research",
            "pod": "train-0",
        },
        value=1,
    ),
    ("cluster_node_vendor_model_device_index_kind:accelerator_link_up:sum", None): RecordCase(
        series={
            **INFO,
            **{
                of_device("accelerator_link_up", kind="nvlink", link=link): value
                for link, value in (("0", STEADY), ("1", STEADY), ("2", NEVER))
            },
        },
        labels={
            **{key: DEVICE[key] for key in ("cluster", "vendor", "device", "index")},
            **PLACE,
            "kind": "nvlink",
        },
        value=2,
    ),
    **{
        (f"cluster_node_vendor:accelscope_reader_devices_{what}:max", None): RecordCase(
            series={**NODE_INFO, of_target(f"accelscope_reader_devices_{what}", vendor="nvidia"): "8+0x60"},
            labels={"cluster": "berlin", "node": "node-1", "vendor": "nvidia"},
            value=8,
        )
        for what in ("seen", "expected")
    },
}
