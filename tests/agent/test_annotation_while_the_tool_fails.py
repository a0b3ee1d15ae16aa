"""The annotation while npu-smi fails for ten minutes, as the reader of the old collector shows it."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest
from tests import programs
from tests.costless import costless
from tests.sinks.go_reader import NodeLine, node_line
from tests.sinks.node_api import NodeApi
from tests.sinks.snapshots import START, Clock, snapshot
from tests.vendors.common.watched import Watched

from accelscope.agent.settings import AgentSettings
from accelscope.config import load
from accelscope.model import Vendor
from accelscope.simulate import FaultKind, SimulatedNode
from accelscope.sinks.annotation import LAST_READING_SECONDS, AnnotationSink
from accelscope.sinks.sink import WriteIntervals
from accelscope.vendors.ascend import NPU_METRICS

FAILURE_SECONDS = 600.0
FAULTS = {
    "garbage": (FaultKind.TOOL_GARBAGE, None),
    "timeout": (FaultKind.TOOL_HANG, None),
    "-8020": (FaultKind.TOOL_ERROR, "in_use"),
}

IN_USE = "dcmi model initialized failed, because the device is used. ret is -8020"


class Node:
    """A simulated node, a reader and the sink, on a clock that a test moves."""

    def __init__(
        self, name: str, folder: Path, cache: Path, api: NodeApi, *, no_numbers: Path | None = None
    ) -> None:
        """While the file `no_numbers` exists, `npu-smi info -m` fails."""
        self.node = SimulatedNode(costless(name), folder, cache=cache)
        self.node.build(100.0)
        settings = {**self.node.agent_settings(), "reader_timeout": "2s"}
        if no_numbers is not None:
            failure = f'[ -e {no_numbers} ] && [ "$*" = "info -m" ] && {{ echo "{IN_USE}"; exit 1; }}'
            tool = programs.script(
                folder / "wrapped/npu-smi", f'{failure}\nexec {settings["npu_smi_path"]} "$@"'
            )
            settings |= {"npu_smi_path": str(tool), "reader_timeout": "60s"}
        self.watched = Watched(Vendor("ascend"), load(AgentSettings, settings, {}).settings, self.node)
        self.clock = Clock()
        self._api = api
        pace = WriteIntervals(interval_seconds=3.0, renewal_seconds=60.0)
        self._sink = AnnotationSink(api.client(), "node-1", (NPU_METRICS,), pace, timing=self.clock.timing)

    def collect(self) -> None:
        self.node.write(100.0 + self.clock.now)
        self.watched.now = START + self.clock.now
        result = self.watched.read()
        taken = snapshot(*result.devices, at=START + self.clock.now, readers=(result.state,))
        self._sink.offer(taken)
        self._sink.step()

    def line(self) -> NodeLine:
        return node_line(self._api.annotations[NPU_METRICS])


@pytest.fixture
def api() -> Iterator[NodeApi]:
    made = NodeApi("node-1")
    yield made
    made.close()


@pytest.fixture
def node(tmp_path: Path, native_cache: Path, api: NodeApi) -> Iterator[Node]:
    made = Node("ascend-910b-x8", tmp_path / "node", native_cache, api)
    made.watched.until(lambda result: result.state.devices_seen == 8)
    yield made
    made.watched.close()


@pytest.mark.parametrize("name", FAULTS)
def test_the_last_values_stay_for_five_minutes_and_then_become_unknown(node: Node, name: str) -> None:
    for _ in range(3):
        node.collect()
        node.clock.now += 10
    before = node.line()
    assert (before.status, before.ids) == ("Healthy", tuple(range(8)))
    assert min(before.temp, before.power, before.aicore, before.hbm_used) > 0

    kind, error = FAULTS[name]
    node.watched.fault(kind, error=error)
    failed_at = node.clock.now
    last_reading_at = failed_at - 10
    step = 150.0 if kind is FaultKind.TOOL_HANG else 10.0
    lines: list[tuple[float, NodeLine]] = [(-10.0, before)]
    while node.clock.now <= failed_at + FAILURE_SECONDS:
        node.collect()
        line = node.line()
        lines.append((node.clock.now - failed_at, line))
        if node.clock.now - last_reading_at <= LAST_READING_SECONDS:
            assert line == replace(before, updated=line.updated)
            assert _seconds(line.updated) <= last_reading_at
        else:
            assert line == NodeLine("Unhealthy", 0, 0, 0.0, 0, 0, tuple(range(8)), line.updated)
        node.clock.now += step

    node.watched.clear()
    node.collect()
    after = node.line()
    lines.append((node.clock.now - failed_at, after))
    assert (after.status, after.ids, after.hbm_total) == ("Healthy", before.ids, before.hbm_total)
    assert _seconds(after.updated) == node.clock.now
    _print(name, lines)


def test_chips_keep_their_numbers_on_the_node_while_a_new_agent_cannot_read_them(
    node: Node, tmp_path: Path, native_cache: Path, api: NodeApi
) -> None:
    node.collect()
    before = node.line()
    no_numbers = tmp_path / "no-numbers"
    no_numbers.touch()
    restarted = Node("ascend-910b-x8", tmp_path / "again", native_cache, api, no_numbers=no_numbers)
    try:
        result = restarted.watched.until(lambda result: result.state.devices_seen == 8)
        assert {device.index for device in result.devices} == {None}
        restarted.collect()
        assert restarted.line() == before
        no_numbers.unlink()
        restarted.clock.now += 20
        restarted.collect()
        after = restarted.line()
        assert after.ids == before.ids == tuple(range(8))
        assert after.updated != before.updated
    finally:
        restarted.watched.close()


def _seconds(timestamp: str) -> float:
    return datetime.fromisoformat(timestamp).timestamp() - START


def _print(name: str, lines: list[tuple[float, NodeLine]]) -> None:
    """Visible with `pytest -s`: the moments at which the old reader shows something else."""
    print(f"\nnpu-smi fails with {name} from 0 s to {FAILURE_SECONDS:.0f} s")
    print(f"{'from':>7}  {'status':<10}{'temp':>6}{'power':>8}{'aicore':>8}  {'HBM MB':<15}updated")
    shown: NodeLine | None = None
    for seconds, line in lines:
        if shown is None or replace(line, updated="") != replace(shown, updated=""):
            memory = f"{line.hbm_used}/{line.hbm_total}"
            print(
                f"{seconds:>5.0f} s  {line.status:<10}{line.temp:>3} °C{line.power:>6} W"
                f"{line.aicore:>6.0f} %  {memory:<15}{line.updated}"
            )
            shown = line
