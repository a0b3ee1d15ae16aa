"""The dashboard of AccelScope's own programs: agents, device plugins and the fleet."""

from grafana_foundation_sdk.models.dashboard import Dashboard

from tools.monitoring.dashboards.agent_costs import agents_only, cost, of, spread
from tools.monitoring.dashboards.frame import AGENTS, NODE, Section, build_dashboard
from tools.monitoring.dashboards.panels import BAD, WARN, Query, lines, number, ranking
from tools.monitoring.dashboards.services import fleet, plugin
from tools.monitoring.dashboards.tables import Column, rows
from tools.monitoring.dashboards.variables import CLUSTER, cell, label, to
from tools.monitoring.promql import with_node

_TO_NODE = to(NODE, "Node", cluster=label("cluster"), node=label("node"))
_NODE_CELL = {"node": to(NODE, "Node", cluster=cell("Cluster"), node=cell("Node"))}
_FAILING = '(accelscope_reader_found{cluster=~"$cluster"} - accelscope_reader_up{cluster=~"$cluster"} == 1)'


def now() -> Section:
    return Section(
        "Now",
        [
            number(
                "Agents",
                "Agents that Prometheus scrapes successfully.",
                "short",
                f"count({of('accelscope_build_info')})",
                width=3,
            ),
            number(
                "Down",
                "Targets that were agents within the last day and are down.",
                "short",
                f"count({agents_only('up')}) - sum({agents_only('up')})",
                levels=((1, BAD),),
                width=3,
            ),
            number(
                "Oldest data",
                "Longest time since the last collection of an agent.",
                "s",
                f"max(time() - {of('accelscope_collection_timestamp_seconds')})",
                levels=((60, WARN), (300, BAD)),
                width=3,
            ),
            number(
                "Readers down",
                "Drivers that are present and cannot be read.",
                "short",
                f"sum({of('accelscope_reader_found')} == bool 1) - sum({of('accelscope_reader_up')})",
                levels=((1, WARN),),
                width=3,
            ),
            number(
                "Hung calls",
                "Driver calls that timed out and have not returned.",
                "short",
                f"sum({of('accelscope_reader_abandoned_calls')})",
                levels=((1, WARN),),
                width=3,
            ),
            number(
                "Sources down",
                "Attribution sources that fail.",
                "short",
                (
                    f"count({of('accelscope_attribution_source_up')}) - "
                    f"sum({of('accelscope_attribution_source_up')})"
                ),
                levels=((1, WARN),),
                width=3,
            ),
            number(
                "Sinks down",
                "Annotations and labels that could not be written.",
                "short",
                f"count({of('accelscope_sink_up')}) - sum({of('accelscope_sink_up')})",
                levels=((1, WARN),),
                width=3,
            ),
            number(
                "Series",
                "Total over all agents.",
                "short",
                f"sum({agents_only('scrape_samples_scraped')})",
                width=3,
            ),
        ],
    )


def collecting() -> Section:
    return Section(
        "Collection",
        [
            lines(
                "Duration of collections",
                "Distribution over the agents.",
                "s",
                *spread(of("accelscope_collection_duration_seconds")),
                width=8,
            ),
            lines(
                "Duration by vendor",
                "Slowest reading of each vendor's driver.",
                "s",
                Query(f"max by (vendor) ({of('accelscope_reader_duration_seconds')})", "{{vendor}}"),
                width=8,
            ),
            lines(
                "Late collections",
                "Share of collections that started late because the previous one exceeded the interval.",
                "percentunit",
                Query(
                    f"sum(rate({of('accelscope_collection_overruns_total')}[5m])) "
                    f"/ sum(rate({of('accelscope_collections_total')}[5m]))",
                    "late",
                ),
                width=8,
            ),
            lines(
                "Failed reads",
                "Per second, by vendor and reason.",
                "cps",
                Query(
                    f"sum by (vendor, reason) (rate({of('accelscope_reader_errors_total')}[5m]))",
                    "{{vendor}} {{reason}}",
                ),
                width=8,
            ),
            lines(
                "Rejected values",
                "Invalid values in driver output per second, by vendor and reason.",
                "cps",
                Query(
                    f"sum by (vendor, reason) (rate({of('accelscope_reader_rejected_values_total')}[5m]))",
                    "{{vendor}} {{reason}}",
                ),
                width=8,
            ),
            lines(
                "Absent values",
                "Values that devices did not provide at the last collection, by vendor and reason.",
                "short",
                Query(
                    f"sum by (vendor, reason) ({of('accelscope_reader_absent_values')})",
                    "{{vendor}} {{reason}}",
                ),
                width=8,
            ),
            rows(
                "Drivers that cannot be read",
                "Drivers that are present and whose last reading failed.",
                {"cluster": "Cluster", "node": "Node", "vendor": "Vendor"},
                Column(
                    "Failing",
                    f"max by (cluster, node, vendor) ({with_node(_FAILING)})",
                    "short",
                ),
                links=_NODE_CELL,
                width=12,
            ),
            ranking(
                "Slowest agents now",
                "By duration of the last collection.",
                "s",
                Query(
                    f"topk(10, {with_node(of('accelscope_collection_duration_seconds'))})",
                    "{{cluster}} {{node}}",
                ),
                links=[_TO_NODE],
                width=12,
            ),
        ],
    )


def attribution() -> Section:
    return Section(
        "Attribution and sinks",
        [
            lines(
                "Attribution sources up",
                "Share of the agents whose last request to the source succeeded.",
                "percentunit",
                Query(f"avg by (source) ({of('accelscope_attribution_source_up')})", "{{source}}"),
                most=1,
                width=8,
            ),
            lines(
                "Source errors",
                "Per second, by source and reason.",
                "cps",
                Query(
                    (
                        "sum by (source, reason) "
                        f"(rate({of('accelscope_attribution_source_errors_total')}[5m]))"
                    ),
                    "{{source}} {{reason}}",
                ),
                width=8,
            ),
            rows(
                "Last errors of sources",
                "Last error, and the number of nodes with it.",
                {"source": "Source", "reason": "Reason", "error": "Error"},
                Column(
                    "Nodes",
                    (
                        "count by (source, reason, error) "
                        f"({of('accelscope_attribution_source_last_error_info')})"
                    ),
                    "short",
                ),
                sort="Nodes",
                width=8,
            ),
            lines(
                "Writes to the Node object",
                "Per second: written, and skipped because nothing changed.",
                "cps",
                Query(f"sum by (sink) (rate({of('accelscope_sink_writes_total')}[5m]))", "{{sink}} written"),
                Query(f"sum by (sink) (rate({of('accelscope_sink_skips_total')}[5m]))", "{{sink}} skipped"),
                width=8,
            ),
            lines(
                "Failed writes",
                "Per second, by sink and reason.",
                "cps",
                Query(
                    f"sum by (sink, reason) (rate({of('accelscope_sink_errors_total')}[5m]))",
                    "{{sink}} {{reason}}",
                ),
                width=8,
            ),
            rows(
                "Last errors of sinks",
                "Last error, and the number of nodes with it.",
                {"sink": "Sink", "reason": "Reason", "error": "Error"},
                Column(
                    "Nodes",
                    f"count by (sink, reason, error) ({of('accelscope_sink_last_error_info')})",
                    "short",
                ),
                sort="Nodes",
                width=8,
            ),
        ],
    )


def build() -> Dashboard:
    return build_dashboard(
        AGENTS,
        "Agents",
        "State and cost of agents, device plugins and the fleet.",
        [CLUSTER],
        [now(), collecting(), attribution(), cost(), plugin(), fleet()],
    )
