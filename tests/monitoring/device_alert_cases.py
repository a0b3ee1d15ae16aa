"""Test cases of the alerts about devices."""

from collections.abc import Iterable

from tests.monitoring.rule_case import (
    DEVICE,
    INFO,
    NEVER,
    PLACE,
    STEADY,
    TARGET,
    AlertCase,
    Fires,
    Series,
    of_device,
    series,
)

_PLACE = "node-1 (berlin): nvidia"
_NODE_INFO = {series("accelscope_node_info", {**TARGET, "node": "node-1"}): STEADY}
_READER = {**TARGET, "vendor": "nvidia"}
_SEEN_DEVICES = series("accelscope_reader_devices_seen", _READER)
_EXPECTED = series("accelscope_reader_devices_expected", _READER)
_FOUND = series("accelscope_reader_found", _READER)
_ON_NODE = {"cluster": "berlin", "node": "node-1", "vendor": "nvidia"}
_POD = {**DEVICE, "namespace": "research", "pod": "train-0", "container": "main"}
_IDLE = series("accelerator_pod_idle_seconds", _POD)
_OTHER_DEVICE = series("accelerator_pod_idle_seconds", {**_POD, "device": "nvidia:GPU-2", "index": "4"})
_SHARE = _IDLE.replace("idle_seconds", "device_share_ratio")
_OTHER_SHARE = _OTHER_DEVICE.replace("idle_seconds", "device_share_ratio")
_HOLDER = {"cluster": "berlin", "namespace": "research", "pod": "train-0"}
_CELSIUS = of_device("accelerator_temperature_celsius")
_SLOWDOWN = of_device("accelerator_temperature_slowdown_celsius")
_LINK = of_device("accelerator_link_up", kind="nvlink", link="2")


def _number(number: int) -> dict[str, str]:
    return {**DEVICE, "device": f"nvidia:GPU-{number}", "index": str(number)}


def _cause(
    number: int, state: str, cause: str, *, reason: str = "", action: str = "", origin: str = ""
) -> str:
    texts = {"state": state, "cause": cause, "reason": reason, "action": action, "origin": origin}
    return series("accelerator_health_cause_info", {**_number(number), **texts})


def _pods(number: int, *names: str) -> Series:
    return {
        series(
            "accelerator_pod_allocated",
            {**_number(number), "namespace": "research", "pod": name, "resource": "r", "container": "c"},
        ): STEADY
        for name in names
    }


def _shown(*values: str) -> dict[str, str]:
    """Devices that the agent reports, healthy or not."""
    return {
        series("accelerator_info", {**_number(number), **PLACE}): each for number, each in enumerate(values)
    }


def _described(reason: str, devices: Iterable[int], pods: str, action: str, *, more: str = "") -> str:
    named = ", ".join(f"{number} (nvidia:GPU-{number})" for number in devices)
    return f"Reason: {reason}\nDevices: {named}{more}\nPods: {pods}\nFirst action: {action}"


_TWELVE = _shown(*[STEADY] * 12)
_FIRST_EIGHT = "0, 1, 2, 3, 4, 5, 6, 7"


def _state(state: str, usual_action: str, summary: str, shown: str = "REASON") -> AlertCase:
    """One alert for all devices of a node with the same cause. `shown`: the text of the reason."""
    late, early = "2m", "0m"
    reason, action = "memory row failed", "Drain the node"
    summary = summary.replace("REASON", reason)
    two = {
        **_TWELVE,
        _cause(1, state, "c", reason=reason, action=action, origin="hardware"): STEADY,
        _cause(2, state, "c", reason=reason, action=action, origin="hardware"): STEADY,
        **_pods(0, "other"),
        **_pods(1, "train-0"),
        **_pods(2, "train-0", "train-1"),
    }
    many = {_cause(number, state, "c", reason=reason): STEADY for number in range(12)}
    blip = {_cause(1, state, "c", reason=reason): f"_x60 1 {'stale'} _x100"}
    return AlertCase(
        fires=(
            Fires(
                series=two,
                at=late,
                labels={**_ON_NODE, "cause": "c"},
                summary=f"{_PLACE} 1, 2{summary}",
                description=_described(
                    shown.replace("REASON", reason), (1, 2), "research/train-0, research/train-1", action
                ),
            ),
            # More devices and pods than a text should contain.
            Fires(
                series={**_TWELVE, **many, **_pods(9, *(f"p{n}" for n in range(11)))},
                at=late,
                labels={**_ON_NODE, "cause": "c"},
                summary=f"{_PLACE} {_FIRST_EIGHT} and 4 more{summary}",
                description=_described(
                    shown.replace("REASON", reason),
                    range(8),
                    "research/p0, research/p1, research/p10, research/p2, research/p3, research/p4, "
                    "research/p5, research/p6 and 3 more",
                    usual_action,
                    more=" and 4 more",
                ),
            ),
            # A cause without texts, on a device without pods.
            Fires(
                series={**_TWELVE, _cause(1, state, "c"): STEADY},
                at=late,
                labels={**_ON_NODE, "cause": "c"},
                summary=f"{_PLACE} 1{summary}".replace(reason, "c"),
                description=_described(shown.replace("REASON", "c"), (1,), "none", usual_action),
            ),
        ),
        quiet=(
            (_TWELVE, "60m"),
            (two, early),
            ({**_TWELVE, **blip}, "62m"),
            ({**_TWELVE, **blip}, "70m"),
            *(
                ({**_TWELVE, _cause(1, other, "c", reason=reason): STEADY}, "60m")
                for other in ("lost", "critical", "warning", "unknown")
                if other != state
            ),
            # The owner of the application is informed by another alert.
            ({**_TWELVE, _cause(1, state, "c", reason=reason, origin="application"): STEADY}, "60m"),
            # Over for a quarter of an hour.
            ({**_TWELVE, _cause(1, state, "c", reason=reason): "1+0x30 stale"}, "47m"),
        ),
    )


