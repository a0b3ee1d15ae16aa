"""What processes take of the node itself: CPU between two looks, memory, and since when they run."""

import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.waiting import wait_until

from accelscope.attribution.attributor import Attributor
from accelscope.attribution.options import AttributionOptions
from accelscope.attribution.processes import MOST_MEASURED, ProcessTable, ProcStat, boot_time, proc_stat
from accelscope.model import Device, HostUse, Process, Vendor

TICKS = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
BOOTED = 1_700_000_000


class Node:
    def __init__(self, root: Path) -> None:
        self.now = 1000.0  # seconds of the monotonic clock
        self.ahead = 1_800_000_000.0  # of the wall clock to it
        self.proc = root / "proc"
        self.passwd = root / "passwd"
        self.proc.mkdir()
        self.passwd.write_text("root:x:0:0::/root:/bin/sh\n")
        self.boot(BOOTED)
        self.table = ProcessTable(
            self.proc, self.passwd, monotonic=lambda: self.now, clock=lambda: self.now + self.ahead
        )

    def boot(self, at: int | str) -> None:
        (self.proc / "stat").write_text(f"cpu  1 2 3\nintr {'0 ' * 9000}\nctxt 5\nbtime {at}\nprocesses 9\n")

    def add(self, pid: int, *, cpu: float = 0.0, pages: int = 1, start: int = 100, name: str = "a") -> None:
        """`cpu` is in seconds, a quarter of it the kernel's."""
        folder = self.proc / str(pid)
        if folder.exists():
            shutil.rmtree(folder)
        folder.mkdir()
        (folder / "status").write_text(f"Name:\t{name}\nUid:\t0\t0\t0\t0\n")
        (folder / "cgroup").write_text("0::/system.slice/a.service\n")
        self.move(pid, cpu=cpu, pages=pages, start=start, name=name)

    def move(self, pid: int, *, cpu: float, pages: int = 1, start: int = 100, name: str = "a") -> None:
        """In place: the folder identifies the process."""
        (self.proc / str(pid) / "stat").write_text(line(pid, cpu=cpu, pages=pages, start=start, name=name))

    def look(self, *pids: int) -> Mapping[int, HostUse]:
        hosts = self.table.look_up(pids)
        assert self.table.uses.keys() == hosts.keys()
        return self.table.uses


def line(pid: int, *, cpu: float, pages: int, start: int, name: str) -> str:
    ticks = round(cpu * TICKS)
    times = f"{ticks - ticks // 4} {ticks // 4} 77 88"  # and those of children that it has waited for
    return (
        f"{pid} ({name}) S 1 2 3 0 -1 4194304 5 6 7 8 {times} 20 0 4 0 {start} 999999 {pages} 18446 1 1 0\n"
    )


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_the_first_read_has_memory_and_start_but_no_cpu(node: Node) -> None:
    node.add(1, cpu=500.0, pages=300, start=250)
    assert node.look(1)[1] == HostUse(
        cpu_ratio=None, resident_memory_bytes=300 * PAGE_BYTES, started_at=BOOTED + 250 / TICKS
    )


@pytest.mark.parametrize(("seconds", "ratio"), [(0.0, 0.0), (2.5, 0.25), (10.0, 1.0), (640.0, 64.0)])
def test_cpu_is_measured_between_two_reads(node: Node, seconds: float, ratio: float) -> None:
    node.add(1, cpu=500.0)
    node.look(1)
    node.now += 10
    node.move(1, cpu=500.0 + seconds, pages=7)
    assert node.look(1)[1] == HostUse(ratio, 7 * PAGE_BYTES, BOOTED + 100 / TICKS)
    node.now += 20
    assert node.look(1)[1].cpu_ratio == 0.0


def test_two_reads_in_quick_succession_measure_nothing(node: Node) -> None:
    node.add(1, cpu=1.0)
    node.look(1)
    node.move(1, cpu=2.0)
    assert node.look(1)[1].cpu_ratio is None


