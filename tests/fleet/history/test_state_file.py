"""History across restarts: a valid file is loaded, and an invalid one is renamed."""

import asyncio
import logging
import os
import stat
import threading
import zlib
from pathlib import Path
from typing import BinaryIO

import pytest
from tests.fleet.history.test_history import Fleet, gpu
from tests.fleet.loop import run
from tests.fleet.store.nodes import GIB

from accelscope.fleet import history_rings
from accelscope.fleet.history import FleetHistory, HistoryLimits


def _fleet() -> Fleet:
    fleet = Fleet("a", "b")
    for power in (1.0, 2.0, 3.0):
        first = gpu("x", power_watts=power, utilization_ratio=0.5, memory_used_bytes=GIB)
        fleet.read("a", "n1", first, gpu("y"), usages={"ns/p": first})
        fleet.read("b", "n1", gpu("z", power_watts=10 * power))
        fleet.minute()
    return fleet


def _saved(folder: Path) -> tuple[Fleet, Path]:
    fleet, path = _fleet(), folder / "history"
    run(fleet.history.save(path))
    return fleet, path


def _answers(fleet: Fleet, history: FleetHistory) -> list[object]:
    until = fleet.clock.now
    return [
        history.device("a", "n1", "nvidia:x", 0, until),
        history.pod("a", "ns", "p", 0, until),
        history.summary("fleet", None, 0, until),
        history.summary("cluster", "b", 0, until),
        history.summary("namespace", "ns", 0, until),
    ]


def test_saved_history_is_loaded_after_a_restart(tmp_path: Path) -> None:
    fleet, path = _saved(tmp_path)
    again = FleetHistory()
    again.load(path)
    assert _answers(fleet, again) == _answers(fleet, fleet.history)
    assert again.device("a", "n1", "nvidia:x", 0, fleet.clock.now).fields["power_watts"][-3:] == [
        1.0,
        2.0,
        3.0,
    ]
    assert [file.name for file in tmp_path.iterdir()] == ["history"]


def test_the_time_between_two_processes_is_a_gap(tmp_path: Path) -> None:
    fleet, path = _saved(tmp_path)
    fleet.history = FleetHistory()
    fleet.history.load(path)
    fleet.clock.advance(120)
    fleet.read("a", "n1", gpu("x", power_watts=9.0))
    fleet.minute()
    assert fleet.device("x").fields["power_watts"][-6:] == [1.0, 2.0, 3.0, None, None, 9.0]


def test_saved_history_older_than_a_day_is_dropped(tmp_path: Path) -> None:
    fleet, path = _saved(tmp_path)
    fleet.history = FleetHistory()
    fleet.history.load(path)
    fleet.clock.advance(25 * 3600)
    fleet.read("a", "n1", gpu("x", power_watts=9.0))
    fleet.minute()
    assert fleet.device("x").fields["power_watts"] == [None] * 59 + [9.0]
    assert len(fleet.history.pods) == 0


def test_a_file_of_a_larger_fleet_is_loaded_up_to_the_limits(tmp_path: Path) -> None:
    _, path = _saved(tmp_path)
    small = FleetHistory(HistoryLimits(devices=1))
    small.load(path)
    assert len(small.devices) == 1


def test_a_missing_file_is_not_an_error(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    FleetHistory().load(tmp_path / "history")
    assert not caplog.records
    assert not list(tmp_path.iterdir())


def _cut(content: bytes) -> bytes:
    return content[: len(content) // 2]


def _turned(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


def _newer(content: bytes) -> bytes:
    return content.replace(b"accelscope history 1\n", b"accelscope history 2\n", 1)


def _summed(content: bytes) -> bytes:
    return content + zlib.crc32(content).to_bytes(4, "little")


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (_cut, "wrong checksum: the file is truncated or damaged"),
        (_turned, "wrong checksum: the file is truncated or damaged"),
        (_newer, "version 2 is not supported; this version reads 1"),
        (lambda content: content + b"more", "wrong checksum: the file is truncated or damaged"),
        (lambda _: b"", "not a history file"),
        (lambda _: b"accelscope history 1\n", "wrong checksum: the file is truncated or damaged"),
        (lambda _: b"accelscope history \xb2\n" * 9, "not a history file"),
        (lambda _: _summed(b"accelscope history 1\n"), "a page's head"),
        (lambda _: _summed(b"accelscope history 1\n\xff\xff\xff\xff"), "a page's head is too long"),
        (lambda _: _summed(b'accelscope history 1\n\x0b\0\0\0{"pages":7}'), "pages are missing"),
        (
            lambda _: _summed(
                b'accelscope history 1\n\x2f\0\0\0{"ring":"pods","fields":["a"],"length":9,"keys":[[]]}'
            ),
            "a page's head",
        ),
    ],
)
def test_an_unreadable_file_is_renamed_and_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, spoil: object, reason: str
) -> None:
    fleet, path = _saved(tmp_path)
    path.write_bytes(spoil(path.read_bytes()))  # type: ignore[operator]
    history = FleetHistory()
    history.load(path)
    assert len(history.devices) == 0
    [aside] = tmp_path.iterdir()
    assert aside.name.startswith("history.broken-")
    [record] = caplog.records
    assert record.message == "cannot read the saved history; starting without it"
    assert record.__dict__["fields"]["reason"].startswith(reason)
    fleet.history = history  # and continues to record
    run(history.save(path))
    assert path.exists()


