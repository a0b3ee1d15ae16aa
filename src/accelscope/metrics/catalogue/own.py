"""Self-metrics of readers, attribution sources, sinks and the agent."""

import sys

from accelscope.metrics.family import AgentView, Family, FamilyFactory, ReaderView, Scope
from accelscope.model import AttributionSourceState, SinkState

_ERROR_LIMIT = 200  # characters

reader = FamilyFactory[ReaderView](Scope.READER)
source = FamilyFactory[AttributionSourceState](Scope.SOURCE)
sink = FamilyFactory[SinkState](Scope.SINK)
agent = FamilyFactory[AgentView](Scope.AGENT)

READERS: tuple[Family, ...] = (
    reader(
        "accelscope_reader_found",
        "",
        "1 if the vendor's driver or tool was found on the node.",
        lambda v: v.state.found,
    ),
    reader(
        "accelscope_reader_up",
        "",
        "1 if the last read of the vendor's driver succeeded.",
        lambda v: v.state.up,
    ),
    reader(
        "accelscope_reader_duration_seconds",
        "seconds",
        "Duration of the last complete read of the vendor's driver.",
        lambda v: v.state.duration_seconds,
    ),
    reader(
        "accelscope_reader_last_success_timestamp_seconds",
        "seconds",
        "Unix time of the last successful read of the vendor's driver.",
        lambda v: v.state.last_success,
    ),
    reader(
        "accelscope_reader_devices_expected",
        "",
        "Number of expected devices: as configured, otherwise all devices seen since the agent started.",
        lambda v: v.state.devices_expected if v.state.found else None,
    ),
    reader(
        "accelscope_reader_devices_seen",
        "",
        "Number of devices that answered the last read.",
        lambda v: v.state.devices_seen if v.state.found else None,
    ),
    reader(
        "accelscope_reader_abandoned_calls",
        "",
        "Driver calls that missed their deadline and have not returned yet.",
        lambda v: v.state.abandoned_calls,
    ),
    reader.series(
        "accelscope_reader_errors_total",
        "",
        "Failed reads, by reason.",
        ("reason",),
        lambda v: [((c.reason,), c.count) for c in v.state.errors],
    ),
    reader.series(
        "accelscope_reader_rejected_values_total",
        "",
        "Lines or values of the driver's output that could not be parsed, by reason.",
        ("reason",),
        lambda v: [((c.reason,), c.count) for c in v.state.rejected],
    ),
    reader.series(
        "accelscope_reader_absent_values",
        "",
        "Values that the vendor's devices did not report in the last read, by reason.",
        ("reason",),
        lambda v: [((reason,), count) for reason, count in v.absent],
    ),
)

SOURCES: tuple[Family, ...] = (
    source(
        "accelscope_attribution_source_up",
        "",
        "1 if the last request to the attribution source succeeded.",
        lambda s: s.up,
    ),
    source(
        "accelscope_attribution_source_last_success_timestamp_seconds",
        "seconds",
        "Unix time of the last successful request to the attribution source.",
        lambda s: s.last_success,
    ),
    source.series(
        "accelscope_attribution_source_errors_total",
        "",
        "Failed requests to the attribution source, by reason.",
        ("reason",),
        lambda s: [((c.reason,), c.count) for c in s.errors],
    ),
    source.series(
        "accelscope_attribution_source_last_error_info",
        "",
        "Last error of the attribution source (at most 200 characters); reason is empty while it is up.",
        ("reason", "error"),
        lambda s: [] if s.error is None else [((s.reason or "", s.error[:_ERROR_LIMIT]), 1)],
    ),
)

SINKS: tuple[Family, ...] = (
    sink(
        "accelscope_sink_up",
        "",
        "1 if the last write of the sink succeeded.",
        lambda s: s.up,
    ),
    sink("accelscope_sink_writes_total", "", "Successful writes of the sink.", lambda s: s.writes),
    sink(
        "accelscope_sink_skips_total",
        "",
        "Collections in which the sink had nothing new to write.",
        lambda s: s.skips,
    ),
    sink.series(
        "accelscope_sink_errors_total",
        "",
        "Writes that failed or left something out, by reason.",
        ("reason",),
        lambda s: [((c.reason,), c.count) for c in s.errors],
    ),
    sink(
        "accelscope_sink_last_success_timestamp_seconds",
        "seconds",
        "Unix time of the last successful write of the sink.",
        lambda s: s.last_success,
    ),
    sink.series(
        "accelscope_sink_last_error_info",
        "",
        "Last error of the sink (at most 200 characters); reason is empty while it is up.",
        ("reason", "error"),
        lambda s: [] if s.error is None else [((s.reason or "", s.error[:_ERROR_LIMIT]), 1)],
    ),
)

AGENT: tuple[Family, ...] = (
    agent.series(
        "accelscope_build_info",
        "",
        "Versions of the agent and of Python as labels; the value is always 1.",
        ("version", "python"),
        lambda v: [((v.agent.version, ".".join(map(str, sys.version_info[:3]))), 1)],
    ),
    agent.series(
        "accelscope_node_info",
        "",
        "Name of the node as a label; the value is always 1.",
        ("node",),
        lambda v: [((v.node,), 1)],
    ),
    agent(
        "accelscope_start_timestamp_seconds",
        "seconds",
        "Unix time of the agent's start.",
        lambda v: v.agent.started_at,
    ),
    agent(
        "accelscope_collections_total",
        "",
        "Collections since the agent started.",
        lambda v: v.agent.collections,
    ),
    agent(
        "accelscope_collection_overruns_total",
        "",
        "Collections that started late because the previous one took longer than the interval.",
        lambda v: v.agent.overruns,
    ),
    agent(
        "accelscope_collection_duration_seconds",
        "seconds",
        "Duration of the last collection.",
        lambda v: v.agent.collection_seconds,
    ),
    agent(
        "accelscope_collection_timestamp_seconds",
        "seconds",
        "Unix time of the collection that this page shows.",
        lambda v: v.taken_at,
    ),
    agent(
        "accelscope_process_series_dropped",
        "",
        "Process series left out because of the limit on process series.",
        lambda v: v.process_series_dropped,
    ),
    agent.series(
        "accelscope_config_reloads_total",
        "",
        "Detected changes of the configuration file, by result.",
        ("result",),
        lambda v: [((c.reason,), c.count) for c in v.agent.config_reloads],
    ),
    agent.series(
        "accelscope_token_reviews_total",
        "",
        "Token reviews by result: allowed, denied, error (no answer) or limited (over the rate limit).",
        ("result",),
        lambda v: [((c.reason,), c.count) for c in v.agent.token_reviews],
    ),
    agent(
        "accelscope_cpu_seconds_total",
        "seconds",
        "CPU time used by the agent and by the tools that it ran.",
        lambda v: v.agent.cpu_seconds,
    ),
    agent(
        "accelscope_resident_memory_bytes",
        "bytes",
        "Resident memory of the agent.",
        lambda v: v.agent.memory_bytes,
    ),
    agent("accelscope_threads", "", "Threads of the agent.", lambda v: v.agent.threads),
    agent(
        "accelscope_open_files",
        "",
        "Open files and sockets of the agent.",
        lambda v: v.agent.open_files,
    ),
)