def test_a_decreasing_count_is_ignored(node: Node) -> None:
    node.add(1, cpu=5.0)
    node.look(1)
    node.now += 10
    node.move(1, cpu=4.0)
    assert node.look(1)[1].cpu_ratio is None


def test_a_reused_pid_starts_again(node: Node) -> None:
    node.add(1, cpu=500.0, start=100)
    node.look(1)
    node.now += 10
    node.add(1, cpu=600.0, start=900)
    assert node.look(1)[1] == HostUse(None, PAGE_BYTES, BOOTED + 900 / TICKS)
    node.now += 10
    node.move(1, cpu=605.0, start=900)
    assert node.look(1)[1].cpu_ratio == 0.5


def test_a_reused_pid_with_the_same_folder_starts_again(node: Node) -> None:
    node.add(1, cpu=500.0, start=100)
    node.look(1)
    node.now += 10
    node.move(1, cpu=600.0, start=900)
    assert node.look(1)[1] == HostUse(None, PAGE_BYTES, BOOTED + 900 / TICKS)


def test_an_ended_process_has_no_measurement(node: Node) -> None:
    node.add(1)
    node.add(2)
    node.look(1, 2)
    shutil.rmtree(node.proc / "1")
    assert node.look(1, 2).keys() == {2}


def test_a_process_that_was_forgotten_starts_again(node: Node) -> None:
    node.add(1, cpu=1.0)
    node.look(1)
    node.look()
    node.now += 10
    assert node.look(1)[1].cpu_ratio is None


def test_a_process_that_is_read_again_keeps_its_measurement(node: Node) -> None:
    """One in no pod is, once a minute."""
    node.add(1, cpu=1.0)
    node.look(1)
    node.now += 100
    node.move(1, cpu=51.0)
    assert node.look(1)[1].cpu_ratio == 0.5


def test_a_changed_passwd_file_keeps_the_measurements(node: Node) -> None:
    node.add(1, cpu=1.0)
    node.look(1)
    node.now += 10
    node.move(1, cpu=6.0)
    node.passwd.write_text("boss:x:0:0::/root:/bin/sh\n")
    os.utime(node.passwd, ns=(1, 1))
    assert node.look(1)[1].cpu_ratio == 0.5


@pytest.mark.parametrize("name", ["a) S 9 9", "(a b)", ") (", "a\nb", "a)"])
def test_a_name_may_contain_anything(node: Node, name: str) -> None:
    node.add(1, cpu=0.0, pages=9, start=250, name=name)
    assert node.look(1)[1] == HostUse(None, 9 * PAGE_BYTES, BOOTED + 250 / TICKS)


def test_the_boot_time_is_read_again_when_the_clock_was_set(node: Node) -> None:
    node.add(1)
    assert node.look(1)[1].started_at == BOOTED + 100 / TICKS
    node.boot(BOOTED + 3600)
    node.now += 10
    assert node.look(1)[1].started_at == BOOTED + 100 / TICKS
    node.ahead += 3600
    assert node.look(1)[1].started_at == BOOTED + 3600 + 100 / TICKS


@pytest.mark.parametrize("text", ["", "cpu 1 2\n", "btime\n", "btime soon\n", "btime -5\n", "xbtime 5\n"])
def test_without_a_boot_time_the_start_is_unknown(node: Node, text: str) -> None:
    (node.proc / "stat").write_text(text)
    node.add(1, pages=2)
    assert node.look(1)[1] == HostUse(None, 2 * PAGE_BYTES, None)
    node.boot(BOOTED)
    assert node.look(1)[1].started_at == BOOTED + 100 / TICKS


def test_very_many_processes_are_measured_in_turn(node: Node) -> None:
    """To read all of them at every look would cost more than all else that is done for them."""
    pids = range(1, 2 * MOST_MEASURED + 2)
    for pid in pids:
        node.add(pid, cpu=0.0, pages=1)
    node.look(*pids)
    for pid in pids:
        node.move(pid, cpu=3.0, pages=2)
    for measured in (1, 2, 3):
        node.now += 10
        uses = node.look(*pids)
        moved = [use for use in uses.values() if use.cpu_ratio is not None]
        assert len(moved) == pytest.approx(measured * len(pids) / 3, abs=3)
        assert all(use.resident_memory_bytes == 2 * PAGE_BYTES for use in moved)
    assert {use.cpu_ratio for use in uses.values()} == {0.1, 0.15, 0.3}