def test_a_link_is_renamed_and_its_target_keeps_its_mode(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "state"
    folder.mkdir()
    _, victim = _saved(tmp_path)  # even a valid history: it was not saved here
    victim.chmod(0o644)
    (folder / "history").symlink_to(victim)
    history = FleetHistory()
    history.load(folder / "history")
    assert stat.S_IMODE(victim.stat().st_mode) == 0o644
    assert len(history.devices) == 0
    [aside] = folder.iterdir()
    assert aside.name.startswith("history.broken-")
    [record] = caplog.records
    assert record.message == "cannot read the saved history; starting without it"


def test_a_file_without_history_keeps_its_mode(tmp_path: Path) -> None:
    victim, path = tmp_path / "victim", tmp_path / "history"
    victim.write_text("something else")
    victim.chmod(0o644)
    path.hardlink_to(victim)
    FleetHistory().load(path)
    assert stat.S_IMODE(victim.stat().st_mode) == 0o644


def test_a_pipe_does_not_block_the_start(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "history"
    os.mkfifo(path)
    start = threading.Thread(target=FleetHistory().load, args=(path,), daemon=True)
    start.start()
    start.join(20)
    assert not start.is_alive()
    [record] = caplog.records
    assert "not a regular file" in record.__dict__["fields"]["reason"]
    assert not path.exists()


def test_the_number_of_renamed_files_is_limited(tmp_path: Path) -> None:
    path = tmp_path / "history"
    for number in range(6):
        (tmp_path / f"history.broken-{number}").write_bytes(b"old")
    path.write_bytes(b"bad")
    FleetHistory().load(path)
    assert len(list(tmp_path.iterdir())) == 3


def test_a_write_error_is_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    fleet, folder = _fleet(), tmp_path / "state"
    with caplog.at_level(logging.INFO):
        run(fleet.history.save(folder / "history"))
        run(fleet.history.save(folder / "history"))
        folder.mkdir()
        run(fleet.history.save(folder / "history"))
    assert [record.message for record in caplog.records] == [
        "cannot save history; retrying",
        "history is saved again",
    ]


def test_a_full_disk_keeps_the_previous_file(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet, path = _saved(tmp_path)
    before = path.read_bytes()

    def on_a_full_disk(_: Path) -> tuple[BinaryIO, Path]:
        scratch = tmp_path / ".history.x.new"
        scratch.touch()
        return Path("/dev/full").open("wb"), scratch

    monkeypatch.setattr(history_rings, "_open_scratch", on_a_full_disk)
    run(fleet.history.save(path))
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["history"]
    assert "cannot save history" in caplog.text


def test_the_file_is_private(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        fleet, path = _saved(tmp_path)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o644)  # as an earlier version left it
    FleetHistory().load(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o644)
    run(fleet.history.save(path))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("name", ["history.new", ".history.new"])
def test_a_link_in_its_folder_is_not_written_through(tmp_path: Path, name: str) -> None:
    victim, folder = tmp_path / "victim", tmp_path / "state"
    victim.write_text("untouched")
    folder.mkdir()
    (folder / name).symlink_to(victim)
    (folder / "history").symlink_to(victim)
    _, path = _saved(folder)
    assert victim.read_text() == "untouched"
    assert not path.is_symlink()


def test_temporary_files_of_a_killed_process_are_removed(tmp_path: Path) -> None:
    _, path = _saved(tmp_path)
    (tmp_path / ".history.abc123.new").write_bytes(b"half")
    FleetHistory().load(path)
    assert [file.name for file in tmp_path.iterdir()] == ["history"]


def test_a_minute_that_passes_during_a_save_does_not_damage_the_file(tmp_path: Path) -> None:
    fleet, path = _fleet(), tmp_path / "history"

    async def both() -> None:
        saving = asyncio.create_task(fleet.history.save(path))
        await asyncio.sleep(0)
        await fleet.history.record(fleet.store, fleet.clock.now)
        await saving

    run(both())
    again = FleetHistory()
    again.load(path)
    fields = again.device("a", "n1", "nvidia:x", 0, fleet.clock.now).fields
    known = [value for value in fields["power_watts"] if value is not None]
    assert known[:3] == [1.0, 2.0, 3.0]
