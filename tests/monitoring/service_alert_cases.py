"""Test cases of the alerts about agents, device plugins and the fleet."""

from tests.monitoring.rule_case import (
    AFTER_GAP,
    NEVER,
    NODE_INFO,
    STEADY,
    TARGET,
    AlertCase,
    Fires,
    Series,
    of_target,
    series,
    with_gap,
)

_NODE = {"cluster": "berlin", "node": "node-1"}
_VENDOR = {**_NODE, "vendor": "nvidia"}
_UP = of_target("up")
_STRANGER = series("up", {**TARGET, "instance": "10.0.0.3:8080"})
_PLUGIN_LABELS = {"version": "1", "node": "node-1", "vendor": "furiosa", "resource": "furiosa.ai/rngd"}
_PLUGIN = {of_target("accelscope_device_plugin_info", **_PLUGIN_LABELS): STEADY}
_OF_PLUGIN = {**_NODE, "resource": "furiosa.ai/rngd"}
_FIRST_EVENTS = "_x10 2+0x100"  # a counter that appears with its first events
_RESTARTED = "5+0x119 _x20 2+0x100"  # the program restarted during a scrape gap


def _after_gap(info: Series, *counters: str) -> tuple[tuple[Series, str], ...]:
    """Events counted long ago are not new after a scrape gap."""
    known = {**dict.fromkeys(info, with_gap(1)), **dict.fromkeys(counters, with_gap(3))}
    return tuple((known, at) for at in AFTER_GAP)


def _down(family: str) -> AlertCase:
    """Fires for targets that exported `family` or should; not for other targets."""
    info, node = of_target(family), {"node": "node-1"}
    new = {**TARGET, "instance": "10.0.0.2:9400"}
    never_up = series("up", new)
    return AlertCase(
        fires=(
            Fires(series={info: "1+0x10", _UP: "1+0x10 0+0x100"}, at="22m", labels=TARGET),
            Fires(series={info: "1+0x10", _UP: "1+0x10 0+0x100"}, at="90m", labels=TARGET),
            # The summary names the node if the target has the label.
            Fires(
                series={info: "1+0x10", of_target("up", **node): "1+0x10 0+0x100"},
                at="22m",
                labels={**_NODE, "job": "accelscope"},
            ),
            # A target that never responded, in a job with others that do,
            Fires(series={info: STEADY, _UP: STEADY, never_up: NEVER}, at="22m", labels=new),
            # and after all targets were replaced.
            Fires(series={info: "1+0x10", _UP: "1+0x10", never_up: "_x11 0+0x100"}, at="30m", labels=new),
            # A known target in a job shared with other programs.
            Fires(
                series={info: "1+0x10", _UP: "1+0x10 0+0x100", never_up: STEADY},
                at="22m",
                labels=TARGET,
            ),
        ),
        quiet=(
            ({info: STEADY, _UP: STEADY}, "60m"),
            ({_UP: NEVER}, "60m"),
            # An unknown target in a job with other programs.
            ({info: STEADY, _UP: STEADY, _STRANGER: STEADY, never_up: NEVER}, "60m"),
            # Another job, another cluster.
            ({info: STEADY, _UP: STEADY, series("up", {**new, "job": "nodes"}): NEVER}, "60m"),
            ({info: STEADY, _UP: STEADY, series("up", {**new, "cluster": "oslo"}): NEVER}, "60m"),
            # A scrape gap.
            *(({info: with_gap(1), _UP: with_gap(1)}, at) for at in AFTER_GAP),
            # A pod that was replaced by one with another address, and a node that was removed.
            (
                {
                    info: "1+0x10 stale",
                    of_target("up", **node): "1+0x10 0 0 stale",
                    series("up", {**new, **node}): "_x13 1+0x100",
                },
                "21m",
            ),
            ({info: "1+0x10 stale", _UP: "1+0x10 0 0 0 stale"}, "25m"),
        ),
        lasts={info: "1+0x10 stale", of_target("up", **node): NEVER},
    )


def _zero(name: str, lasting: str, labels: dict[str, str], info: dict[str, str]) -> AlertCase:
    """For metrics that should be 1."""
    return AlertCase(
        fires=(Fires(series={**info, name: NEVER}, at=lasting, labels=labels),),
        quiet=(({**info, name: STEADY}, "60m"), ({**info, name: NEVER}, "0m")),
    )


_FOUND = of_target("accelscope_reader_found", vendor="nvidia")
_READER = of_target("accelscope_reader_up", vendor="nvidia")
_PAGE = of_target("accelscope_collection_timestamp_seconds")
_REFUSED = {"result": "rejected"}
_RELOADS = tuple(
    of_target(family, **_REFUSED)
    for family in (
        "accelscope_config_reloads_total",
        "accelscope_device_plugin_config_reloads_total",
        "accelscope_fleet_cluster_list_reloads_total",
    )
)
_ALLOCATION = of_target("accelscope_device_plugin_allocation_errors_total", reason="unknown_device")
_OSLO = {"cluster": "oslo"}
_FLEET = {"job": "accelscope-fleet", "instance": "10.0.0.9:8080", "cluster": "oslo"}


