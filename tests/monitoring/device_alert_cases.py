"""Test cases of the alerts about devices."""

from tests.monitoring.rule_case import (
    AFTER_GAP,
    DEVICE,
    INFO,
    NEVER,
    PLACE,
    STEADY,
    TARGET,
    AlertCase,
    Fires,
    of_device,
    series,
    with_gap,
)

from accelscope.model import FAULT_THROTTLES

HERE = {**DEVICE, **PLACE}


def _state(state: str, lasting: str) -> AlertCase:
    """Fires after its `for` duration; not before, and not in another state."""
    name = of_device("accelerator_health", state=state)
    return AlertCase(
        fires=(Fires(series={**INFO, name: STEADY}, at=lasting, labels={**HERE, "state": state}),),
        quiet=(
            ({**INFO, name: STEADY}, "0m"),
            ({**INFO, name: NEVER, of_device("accelerator_health", state="ok"): STEADY}, "60m"),
        ),
    )


def _flag(family: str, at: str) -> AlertCase:
    return AlertCase(
        fires=(Fires(series={**INFO, of_device(family): STEADY}, at=at, labels=HERE),),
        quiet=(({**INFO, of_device(family): NEVER}, "60m"),),
    )


_INFO = of_device("accelerator_info", **PLACE)
_UP = of_device("accelerator_up")
_LOST = of_device("accelerator_health", state="lost")
_CELSIUS = of_device("accelerator_temperature_celsius")
_SLOWDOWN = of_device("accelerator_temperature_slowdown_celsius")
_CORRECTED = of_device("accelerator_ecc_errors_total", severity="corrected")
_UNCORRECTED = of_device("accelerator_ecc_errors_total", severity="uncorrected")
_XID = {"kind": "xid", "code": "74"}
_SEEN = of_device("accelerator_error_last_seen_timestamp_seconds", **_XID)
_XIDS = of_device("accelerator_errors_total", **_XID)
_DOORBELL = of_device("accelerator_errors_total", kind="axi", code="axi_doorbell_done")
_AXI = of_device("accelerator_errors_total", kind="axi", code="axi_post_error")
_USED, _TOTAL = of_device("accelerator_memory_used_bytes"), of_device("accelerator_memory_total_bytes")
_LANES, _MOST_LANES = of_device("accelerator_pcie_link_width"), of_device("accelerator_pcie_max_link_width")
_LINK = of_device("accelerator_link_up", kind="nvlink", link="2")
_INFO_WITH_GAP = {_INFO: with_gap(1)}
_OTHER_LINK = of_device("accelerator_link_up", kind="nvlink", link="3")
_LINKED = {"cluster": "berlin", **{key: HERE[key] for key in ("node", "vendor", "model", "device", "index")}}
_NODE_INFO = {series("accelscope_node_info", {**TARGET, "node": "node-1"}): STEADY}
_READER = {**TARGET, "vendor": "nvidia"}
_SEEN_DEVICES = series("accelscope_reader_devices_seen", _READER)
_EXPECTED = series("accelscope_reader_devices_expected", _READER)
_FOUND = series("accelscope_reader_found", _READER)
_VANISHED = {"cluster": "berlin", "node": "node-1", "vendor": "nvidia"}
_MODEL = {"cluster": "berlin", "vendor": "nvidia", "model": "H100"}
_SECOND = {series("accelerator_info", {**DEVICE, "device": "nvidia:GPU-2", "index": "4", **PLACE}): "1x20"}
_POD = {**DEVICE, "namespace": "research", "pod": "train-0", "container": "main"}
_IDLE = series("accelerator_pod_idle_seconds", _POD)
_OTHER_DEVICE = series("accelerator_pod_idle_seconds", {**_POD, "device": "nvidia:GPU-2", "index": "4"})
_SHARE = _IDLE.replace("idle_seconds", "device_share_ratio")
_OTHER_SHARE = _OTHER_DEVICE.replace("idle_seconds", "device_share_ratio")
_HOLDER = {"cluster": "berlin", "namespace": "research", "pod": "train-0"}


def _shown(*values: str) -> dict[str, str]:
    """Devices that the agent reports, healthy or not."""
    return {
        series("accelerator_info", {**DEVICE, "device": f"nvidia:GPU-{n}", "index": str(n), **PLACE}): each
        for n, each in enumerate(values)
    }


_THREE = {**_NODE_INFO, _FOUND: STEADY, _EXPECTED: "3+0x200"}
_TWO_LEFT = _shown(STEADY, STEADY, "1+0x30")


_USUAL_LIFE = ("gpu_idle", "sw_power_cap", "ppt", "gfx_clk_below_host_limit_power", "app_power_cap")


def _throttled(reason: str) -> str:
    return of_device("accelerator_throttled", reason=reason)


