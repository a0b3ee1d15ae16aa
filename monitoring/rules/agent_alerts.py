"""Alerts about the agents themselves: what they cannot see, nobody is warned of."""

from monitoring.promql import OF_TARGET, begun_within, with_node
from monitoring.rules.rule import Alert, Group, Severity

# Reader families are on the pages of agents and of device plugins.
_NODE_OF_READER = f"{OF_TARGET} group_left (node) (accelscope_node_info or accelscope_device_plugin_info)"


_OF_JOB = "on (cluster, job)"
# `up` has the node where it was put on the target, as the chart and its example do.
WHERE_SCRAPED = "{{ if $labels.node }}of {{ $labels.node }}{{ else }}at {{ $labels.instance }}{{ end }}"


def _of_reader(expression: str) -> str:
    return f"{expression} * {_NODE_OF_READER}"


def down(family: str) -> str:
    """Targets that do not answer and were such a program within the last day, whatever the job is; and those
    that never answered, as after a rollout that failed, in a job where whoever answers is such a program."""
    known = f"last_over_time({family}[1d])"
    return (
        f"((up == 0) and {OF_TARGET} {known})\n"
        "or\n"
        f"((up == 0) and {_OF_JOB} {known} unless {_OF_JOB} ((up == 1) unless {OF_TARGET} {family}))"
    )


def newly_counted(family: str, matchers: str, window: str) -> str:
    """Counted within the window, also where the series is younger: such counters begin with their process,
    and a series with its first event."""
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
            summary=f"The agent {WHERE_SCRAPED} does not answer",
            description=(
                "Prometheus cannot scrape {{ $labels.instance }} (job {{ $labels.job }}): nobody watches "
                "that node's devices."
            ),
            thresholds=("1d",),
        ),
        Alert(
            name="AccelScopeAgentsAbsent",
            severity=Severity.WARNING,
            lasting="15m",
            expression="absent(accelscope_build_info)",
            summary="No agent is scraped at all",
            description=(
                "This Prometheus has AccelScope's rules and not one agent: none runs, or none is found."
            ),
        ),
        Alert(
            name="AccelScopeAgentStale",
            severity=Severity.WARNING,
            lasting="2m",
            expression=with_node("((time() - accelscope_collection_timestamp_seconds) > 300)"),
            summary="The agent of {{ $labels.node }} shows old readings",
            description=(
                "The agent of {{ $labels.node }} answers and made its page {{ $value | humanizeDuration }} "
                "ago: its loop stands still, or a clock is wrong."
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
                "The driver of {{ $labels.vendor }} is there on {{ $labels.node }}, and reading it fails."
            ),
        ),
        Alert(
            name="AccelScopeDriverCallsHang",
            severity=Severity.WARNING,
            lasting="10m",
            expression=_of_reader("(accelscope_reader_abandoned_calls > 0)"),
            summary="Calls into the {{ $labels.vendor }} driver of {{ $labels.node }} hang",
            description=(
                "Calls into the driver that have not come back: {{ $value }}. The devices that they asked "
                "are not read."
            ),
            thresholds=("0",),
        ),
        Alert(
            name="AccelScopeValuesRejected",
            severity=Severity.INFO,
            lasting="15m",
            expression=_of_reader(newly_counted("accelscope_reader_rejected_values_total", "", "1h")),
            summary=(
                "Values of {{ $labels.vendor }} on {{ $labels.node }} are not understood: "
                "{{ $labels.reason }}"
            ),
            description=(
                "The driver answered with something that is no value. Times in the last hour: "
                "{{ $value | humanize }}. Those values are absent."
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
                "{{ $value | humanizePercentage }} of the collections on {{ $labels.node }} began late."
            ),
            thresholds=("0.5",),
        ),
        Alert(
            name="AccelScopeAttributionFailing",
            severity=Severity.WARNING,
            lasting="10m",
            expression=with_node("(accelscope_attribution_source_up == 0)"),
            summary="{{ $labels.source }} does not tell whose devices of {{ $labels.node }} are",
            description=(
                "The source {{ $labels.source }} fails on {{ $labels.node }}: pods are missing from its "
                "series, or have old names."
            ),
        ),
        Alert(
            name="AccelScopeSinkFailing",
            severity=Severity.WARNING,
            lasting="10m",
            expression=with_node("(accelscope_sink_up == 0)"),
            summary="{{ $labels.sink }} of {{ $labels.node }} is not written",
            description=(
                "The agent of {{ $labels.node }} cannot write {{ $labels.sink }}. Who reads it from the "
                "Node object sees old values; without idle-state, idle times begin at 0 when it restarts."
            ),
        ),
        Alert(
            name="AccelScopeConfigRejected",
            severity=Severity.WARNING,
            lasting="0m",
            expression="\nor\n".join(
                newly_counted(family, 'result="rejected"', "1h")
                for family in (
                    "accelscope_config_reloads_total",
                    "accelscope_device_plugin_config_reloads_total",
                    "accelscope_fleet_cluster_list_reloads_total",
                )
            ),
            summary="A changed file of settings was refused at {{ $labels.instance }}",
            description=(
                "{{ $labels.instance }} (job {{ $labels.job }}) goes on with the settings from before."
            ),
            thresholds=("1h",),
        ),
    ),
)