def _degraded() -> AlertCase:
    """Conditions that are not a state of health, besides those that are."""
    plan = "Plan a reset of the device; accelscope doctor on the node has details"
    usual = _state("warning", plan, ": REASON")
    heat = "within 5 °C of its slowdown temperature, or at 90 °C or above"
    air = "Check fans and airflow of the server and the temperature of the room"
    links = "fewer links to other devices are up than within the last day"
    together = "Drain the node and reset all its devices together, or reboot it"
    lanes = "uses fewer PCIe lanes than other devices of the node"
    reseat = "Reseat the card at the next maintenance; else replace riser or cable"

    def found(given: Series, cause: str, reason: str, action: str, at: str = "20m") -> Fires:
        return Fires(
            series={**INFO, **given},
            at=at,
            labels={**_ON_NODE, "cause": cause},
            summary=f"{_PLACE} 3: {reason}",
            description=f"Reason: {reason}\nDevices: 3 (nvidia:GPU-1)\nPods: none\nFirst action: {action}",
        )

    width, other = of_device("accelerator_pcie_link_width"), {**_number(5), "device": "nvidia:GPU-5"}
    peer = {
        series("accelerator_info", {**other, **PLACE}): STEADY,
        series("accelerator_pcie_link_width", other): "16+0x100",
    }
    info = of_device("accelerator_info", **PLACE)
    elsewhere = {name: name.replace("10.0.0.1", "10.0.0.2") for name in (info, _LINK)}
    throttled = _cause(1, "warning", "throttled", reason="heat")
    return AlertCase(
        fires=(
            *usual.fires,
            found({_CELSIUS: "86+0x100", _SLOWDOWN: "90+0x100"}, "hot", heat, air),
            found({_CELSIUS: "91+0x100"}, "hot", heat, air),
            found({_LINK: "1+0x90 0+0x110"}, "link_down", links, together, "105m"),
            # While the link is down, and after the agent was replaced.
            found({_LINK: "1+0x90 0+0x400", info: "1+0x500"}, "link_down", links, together, "390m"),
            found(
                {
                    info: "1+0x120",
                    elsewhere[info]: "_x122 1+0x200",
                    _LINK: "1+0x90 0+0x30",
                    elsewhere[_LINK]: "_x122 0+0x200",
                },
                "link_down",
                links,
                together,
                "200m",
            ),
            found({width: "8+0x100", **peer}, "pcie_lanes", lanes, reseat),
            # Again and again, for more than half of the time.
            Fires(
                series={**_TWELVE, throttled: "_x30 " + " ".join(["1 1 stale"] * 20)},
                at="60m",
                labels={**_ON_NODE, "cause": "throttled"},
                summary=f"{_PLACE} 1: heat",
                description=_described("heat", (1,), "none", plan),
            ),
        ),
        quiet=(
            *usual.quiet,
            ({**_TWELVE, throttled: "_x30 " + " ".join(["1 stale _x1"] * 20)}, "60m"),  # a third of the time
            ({**INFO, _CELSIUS: "84+0x100", _SLOWDOWN: "90+0x100"}, "20m"),
            ({**INFO, _CELSIUS: "91+0x100", _SLOWDOWN: "100+0x100"}, "20m"),
            ({**INFO, _CELSIUS: "89+0x100"}, "20m"),
            ({**INFO, _CELSIUS: "89+0x100", _SLOWDOWN: NEVER}, "20m"),
            ({**INFO, _LINK: STEADY}, "100m"),
            ({**INFO, _LINK: NEVER}, "100m"),  # was never up
            ({**INFO, _LINK: "1+0x30 0+0x30 1+0x200"}, "100m"),  # recovered
            # All devices of the node have as few: the server is wired like this.
            (
                {
                    **INFO,
                    width: "8+0x100",
                    **{name: "8+0x100" if "width" in name else STEADY for name in peer},
                },
                "20m",
            ),
        ),
        lasts=usual.steady,
    )


