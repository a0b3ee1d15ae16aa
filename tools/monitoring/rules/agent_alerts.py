"""Alerts about the agents."""

from tools.monitoring.promql import OF_TARGET, begun_within, last, of_node
from tools.monitoring.rules.rule import IN_CLUSTER, WHERE, Alert, Group, Severity

# `up` has the label `node` if it is set on the target, as the chart's monitors and example do.
WHERE_SCRAPED = (
    "{{ if $labels.node }}of {{ $labels.node }}{{ else }}at {{ $labels.instance }}{{ end }}" + IN_CLUSTER
)
_OF_JOB = "on (cluster, job)"


def _by_node(labels: str, expression: str, info: str = "accelscope_node_info") -> str:
    """Without the labels of the target, so that another pod of the node continues the alert."""
    return f"max by (cluster, node{labels}) ({of_node(expression, info=info)})"


def down(family: str) -> str:
    """Targets that are down and exported `family` within the last day; and targets that never answered, as
    after a failed rollout, in a job whose other targets all export `family`. By node where the target has the
    label, so that another pod of the node continues the alert."""
    known = f"last_over_time({family}[1d])"

    def lost(targets: str) -> str:
        is_down = f"({last(f'up{{{targets}}}')} == 0)"
        return (
            f"  ({is_down} and {OF_TARGET} {known})\n"
            "  or\n"
            f"  ({is_down} and {_OF_JOB} {known} unless {_OF_JOB} ((up == 1) unless {OF_TARGET} {family}))\n"
        )

    by_node, by_address = lost('node!=""'), lost('node=""')
    return f"max by (cluster, job, node) (\n{by_node})\nor\nmax by (cluster, job, instance) (\n{by_address})"


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
            lasting="10m",
            expression=down("accelscope_build_info"),
            summary=f"The agent {WHERE_SCRAPED} is down",
            description=(
                "Prometheus cannot scrape it (job {{ $labels.job }}). The devices of that node are not "
                "monitored.\n"
                "First action: {{ with $labels.node }}kubectl get pods -A -o wide "
                "--field-selector spec.nodeName={{ . }}{{ else }}See the error of the target in Prometheus"
                "{{ end }}"
            ),
            thresholds=("1d",),
        ),
        Alert(
            name="AccelScopeAgentsAbsent",
            severity=Severity.WARNING,
            lasting="15m",
            expression=f"absent({last('accelscope_build_info')})",
            summary="No agent is scraped",
            description=(
                "This Prometheus loads AccelScope's rules but scrapes no agent: none is running, or none is "
                "discovered.\n"
                "First action: Run kubectl get daemonsets -A; see the service discovery page of Prometheus"
            ),
        ),
        Alert(
            name="AccelScopeAgentStale",
            severity=Severity.WARNING,
            lasting="2m",
            expression=(
                # The newest of a node: while its agent is replaced, two have the name.
                "min by (cluster, node) "
                f"({of_node('(time() - ' + last('accelscope_collection_timestamp_seconds') + ')')}) > 300"
            ),
            summary=f"{WHERE}: the agent serves stale readings",
            description=(
                "The last collection was {{ $value | humanizeDuration }} ago: the collection loop is stuck, "
                "or a clock is wrong.\n"
                "First action: Compare the clocks of node and Prometheus; else delete the agent's pod"
            ),
            thresholds=("300",),
        ),
        Alert(
            name="AccelScopeReaderFailing",
            severity=Severity.WARNING,
            lasting="2m",
            expression="\nor\n".join(
                _by_node(
                    ", vendor",
                    f"(({last('accelscope_reader_up')} == 0) and ({last('accelscope_reader_found')} == 1))",
                    info,
                )
                for info in ("accelscope_node_info", "accelscope_device_plugin_info")
            ),
            summary=f"{WHERE}: no {{{{ $labels.vendor }}}} device can be read",
            description=(
                "The {{ $labels.vendor }} driver is present, but reading it fails. Device alerts of that "
                "node are missing.\n"
                "First action: Run accelscope doctor in the agent's container, which names the fix"
            ),
        ),
        Alert(
            name="AccelScopeAttributionFailing",
            severity=Severity.WARNING,
            lasting="15m",
            expression=_by_node(", source", f"({last('accelscope_attribution_source_up')} == 0)"),
            summary=f"{WHERE}: attribution source {{{{ $labels.source }}}} fails",
            description=(
                "Without {{ $labels.source }}, the series of {{ $labels.node }} lack pods or have outdated "
                "pod names.\n"
                "First action: See accelscope_attribution_source_last_error_info"
            ),
        ),
        Alert(
            name="AccelScopeSinkFailing",
            severity=Severity.WARNING,
            lasting="15m",
            expression=_by_node(", sink", f"({last('accelscope_sink_up')} == 0)"),
            summary=f"{WHERE}: {{{{ $labels.sink }}}} cannot be written",
            description=(
                "Readers of the Node object see outdated values; without idle-state and health-state, a "
                "restart of the agent forgets idle times and fatal errors.\n"
                "First action: See accelscope_sink_last_error_info"
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
                "{{ $labels.instance }} (job {{ $labels.job }}) keeps using the previous configuration, and "
                "would not start with this one.\n"
                "First action: Read the program's log, which names the key and the allowed values"
            ),
            thresholds=("1h",),
        ),
    ),
)
