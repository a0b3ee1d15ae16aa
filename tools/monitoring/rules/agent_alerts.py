"""Alerts about the agents."""

from tools.monitoring.promql import OF_TARGET, begun_within, with_node
from tools.monitoring.rules.rule import Alert, Group, Severity

# Agents and device plugins both export the reader metrics.
_NODE_OF_READER = f"{OF_TARGET} group_left (node) (accelscope_node_info or accelscope_device_plugin_info)"


_OF_JOB = "on (cluster, job)"
# `up` has the label `node` if it is set on the target, as the chart's monitors and example do.
WHERE_SCRAPED = "{{ if $labels.node }}of {{ $labels.node }}{{ else }}at {{ $labels.instance }}{{ end }}"


def _of_reader(expression: str) -> str:
    return f"{expression} * {_NODE_OF_READER}"


def down(family: str) -> str:
    """Targets that are down and exported `family` within the last day; and targets that never answered, as
    after a failed rollout, in a job whose other targets all export `family`."""
    known = f"last_over_time({family}[1d])"
    return (
        f"((up == 0) and {OF_TARGET} {known})\n"
        "or\n"
        f"((up == 0) and {_OF_JOB} {known} unless {_OF_JOB} ((up == 1) unless {OF_TARGET} {family}))"
    )


def counted_within(family: str, matchers: str, window: str) -> str:
    """Counters that grew within the window, including series that are younger than the window: a series
    appears with its first event."""
    selector = f"{family}{{{matchers}}}" if matchers else family
    return f"((increase({selector}[{window}]) > 0) or ({begun_within(selector, window)} > 0))"


AGENTS = Group(
    "accelscope-agents.alerts",
    (
        Alert(
            name="AccelScopeAgentDown",
            severity=Severity.WARNING,
            lasting="5m",
            expression=down("accelscope_build_info"),
            summary=f"The agent {WHERE_SCRAPED} is down",
            description=(
                "Prometheus cannot scrape {{ $labels.instance }} (job {{ $labels.job }}). The devices of "
                "that node are not monitored."
            ),
            thresholds=("1d",),
        ),
        Alert(
            name="AccelScopeAgentsAbsent",
            severity=Severity.WARNING,
            lasting="15m",
            expression="absent(accelscope_build_info)",
            summary="No agent is scraped",
            description=(
                "This Prometheus loads AccelScope's rules but scrapes no agent: none is running, or none is "
                "discovered."
            ),
        ),
        Alert(
            name="AccelScopeAgentStale",
            severity=Severity.WARNING,
            lasting="2m",
            expression=with_node("((time() - accelscope_collection_timestamp_seconds) > 300)"),
            summary="The agent of {{ $labels.node }} serves stale readings",
            description=(
                "The last collection of the agent of {{ $labels.node }} was {{ $value | humanizeDuration }} "
                "ago: its collection loop is stuck, or a clock is wrong."
            ),
            thresholds=("300",),
        ),
        Alert(
            name="AccelScopeReaderFailing",
            severity=Severity.WARNING,
            lasting="5m",
            expression=_of_reader("((accelscope_reader_up == 0) and (accelscope_reader_found == 1))"),
            summary="{{ $labels.vendor }} devices of {{ $labels.node }} cannot be read",
            description=(
                "The {{ $labels.vendor }} driver is present on {{ $labels.node }}, but reading it fails."
            ),
        ),
        Alert(
            name="AccelScopeDriverCallsHang",
            severity=Severity.WARNING,
            lasting="10m",
            expression=_of_reader("(accelscope_reader_abandoned_calls > 0)"),
            summary="Calls into the {{ $labels.vendor }} driver of {{ $labels.node }} hang",
            description=("Driver calls that have not returned: {{ $value }}. Their devices are not read."),
            thresholds=("0",),
        ),
        Alert(
            name="AccelScopeValuesRejected",
            severity=Severity.INFO,
            lasting="15m",
            expression=_of_reader(counted_within("accelscope_reader_rejected_values_total", "", "1h")),
            summary=(
                "Values of the {{ $labels.vendor }} driver on {{ $labels.node }} are rejected: "
                "{{ $labels.reason }}"
            ),
            description=(
                "The driver returned {{ $value | humanize }} invalid values in the last hour. They are "
                "reported as absent."
            ),
            thresholds=("1h",),
        ),
        Alert(
            name="AccelScopeCollectionOverruns",
            severity=Severity.WARNING,
            lasting="15m",
            expression=with_node(
                "(rate(accelscope_collection_overruns_total[15m]) / "
                "rate(accelscope_collections_total[15m]) > 0.5)"
            ),
            summary="Collections on {{ $labels.node }} take longer than their interval",
            description=(
                "{{ $value | humanizePercentage }} of the collections on {{ $labels.node }} started late."
            ),
            thresholds=("0.5",),
        ),
        Alert(
            name="AccelScopeAttributionFailing",
            severity=Severity.WARNING,
            lasting="10m",
            expression=with_node("(accelscope_attribution_source_up == 0)"),
            summary="Attribution source {{ $labels.source }} fails on {{ $labels.node }}",
            description=(
                "Without {{ $labels.source }}, the series of {{ $labels.node }} lack pods or have outdated "
                "pod names."
            ),
        ),
        Alert(
            name="AccelScopeSinkFailing",
            severity=Severity.WARNING,
            lasting="10m",
            expression=with_node("(accelscope_sink_up == 0)"),
            summary="Sink {{ $labels.sink }} of {{ $labels.node }} fails",
            description=(
                "The agent of {{ $labels.node }} cannot write {{ $labels.sink }}. Readers of the Node "
                "object see outdated values; without idle-state, idle times restart at 0 with the agent."
            ),
        ),
        Alert(
            name="AccelScopeConfigRejected",
            severity=Severity.WARNING,
            lasting="0m",
            expression="\nor\n".join(
                counted_within(family, 'result="rejected"', "1h")
                for family in (
                    "accelscope_config_reloads_total",
                    "accelscope_device_plugin_config_reloads_total",
                    "accelscope_fleet_cluster_list_reloads_total",
                )
            ),
            summary="{{ $labels.instance }} rejected a changed configuration file",
            description=(
                "{{ $labels.instance }} (job {{ $labels.job }}) keeps using the previous configuration."
            ),
            thresholds=("1h",),
        ),
    ),
)
