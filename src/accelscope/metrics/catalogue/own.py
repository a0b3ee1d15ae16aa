"""Self-metrics: how the readers, the sources of attribution, the sinks and the agent itself are doing."""

import sys

from accelscope.metrics.family import AgentView, Declare, Family, ReaderView, Scope
from accelscope.model import AttributionSourceState, SinkState

_MOST_ERROR_CHARACTERS = 200

reader = Declare[ReaderView](Scope.READER)
source = Declare[AttributionSourceState](Scope.SOURCE)
sink = Declare[SinkState](Scope.SINK)
agent = Declare[AgentView](Scope.AGENT)

READERS: tuple[Family, ...] = (
    reader(
        "accelscope_reader_found",
        "",
        "1 if this vendor's driver or tool is on the node.",
        lambda v: v.state.found,
    ),
    reader(
        "accelscope_reader_up",
        "",
        "1 if the last pass over this vendor's driver succeeded.",
        lambda v: v.state.up,
    ),
    reader(
        "accelscope_reader_duration_seconds",
        "seconds",
        "How long the last whole pass took.",
        lambda v: v.state.duration_seconds,
    ),
    reader(
        "accelscope_reader_last_success_timestamp_seconds",
        "seconds",
        "When a pass last succeeded, in seconds since the epoch.",
        lambda v: v.state.last_success,
    ),
    reader(
        "accelscope_reader_devices_expected",
        "",
        "Devices that should be there: by setting, else all that were seen since the agent started.",
        lambda v: v.state.devices_expected if v.state.found else None,
    ),
    reader(
        "accelscope_reader_devices_seen",
        "",
        "Devices that answered at the last pass.",
        lambda v: v.state.devices_seen if v.state.found else None,
    ),
    reader(
        "accelscope_reader_abandoned_calls",
        "",
        "Calls into the driver that were given up and have not come back.",
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
        "Lines or cells of a driver's answer that could not be taken as a value, by reason.",
        ("reason",),
        lambda v: [((c.reason,), c.count) for c in v.state.rejected],
    ),
    reader.series(
        "accelscope_reader_absent_values",
        "",
        "Values that this vendor's devices did not give at the last pass, by reason.",
        ("reason",),
        lambda v: [((reason,), count) for reason, count in v.absent],
    ),
)

SOURCES: tuple[Family, ...] = (
    source(
        "accelscope_attribution_source_up",
        "",
        "1 if this source, which tells whose what is, answered when it was last asked.",
        lambda s: s.up,
    ),
    source(
        "accelscope_attribution_source_last_success_timestamp_seconds",
        "seconds",
        "When the source last answered, in seconds since the epoch.",
        lambda s: s.last_success,
    ),
    source.series(
        "accelscope_attribution_source_errors_total",
        "",
        "Times that the source failed, by reason.",
        ("reason",),
        lambda s: [((c.reason,), c.count) for c in s.errors],
    ),
    source.series(
        "accelscope_attribution_source_last_error_info",
        "",
        "The last error of the source, cut to 200 characters, and why it is not up if it is not; 1.",
        ("reason", "error"),
        lambda s: [] if s.error is None else [((s.reason or "", s.error[:_MOST_ERROR_CHARACTERS]), 1)],
    ),
)

SINKS: tuple[Family, ...] = (
    sink(
        "accelscope_sink_up",
        "",
        "1 if what this sink carries out of the node was written when it last tried.",
        lambda s: s.up,
    ),
    sink("accelscope_sink_writes_total", "", "Writes that succeeded.", lambda s: s.writes),
    sink(
        "accelscope_sink_skips_total",
        "",
        "Collections that were looked at and held nothing that had to be written.",
        lambda s: s.skips,
    ),
    sink.series(
        "accelscope_sink_errors_total",
        "",
        "Writes that failed or had to leave something out, by reason.",
        ("reason",),
        lambda s: [((c.reason,), c.count) for c in s.errors],
    ),
    sink(
        "accelscope_sink_last_success_timestamp_seconds",
        "seconds",
        "When the sink last wrote, in seconds since the epoch.",
        lambda s: s.last_success,
    ),
    sink.series(
        "accelscope_sink_last_error_info",
        "",
        "The last error of the sink, cut to 200 characters, and why it is not up if it is not; 1.",
        ("reason", "error"),
        lambda s: [] if s.error is None else [((s.reason or "", s.error[:_MOST_ERROR_CHARACTERS]), 1)],
    ),
)

AGENT: tuple[Family, ...] = (
    agent.series(
        "accelscope_build_info",
        "",
        "Version of the agent and of Python; 1.",
        ("version", "python"),
        lambda v: [((v.agent.version, ".".join(map(str, sys.version_info[:3]))), 1)],
    ),
    agent.series(
        "accelscope_node_info",
        "",
        "Name of the node that the agent runs on; 1.",
        ("node",),
        lambda v: [((v.node,), 1)],
    ),
    agent(
        "accelscope_start_timestamp_seconds",
        "seconds",
        "When the agent started, in seconds since the epoch.",
        lambda v: v.agent.started_at,
    ),
    agent("accelscope_collections_total", "", "Collections made.", lambda v: v.agent.collections),
    agent(
        "accelscope_collection_overruns_total",
        "",
        "Collections that began late because the one before took longer than the interval.",
        lambda v: v.agent.overruns,
    ),
    agent(
        "accelscope_collection_duration_seconds",
        "seconds",
        "How long the last collection took.",
        lambda v: v.agent.collection_seconds,
    ),
    agent(
        "accelscope_collection_timestamp_seconds",
        "seconds",
        "When this page was made, in seconds since the epoch.",
        lambda v: v.taken_at,
    ),
    agent(
        "accelscope_process_series_dropped",
        "",
        "Series of processes that were left off this page by the cap on them.",
        lambda v: v.process_series_dropped,
    ),
    agent.series(
        "accelscope_config_reloads_total",
        "",
        "Changes of the settings file that were noticed, by what came of them.",
        ("result",),
        lambda v: [((c.reason,), c.count) for c in v.agent.config_reloads],
    ),
    agent.series(
        "accelscope_token_reviews_total",
        "",
        "Reviews of bearer tokens by the API server, by result: allowed, denied, error (it could not be "
        "asked), limited (it was not asked: too many unknown tokens came). Known verdicts do not count.",
        ("result",),
        lambda v: [((c.reason,), c.count) for c in v.agent.token_reviews],
    ),
    agent(
        "accelscope_cpu_seconds_total",
        "seconds",
        "CPU time used by the agent and the tools it ran.",
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
        "Files and sockets that the agent has open.",
        lambda v: v.agent.open_files,
    ),
)
