"""Lasting errors outlive the agent, in a file that may be missing or damaged."""

import json
import logging
import stat
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.agent.test_runner import DEADLINES, Clock, ScriptedReader
from tests.sinks.snapshots import START, card, snapshot

from accelscope.agent.health_state import FILE, HealthStateSink, read_errors
from accelscope.agent.runner import Runner
from accelscope.sinks.sink import Timing
from accelscope.vendors.common.health import ErrorHistory, Evidence, SeenError

HISTORY = ErrorHistory(
    {("xid", "48"): SeenError("xid", "48", 5.0, START)},
    Evidence(START, "boot-1", "nvidia:5", "serial-1", {"energy": 1000.5}, reset_requested=True),
)
HISTORIES = {"nvidia:GPU-1": HISTORY}


class Lab:
    def __init__(self, folder: Path, histories: dict[str, ErrorHistory]) -> None:
        self.now = START
        changed = threading.Condition()
        runner = Runner(ScriptedReader(Clock()), deadlines=DEADLINES, changed=changed, histories=histories)
        timing = Timing(clock=lambda: self.now, monotonic=lambda: self.now, random=lambda: 0.0)
        self.sink = HealthStateSink(folder, [runner], changed, timing=timing)

    def collect(self) -> None:
        self.now += 10
        self.sink.offer(snapshot(card(0), at=self.now))
        self.sink.step()


def test_a_restarted_agent_finds_errors_and_evidence(tmp_path: Path) -> None:
    Lab(tmp_path, HISTORIES).collect()
    assert read_errors(tmp_path, START) == HISTORIES
    assert stat.S_IMODE((tmp_path / FILE).stat().st_mode) == 0o600


def test_the_file_is_written_every_minute_only_while_there_are_errors(tmp_path: Path) -> None:
    healthy, broken = Lab(tmp_path, {}), Lab(tmp_path, HISTORIES)
    for _ in range(13):
        healthy.collect()
        broken.collect()
    assert (healthy.sink.state.writes, broken.sink.state.writes) == (1, 3)
    assert healthy.sink.state.up


def test_errors_of_a_device_that_does_not_return_are_forgotten(tmp_path: Path) -> None:
    Lab(tmp_path, HISTORIES).collect()
    assert read_errors(tmp_path, START + 31 * 86400) == {}


def document(**changes: Any) -> bytes:
    evidence: dict[str, Any] = {"at": 1, "boot": None, "driver": None, "serial": None, "counters": {}}
    entry = {"device": "nvidia:a", "errors": [["xid", "48", 1, 2]], "evidence": evidence, **changes}
    return json.dumps({"version": 1, "devices": [[*entry.values()]]}).encode()


def test_the_form_of_the_file(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(document())
    assert list(read_errors(tmp_path, 2.0)) == ["nvidia:a"]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"[" * 100_000,
        b"[]",
        b'{"version": 2, "devices": []}',
        b'{"version": 1}',
        b'{"version": 1, "devices": 7}',
        b'{"version": 1, "devices": [7]}',
        document(device=7),
        document(device="x" * 600),
        document(errors=7),
        document(errors=[7]),
        document(errors=[["xid", "48", 1]]),
        document(errors=[["xid", 48, 1, 2]]),
        document(errors=[["xid", "48", -1, 2]]),
        document(errors=[["xid", "48", 1, 1e300]]),
        document(errors=[["xid", str(n), 1, 2] for n in range(65)]),
        document(evidence=7),
        document(evidence={}),
        document(evidence={"at": 1, "counters": 7}),
        document(evidence={"at": 1, "counters": {"energy": "much"}}),
        document(evidence={"at": True, "counters": {}}),
        document(evidence={"at": 1, "boot": 7, "counters": {}}),
        document(evidence={"at": 1, "counters": {str(n): 1 for n in range(9)}}),
        b" " * (5 << 20),
    ],
)
def test_a_damaged_file_is_ignored_with_one_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, content: bytes
) -> None:
    (tmp_path / FILE).write_bytes(content)
    with caplog.at_level(logging.INFO):
        assert read_errors(tmp_path, 2.0) == {}
    assert len(caplog.records) == 1


def test_a_missing_folder_affects_only_the_errors(tmp_path: Path) -> None:
    lab = Lab(tmp_path / "missing", HISTORIES)
    assert read_errors(tmp_path / "missing", START) == {}
    lab.collect()
    assert (lab.sink.state.up, lab.sink.state.reason) == (False, "no_folder")