def test_entries_of_a_process_on_several_devices_agree(node: Node) -> None:
    node.add(1, cpu=1.0, pages=5)
    options = AttributionOptions(node="n1", proc=node.proc, passwd=node.passwd)
    attributor = Attributor(options, clock=lambda: node.now + node.ahead, monotonic=lambda: node.now)
    devices = [Device(vendor=Vendor("nvidia"), id=f"nvidia:{place}") for place in range(2)]
    shown = [Process(pid=pid, device=device.id) for pid in (1, 99) for device in devices]
    attributor.attribute(devices, shown)
    node.now += 10
    node.move(1, cpu=16.0, pages=6)
    *there, gone, _ = attributor.attribute(devices, shown).processes
    assert [(p.cpu_ratio, p.resident_memory_bytes, p.started_at) for p in there] == [
        (1.5, 6 * PAGE_BYTES, BOOTED + 100 / TICKS)
    ] * 2
    assert (gone.cpu_ratio, gone.resident_memory_bytes, gone.started_at) == (None, None, None)


@given(st.one_of(st.binary(), st.from_regex(rb"\d+ \(.*\)( -?\d{1,30}){15,30}\n?", fullmatch=True)))
def test_any_line_is_a_stat_or_an_error(text: bytes) -> None:
    try:
        stat = proc_stat(text)
    except ValueError:
        return
    assert all(0 <= number < 1 << 63 for number in (stat.start_ticks, stat.resident_pages))
    assert 0 <= stat.cpu_ticks < 1 << 64


def test_the_fields_of_a_stat() -> None:
    text = line(1, cpu=8.0, pages=5, start=250, name="x").encode()
    assert proc_stat(text) == ProcStat(start_ticks=250, cpu_ticks=8 * TICKS, resident_pages=5)


def test_boot_time_of_this_machine() -> None:
    booted = boot_time(Path("/proc/stat").read_text())
    uptime = float(Path("/proc/uptime").read_text().split()[0])
    assert booted == pytest.approx(time.time() - uptime, abs=60)


BUSY = "import sys\nx = bytearray(64 << 20)\nprint('up', flush=True)\nwhile True: pass\n"


def test_a_real_busy_process_is_measured() -> None:
    table = ProcessTable(Path("/proc"), Path("/etc/passwd"))
    before = time.time()
    with subprocess.Popen([sys.executable, "-c", BUSY], stdout=subprocess.PIPE) as child:
        try:
            assert child.stdout is not None
            child.stdout.readline()
            table.look_up([child.pid])
            first = table.uses[child.pid]

            def cpu() -> float:
                time.sleep(0.1)
                table.look_up([child.pid])
                return table.uses[child.pid].cpu_ratio or 0.0

            wait_until(lambda: cpu() > 0)
        finally:
            child.kill()
    assert first.cpu_ratio is None
    assert first.resident_memory_bytes is not None
    assert 64 << 20 < first.resident_memory_bytes < 256 << 20
    assert first.started_at == pytest.approx(before, abs=60)


def test_a_thread_has_the_values_of_its_process() -> None:
    """Some drivers name threads."""
    done = threading.Event()
    found: list[int] = []

    def live() -> None:
        found.append(threading.get_native_id())
        done.wait()

    thread = threading.Thread(target=live)
    thread.start()
    try:
        wait_until(lambda: bool(found))
        table = ProcessTable(Path("/proc"), Path("/etc/passwd"))
        hosts = table.look_up([os.getpid(), *found])
        assert hosts.keys() == {os.getpid(), *found}
        own, its = (table.uses[pid].resident_memory_bytes or 0 for pid in (os.getpid(), *found))
        assert its == pytest.approx(own, rel=0.2)
    finally:
        done.set()
        thread.join()