CASES: dict[str, AlertCase] = {
    "AcceleratorLost": _state("lost", "2m"),
    "AcceleratorUnhealthy": _state("critical", "2m"),
    "AcceleratorDegraded": _state("warning", "16m"),
    "AcceleratorNotAnswering": AlertCase(
        fires=(Fires(series={**INFO, _UP: NEVER, _LOST: NEVER}, at="6m", labels=HERE),),
        quiet=(
            ({**INFO, _UP: STEADY, _LOST: NEVER}, "60m"),
            ({**INFO, _UP: NEVER, _LOST: STEADY}, "60m"),  # covered by another alert
        ),
    ),
    "AcceleratorVanished": AlertCase(
        fires=(
            # Three expected, two reported.
            Fires(series={**_THREE, **_TWO_LEFT}, at="50m", labels=_VANISHED, value="1"),
            # The agent was restarted and no longer expects the third.
            Fires(
                series={**_THREE, _EXPECTED: "3+0x30 2+0x170", **_TWO_LEFT},
                at="50m",
                labels=_VANISHED,
                value="1",
            ),
            # Devices and driver are gone.
            Fires(
                series={
                    **_NODE_INFO,
                    _FOUND: "1+0x30 0+0x170",
                    _EXPECTED: "3+0x30",
                    **_shown(*["1+0x30"] * 3),
                },
                at="50m",
                labels=_VANISHED,
                value="3",
            ),
        ),
        quiet=(
            ({**_THREE, **_shown(*[STEADY] * 3)}, "60m"),
            # Lost and unresponsive devices are reported and covered by other alerts.
            ({**_THREE, _SEEN_DEVICES: "3+0x30 1+0x170", **_shown(*[STEADY] * 3)}, "60m"),
            # A new device.
            ({**_THREE, _EXPECTED: "2+0x30 3+0x170", **_shown(STEADY, STEADY, "_x30 1+0x170")}, "60m"),
            # An agent that is down.
            ({**_shown(*["1+0x30"] * 3), _EXPECTED: "3+0x30", _FOUND: "1+0x30"}, "60m"),
            # A node that never had such devices.
            ({**_NODE_INFO, _FOUND: NEVER}, "60m"),
        ),
    ),
    "AcceleratorCapacityDropped": AlertCase(
        fires=(
            Fires(series={**INFO, **_SECOND}, at="60m", labels=_MODEL, value="50%"),
            Fires(series=_SECOND, at="60m", labels=_MODEL, value="100%"),
        ),
        quiet=((INFO, "60m"), ({**INFO, **_SECOND}, "15m")),
    ),
    "AcceleratorHot": AlertCase(
        fires=(
            Fires(
                series={**INFO, _CELSIUS: "86+0x30", _SLOWDOWN: "90+0x30"}, at="10m", labels=HERE, value="86"
            ),
            Fires(series={**INFO, _CELSIUS: "91+0x30"}, at="10m", labels=HERE, value="91"),
        ),
        quiet=(
            ({**INFO, _CELSIUS: "84+0x30", _SLOWDOWN: "90+0x30"}, "10m"),
            ({**INFO, _CELSIUS: "91+0x30", _SLOWDOWN: "100+0x30"}, "10m"),
            ({**INFO, _CELSIUS: "89+0x30"}, "10m"),
            ({**INFO, _CELSIUS: "89+0x30", _SLOWDOWN: NEVER}, "10m"),
        ),
    ),
    "AcceleratorThrottled": AlertCase(
        fires=tuple(
            Fires(
                series={**INFO, _throttled(reason): STEADY},
                at="30m",
                labels={**HERE, "reason": reason},
                value="100%",
            )
            for reason in sorted(FAULT_THROTTLES)
        ),
        quiet=(
            ({**INFO, **{_throttled(reason): STEADY for reason in _USUAL_LIFE}}, "30m"),
            ({**INFO, _throttled("hw_thermal_slowdown"): "0+0x25 1 1 1 0+0x20"}, "30m"),
        ),
    ),
    "AcceleratorEccUncorrected": AlertCase(
        fires=(
            Fires(
                series={**INFO, _UNCORRECTED: "0+0x30 1+0x100"},
                at="40m",
                labels=HERE,  # the alert's severity replaces that of the series
            ),
        ),
        quiet=(
            ({**INFO, _UNCORRECTED: "5+0x100", _CORRECTED: "0+1x100"}, "40m"),  # old errors
        ),
    ),
    "AcceleratorEccStorm": AlertCase(
        fires=(
            Fires(
                series={**INFO, _CORRECTED: "0+2x200"},
                at="70m",
                labels=HERE,
                value="120",
            ),
        ),
        quiet=(({**INFO, _CORRECTED: "0+1x200"}, "70m"), ({**INFO, _UNCORRECTED: "0+5x200"}, "70m")),
    ),
    "AcceleratorErrorReported": AlertCase(
        fires=(
            Fires(series={**INFO, _SEEN: "1200+0x100"}, at="25m", labels={**HERE, **_XID}, value="5m 0s"),
        ),
        quiet=(({**INFO, _SEEN: "1200+0x100"}, "36m"), ({**INFO, _DOORBELL: "0+9x100"}, "25m")),
    ),
    "AcceleratorErrorStorm": AlertCase(
        fires=(
            Fires(
                series={**INFO, _AXI: "0+2x60"},
                at="30m",
                labels={**HERE, "kind": "axi", "code": "axi_post_error"},
                value="30",
            ),
            # increase() misses the first count.
            Fires(series={**INFO, _XIDS: "_x28 40+0x60"}, at="30m", labels={**HERE, **_XID}, value="40"),
            # The agent restarted during a scrape gap, so its whole count is new.
            Fires(
                series={**_INFO_WITH_GAP, _XIDS: "500+0x119 _x20 40+0x60"},
                at="141m",
                labels={**HERE, **_XID},
                value="40",
            ),
        ),
        quiet=(
            ({**INFO, _XIDS: "_x28 3+0x60"}, "30m"),
            ({**INFO, _AXI: "5000+0x60", _DOORBELL: "0+50x60"}, "30m"),  # old errors, and doorbells
            ({**INFO, _AXI: "_x28 5000+0x60"}, "30m"),  # a restarted agent
            *(({**_INFO_WITH_GAP, _XIDS: with_gap(500), _AXI: with_gap(500)}, at) for at in AFTER_GAP),
        ),
    ),
    "AcceleratorRowRemapPending": _flag("accelerator_row_remap_pending", "11m"),
    "AcceleratorRowRemapFailed": _flag("accelerator_row_remap_failed", "1m"),
    "AcceleratorLinkDown": AlertCase(
        fires=tuple(
            Fires(series={**info, **links}, at=at, labels={**_LINKED, "kind": "nvlink"}, value="1")
            for info, links, at in (
                (INFO, {_LINK: "1+0x90 0+0x110", _OTHER_LINK: STEADY}, "100m"),
                # While the link is down,
                ({_INFO: "1+0x400"}, {_LINK: "1+0x90 0+0x310"}, "390m"),
                # also after a scrape gap,
                (_INFO_WITH_GAP, {_LINK: "1+0x90 0+0x28 _x20 0+0x200"}, "200m"),
                # and after the agent was replaced.
                (
                    {_INFO: "1+0x120", _INFO.replace("10.0.0.1", "10.0.0.2"): "_x125 1+0x200"},
                    {_LINK: "1+0x90 0+0x30", _LINK.replace("10.0.0.1", "10.0.0.2"): "_x125 0+0x200"},
                    "200m",
                ),
            )
        ),
        quiet=(
            ({**INFO, _LINK: STEADY}, "100m"),
            ({**INFO, _LINK: NEVER, _OTHER_LINK: STEADY}, "100m"),  # was never up
            ({**INFO, _LINK: "1+0x30 0+0x30 1+0x200"}, "100m"),  # recovered
            *(({**_INFO_WITH_GAP, _LINK: with_gap(1), _OTHER_LINK: with_gap(0)}, at) for at in AFTER_GAP),
            # Two jobs scrape the agent, then only one.
            (
                {
                    **INFO,
                    _LINK: STEADY,
                    _INFO.replace("accelscope", "pods"): "1+0x30",
                    _LINK.replace("accelscope", "pods"): "1+0x30",
                },
                "60m",
            ),
        ),
    ),
    "AcceleratorPcieDegraded": AlertCase(
        fires=(
            Fires(
                series={**INFO, _LANES: "8+0x60", _MOST_LANES: "16+0x60"}, at="20m", labels=HERE, value="8"
            ),
        ),
        quiet=(
            ({**INFO, _LANES: "16+0x60", _MOST_LANES: "16+0x60"}, "20m"),
            ({**INFO, _LANES: "8+0x60"}, "20m"),
        ),
    ),
    "AcceleratorMemoryNearlyFull": AlertCase(
        fires=(
            Fires(series={**INFO, _USED: "98+0x60", _TOTAL: "100+0x60"}, at="20m", labels=HERE, value="98%"),
        ),
        quiet=(
            ({**INFO, _USED: "96+0x60", _TOTAL: "100+0x60"}, "20m"),
            ({**INFO, _USED: "0+0x60", _TOTAL: "0+0x60"}, "20m"),
        ),
    ),
    "AcceleratorIdleAllocation": AlertCase(
        fires=(
            Fires(
                series={**INFO, _IDLE: "7200+0x60", _OTHER_DEVICE: "9000+0x60"},
                at="15m",
                labels=_HOLDER,
                value="2h 0m 0s",
            ),
        ),
        quiet=(
            ({**INFO, _IDLE: "3000+0x60"}, "15m"),
            ({**INFO, _IDLE: "0+0x60", _OTHER_DEVICE: "9000+0x60"}, "15m"),  # uses one of its two devices
            # The idle time of one of its two devices is unknown.
            ({**INFO, _SHARE: "1+0x60", _OTHER_SHARE: "1+0x60", _OTHER_DEVICE: "9000+0x60"}, "15m"),
        ),
    ),
}
