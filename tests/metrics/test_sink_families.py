"""Families of sinks."""

from accelscope.metrics.exposition import Exposition
from accelscope.model import AgentState, ReasonCount, SinkState, Snapshot


def test_a_sink_says_how_it_is() -> None:
    well = SinkState(sink="labels", up=True, last_success=5.0, writes=3, skips=7)
    ill = SinkState(
        sink="annotation",
        up=False,
        reason="forbidden",
        error="x" * 300,
        errors=(ReasonCount("forbidden", 2), ReasonCount("timeout", 1)),
    )
    agent = AgentState(version="test", started_at=0)
    page = Exposition().render(Snapshot(node="n", taken_at=1, agent=agent, sinks=(ill, well)))
    shown = [line for line in page.text.decode().splitlines() if line.startswith("accelscope_sink_")]
    assert shown == [
        'accelscope_sink_up{sink="annotation"} 0',
        'accelscope_sink_up{sink="labels"} 1',
        'accelscope_sink_writes_total{sink="annotation"} 0',
        'accelscope_sink_writes_total{sink="labels"} 3',
        'accelscope_sink_skips_total{sink="annotation"} 0',
        'accelscope_sink_skips_total{sink="labels"} 7',
        'accelscope_sink_errors_total{sink="annotation",reason="forbidden"} 2',
        'accelscope_sink_errors_total{sink="annotation",reason="timeout"} 1',
        'accelscope_sink_last_success_timestamp_seconds{sink="labels"} 5',
        f'accelscope_sink_last_error_info{{sink="annotation",reason="forbidden",error="{"x" * 200}"}} 1',
    ]
