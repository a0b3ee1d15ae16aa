"""What agents cost, and expressions over all of them."""

from monitoring.dashboards.frame import Section
from monitoring.dashboards.panels import Query, lines
from monitoring.dashboards.tables import Column, alerts, rows
from monitoring.promql import OF_TARGET

CHOSEN = 'cluster=~"$cluster"'
_QUANTILES = (0.5, 0.99)


def of(family: str) -> str:
    return f"{family}{{{CHOSEN}}}"


def agents_only(family: str) -> str:
    """What Prometheus says of targets, of those that are agents."""
    return f"{family}{{{CHOSEN}}} and {OF_TARGET} last_over_time({of('accelscope_build_info')}[1d])"


def spread(expression: str) -> list[Query]:
    """Half of the agents, nearly all, and the worst."""
    found = [Query(f"quantile({q}, {expression})", f"{q:.0%} of agents") for q in _QUANTILES]
    return [*found, Query(f"max({expression})", "worst")]


def cost() -> Section:
    return Section(
        "What agents cost",
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
                "CPUs in use by an agent and the tools that it runs.",
                "short",
                *spread(f"rate({of('accelscope_cpu_seconds_total')}[5m])"),
                width=8,
            ),
            lines(
                "Threads and files",
                "Of the agent that has most. Threads that grow are calls into drivers that hang.",
                "short",
                Query(f"max({of('accelscope_threads')})", "threads"),
                Query(f"max({of('accelscope_open_files')})", "open files"),
                width=8,
            ),
            lines(
                "Time of scrapes",
                "As Prometheus measures it.",
                "s",
                *spread(f"({agents_only('scrape_duration_seconds')})"),
                width=8,
            ),
            lines(
                "Series",
                "On a page, and series of processes that the cap left off.",
                "short",
                *spread(f"({agents_only('scrape_samples_scraped')})"),
                Query(f"sum({of('accelscope_process_series_dropped')})", "left off, all agents"),
                width=8,
            ),
            lines(
                "Changes of settings",
                "Noticed since the agents started, by what came of them.",
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
                "About the programs, firing or soon.",
                'alertname=~"AccelScope.+", cluster=~"$cluster"',
                width=12,
            ),
        ],
    )