def _reported() -> AlertCase:
    """An error that is not a state of health, and one of an application that is."""
    seen = of_device("accelerator_error_last_seen_timestamp_seconds", kind="xid", code="31")
    # These need no notification: removed applications, corrected errors, replays, doorbells.
    harmless = [
        of_device("accelerator_error_last_seen_timestamp_seconds", kind=kind, code=code)
        for kind, code in (
            ("xid", "45"),
            ("xid", "63"),
            ("ras", "umc.ce"),
            ("pcie", "replay"),
            ("axi", "axi_doorbell_done"),
        )
    ]
    reason = "reported by the driver, does not affect the health of the device"
    action = "Inform the owners of the pods; if it returns with other pods, look at the device"
    at_25 = "_x25 1500+0x100"
    return AlertCase(
        fires=(
            Fires(
                series={**INFO, seen: at_25},
                at="30m",
                labels={**_ON_NODE, "cause": "xid_31"},
                summary=f"{_PLACE} 3: xid_31 {reason}",
                description=(
                    f"Reason: {reason}\nDevices: 3 (nvidia:GPU-1)\nPods: none\nFirst action: {action}"
                ),
            ),
            Fires(
                series={
                    **_TWELVE,
                    _cause(1, "warning", "xid_13", reason="illegal address", origin="application"): STEADY,
                },
                at="30m",
                labels={**_ON_NODE, "cause": "xid_13"},
                summary=f"{_PLACE} 1: xid_13 illegal address",
                description=_described("illegal address", (1,), "none", "Inform the owners of the pods"),
            ),
        ),
        quiet=(
            (INFO, "30m"),
            ({**INFO, seen: at_25}, "52m"),
            ({**INFO, **dict.fromkeys(harmless, at_25)}, "30m"),
            # The device had a cause when the error occurred, and an alert about it.
            (
                {
                    **INFO,
                    seen: at_25,
                    of_device("accelerator_health_cause_info", state="warning", cause="xid_31"): (
                        "_x25 1+0x9 stale"
                    ),
                },
                "39m",
            ),
            # It still has.
            (
                {
                    **INFO,
                    seen: at_25,
                    of_device("accelerator_health_cause_info", state="critical", cause="xid_48"): STEADY,
                },
                "30m",
            ),
        ),
        lasts={
            **_TWELVE,
            _cause(1, "warning", "xid_13", reason="illegal address", origin="application"): STEADY,
        },
    )


_THREE = {**_NODE_INFO, _FOUND: STEADY, _EXPECTED: "3+0x200"}
_TWO_LEFT = _shown(STEADY, STEADY, "1+0x5 stale")

CASES: dict[str, AlertCase] = {
    "AcceleratorLost": _state(
        "lost",
        "Drain the node and reboot it",
        ": lost",
        "the driver reports it as lost, or no longer lists it (REASON)",
    ),
    "AcceleratorUnhealthy": _state(
        "critical", "Cordon the node; accelscope doctor there names the next step", ": REASON"
    ),
    "AcceleratorDegraded": _degraded(),
    "AcceleratorNotAnswering": _state(
        "unknown",
        "Look at the kernel log of the node; a device that hangs for long needs a reset",
        ": cannot be read: REASON",
        "driver calls fail or hang (REASON)",
    ),
    "AcceleratorVanished": AlertCase(
        fires=(
            # Three expected, two reported.
            Fires(series={**_THREE, **_TWO_LEFT}, at="30m", labels=_ON_NODE, value="1"),
            # The agent was restarted and no longer expects the third.
            Fires(
                series={**_THREE, _EXPECTED: "3+0x30 2+0x170", **_TWO_LEFT},
                at="50m",
                labels=_ON_NODE,
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
                at="60m",
                labels=_ON_NODE,
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
    "AcceleratorErrorReported": _reported(),
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