def _fleet(name: str, **labels: str) -> str:
    listed = ", ".join(f'{key}="{value}"' for key, value in {**_FLEET, **labels}.items())
    return f"{name}{{{listed}}}"


_CLUSTER = _fleet("accelscope_fleet_cluster_up")
_SOURCE = _fleet("accelscope_fleet_source_up", source="agents")

CASES: dict[str, AlertCase] = {
    "AccelScopeAgentDown": _down("accelscope_build_info"),
    "AccelScopeAgentsAbsent": AlertCase(
        fires=(Fires(series={_UP: STEADY}, at="20m", labels={}),),
        quiet=(({of_target("accelscope_build_info"): STEADY}, "20m"),),
    ),
    "AccelScopeAgentStale": AlertCase(
        fires=(Fires(series={**NODE_INFO, _PAGE: "600+0x100"}, at="20m", labels=_NODE, value="10m 0s"),),
        quiet=(({**NODE_INFO, _PAGE: "0+60x100"}, "20m"),),
    ),
    "AccelScopeReaderFailing": AlertCase(
        fires=(
            Fires(series={**NODE_INFO, _FOUND: STEADY, _READER: NEVER}, at="3m", labels=_VENDOR),
            Fires(series={**_PLUGIN, _FOUND: STEADY, _READER: NEVER}, at="3m", labels=_VENDOR),
        ),
        quiet=(
            ({**NODE_INFO, _FOUND: STEADY, _READER: STEADY}, "60m"),
            ({**NODE_INFO, _FOUND: NEVER, _READER: NEVER}, "60m"),  # a node without such a driver
        ),
    ),
    "AccelScopeAttributionFailing": _zero(
        of_target("accelscope_attribution_source_up", source="pods"),
        "16m",
        {**_NODE, "source": "pods"},
        NODE_INFO,
    ),
    "AccelScopeSinkFailing": _zero(
        of_target("accelscope_sink_up", sink="npu-annotation"),
        "16m",
        {**_NODE, "sink": "npu-annotation"},
        NODE_INFO,
    ),
    "AccelScopeConfigRejected": AlertCase(
        fires=tuple(
            Fires(series={counter: values}, at=at, labels={**TARGET, **_REFUSED})
            for counter in _RELOADS
            for values, at in ((_FIRST_EVENTS, "30m"), ("1+0x10 2+0x100", "30m"), (_RESTARTED, "150m"))
        ),
        quiet=(
            ({of_target("accelscope_config_reloads_total", result="applied"): _FIRST_EVENTS}, "30m"),
            ({of_target("accelscope_config_reloads_total", **_REFUSED): "2+0x200"}, "90m"),
            *_after_gap({}, *_RELOADS),
        ),
        lasts={_RELOADS[0]: "_x33 2+0x100"},
        of_one_process=True,
    ),
    "AccelScopeDevicePluginDown": _down("accelscope_device_plugin_info"),
    "AccelScopeDevicePluginNotRegistered": _zero(
        of_target("accelscope_device_plugin_registered"), "11m", _OF_PLUGIN, _PLUGIN
    ),
    "AccelScopeDevicePluginAllocationsRefused": AlertCase(
        fires=(
            Fires(
                series={**_PLUGIN, _ALLOCATION: _FIRST_EVENTS},
                at="20m",
                labels={**_OF_PLUGIN, "reason": "unknown_device"},
                value="2",
            ),
            Fires(
                series={**_PLUGIN, _ALLOCATION: _RESTARTED},
                at="145m",
                labels={**_OF_PLUGIN, "reason": "unknown_device"},
                value="2",
            ),
        ),
        quiet=(({**_PLUGIN, _ALLOCATION: "2+0x60"}, "30m"), *_after_gap(_PLUGIN, _ALLOCATION)),
        lasts={**_PLUGIN, _ALLOCATION: "_x33 2+0x100"},
    ),
    "AccelScopeFleetDown": _down("accelscope_fleet_build_info"),
    "AccelScopeFleetClusterUnreachable": _zero(_CLUSTER, "11m", _OSLO, {}),
    "AccelScopeFleetSourceFailing": AlertCase(
        fires=(
            Fires(series={_SOURCE: NEVER, _CLUSTER: STEADY}, at="11m", labels={**_OSLO, "source": "agents"}),
        ),
        quiet=(
            ({_SOURCE: STEADY, _CLUSTER: STEADY}, "60m"),
            ({_SOURCE: NEVER, _CLUSTER: NEVER}, "60m"),  # covered by another alert
        ),
    ),
}
