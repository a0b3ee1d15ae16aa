"""The section on the resource use of agents, and expressions over all agents."""

from tools.monitoring.dashboards.frame import Section
from tools.monitoring.dashboards.panels import Query, lines
from tools.monitoring.dashboards.tables import Column, alerts, rows
from tools.monitoring.promql import OF_TARGET

CHOSEN = 'cluster=~"$cluster"'
_QUANTILES = (0.5, 0.99)


def of(family: str) -> str:
    return f"{family}{{{CHOSEN}}}"


def agents_only(family: str) -> str:
    """Restrict a series about scrape targets to agents."""
    return f"{family}{{{CHOSEN}}} and {OF_TARGET} last_over_time({of('accelscope_build_info')}[1d])"


def spread(expression: str) -> list[Query]:
    """Median, 99th percentile and maximum over the agents."""
    found = [Query(f"quantile({q}, {expression})", f"{q:.0%} of agents") for q in _QUANTILES]
    return [*found, Query(f"max({expression})", "max")]


def cost() -> Section:
    return Section(
        "Resource use of agents",
        [
            lines(
                "Memory",
                "Resident memory of the agents.",
                "bytes",
                *spread(of("accelscope_resident_memory_bytes")),
                width=8,
            ),
            lines(
                "CPU",
                "CPUs used by an agent and the tools that it runs.",
                "short",
                *spread(f"rate({of('accelscope_cpu_seconds_total')}[5m])"),
                width=8,
            ),
            lines(
                "Threads and files",
                "Maximum over the agents. A growing number of threads indicates hung driver calls.",
                "short",
                Query(f"max({of('accelscope_threads')})", "threads"),
                Query(f"max({of('accelscope_open_files')})", "open files"),
                width=8,
            ),
            lines(
                "Scrape duration",
                "As measured by Prometheus.",
                "s",
                *spread(f"({agents_only('scrape_duration_seconds')})"),
                width=8,
            ),
            lines(
                "Series",
                "Series per agent, and process series dropped by the limit.",
                "short",
                *spread(f"({agents_only('scrape_samples_scraped')})"),
                Query(f"sum({of('accelscope_process_series_dropped')})", "dropped, all agents"),
                width=8,
            ),
            lines(
                "Configuration reloads",
                "Since the agents started, by result.",
                "short",
                Query(f"sum by (result) ({of('accelscope_config_reloads_total')})", "{{result}}"),
                width=8,
            ),
            rows(
                "Versions",
                "Agents by version and Python.",
                {"cluster": "Cluster", "version": "Version", "python": "Python"},
                Column(
                    "Agents", f"count by (cluster, version, python) ({of('accelscope_build_info')})", "short"
                ),
                sort="Agents",
                width=12,
            ),
            alerts(
                "Firing and pending alerts about AccelScope's programs.",
                'alertname=~"AccelScope.+", cluster=~"$cluster"',
                width=12,
            ),
        ],
    )
