"""The folder of a node: what the kernel would show, moving with time, and faults set from outside."""

import json
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.files import put
from tests.programs import script
from tests.waiting import PATIENCE_SECONDS, wait_until

from accelscope.simulate import (
    CompileError,
    DescriptionError,
    Fault,
    FaultKind,
    FolderInUse,
    SimulatedNode,
    load_node,
    ready_made,
)
from accelscope.simulate.workload import SECRET_ARGUMENT
from accelscope.vendors.nvidia.simulated.driver import NvidiaDriver

MakeNode = Callable[..., SimulatedNode]


def contents(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


@pytest.mark.parametrize("name", ready_made())
def test_the_same_description_and_time_make_the_same_folder(make_node: MakeNode, name: str) -> None:
    straight, roundabout = make_node(name, at=42), make_node(name, at=500)
    roundabout.write(42)
    assert contents(straight.folder) == contents(roundabout.folder)


def test_processes_are_in_proc(make_node: MakeNode) -> None:
    node = make_node("nvidia-mixed")
    proc = Path(node.agent_settings()["proc_root"])
    listed = {int(path.name) for path in proc.iterdir() if path.name.isdigit()}
    assert listed == {process.pid for gpu in node.readings(NvidiaDriver) for process in gpu.processes}
    boot = int((proc / "stat").read_text().split("btime ")[1].split()[0])
    for gpu in node.readings(NvidiaDriver):
        for process in gpu.processes:
            folder = proc / str(process.pid)
            assert (folder / "comm").read_text() == f"{process.name[:15]}\n"
            assert SECRET_ARGUMENT in (folder / "cmdline").read_text()
            uid = str(process.placement.process.spec.uid)
            assert f"\nUid:\t{uid}\t{uid}" in (folder / "status").read_text()
            after_name = (folder / "stat").read_text().rpartition(")")[2].split()
            assert len(after_name) == 50
            started = boot + int(after_name[19]) / 100
            assert boot < started < 1_767_225_600


def test_processes_use_the_nodes_cpus_and_memory(make_node: MakeNode) -> None:
    node = make_node("nvidia-mixed", at=0)
    seen: list[dict[int, tuple[int, int, int, int]]] = []
    for at in (0, 10, 20):
        node.write(at)
        shown = {}
        for gpu in node.readings(NvidiaDriver):
            for process in gpu.processes:
                folder = node.folder / "proc" / str(process.pid)
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
                user, system, start, pages = (int(fields[place]) for place in (11, 12, 19, 21))
                shown[process.pid] = user, system, start, pages
                resident = pages * os.sysconf("SC_PAGE_SIZE") >> 10
                assert f"VmRSS:\t{resident:8} kB\n" in (folder / "status").read_text()
        seen.append(shown)
    first, second, third = seen
    assert first.keys() == third.keys()
    for pid, (user, system, start, pages) in first.items():
        assert user <= second[pid][0] <= third[pid][0]
        assert system <= second[pid][1] <= third[pid][1]
        used = third[pid][0] + third[pid][1] - user - system
        assert 0 < used / 100 / 20 < 16  # CPUs
        assert start == third[pid][2]
        assert 100 << 20 < pages * os.sysconf("SC_PAGE_SIZE") < 8 << 30
    assert any(first[pid][3] != third[pid][3] for pid in first)


def test_a_pid_may_be_given_to_another_process(make_node: MakeNode) -> None:
    node = make_node(
        "nvidia: {devices: [{model: t4}]}\n"
        "processes: [{name: a, pid: 77, until: 10}, {name: b, pid: 77, from: 10}]\n",
        at=9,
    )
    shown = []
    for at in (9, 10):
        node.write(at)
        name, _, after = (node.folder / "proc/77/stat").read_text().partition(") ")
        fields = after.split()
        shown.append((name, int(fields[11]) > 0, int(fields[19])))
    (first, used, started), (second, used_anew, started_anew) = shown
    assert (first, used, second, used_anew) == ("77 (a", True, "77 (b", False)
    assert started < started_anew


def test_a_process_that_begins_has_used_nothing_yet(make_node: MakeNode) -> None:
    node = make_node(
        "nvidia: {devices: [{model: t4}]}\nprocesses: [{name: a, pid: 77, from: 10, load: {level: 0.9}}]\n",
        at=10,
    )
    times = []
    for at in (10, 12):
        node.write(at)
        fields = (node.folder / "proc/77/stat").read_text().rpartition(")")[2].split()
        times.append(int(fields[11]) + int(fields[12]))
    assert times[0] == 0
    assert times[1] > 0


CGROUPS = """
nvidia: {devices: [{model: t4}]}
processes:
  - {name: a, cgroup: {kind: pod, qos: guaranteed, pod_uid: 11111111-2222-3333-4444-555555555555}, pid: 11}
  - {name: b, cgroup: {kind: pod, pod_uid: 11111111-2222-3333-4444-555555555555}, pid: 12}
  - {name: c, cgroup: docker, pid: 13}
  - {name: d, cgroup: {kind: slurm, job: 99}, pid: 14}
  - {name: e, cgroup: {kind: host, unit: ollama.service}, pid: 15}
  - {name: f, uid: 1234, pid: 16}
  - {name: g, count: 2, cgroup: pod}
"""


def test_cgroups(make_node: MakeNode) -> None:
    node = make_node(CGROUPS)

    def cgroup(pid: int) -> str:
        return (node.folder / "proc" / str(pid) / "cgroup").read_text()

    pod = "pod11111111_2222_3333_4444_555555555555.slice/cri-containerd-"
    assert cgroup(11).startswith(f"0::/kubepods.slice/kubepods-{pod}")
    assert cgroup(12).startswith(f"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-{pod}")
    assert cgroup(13).startswith("0::/system.slice/docker-")
    assert cgroup(14) == "0::/system.slice/slurmstepd.scope/job_99/step_0/user/task_0\n"
    assert cgroup(15) == "0::/system.slice/ollama.service\n"
    assert cgroup(16) == "0::/user.slice/user-1234.slice/session-1.scope\n"
    assert (
        "pods/11111111-2222-3333-4444-555555555555/etc-hosts"
        in (node.folder / "proc/12/mountinfo").read_text()
    )
    twins = [p.pid for p in node.readings(NvidiaDriver)[0].processes if p.name == "g"]
    assert len({cgroup(pid) for pid in twins}) == 1


def test_processes_come_and_go_with_time(make_node: MakeNode) -> None:
    node = make_node(
        "nvidia: {devices: [{model: t4}]}\nprocesses: [{name: a, pid: 77, from: 10, until: 20}]\n", at=0
    )
    seen = []
    for at in (9, 10, 19, 20):
        node.write(at)
        seen.append(((node.folder / "proc/77").exists(), len(node.readings(NvidiaDriver)[0].processes)))
    assert seen == [(False, 0), (True, 1), (True, 1), (False, 0)]


def test_running_moves_the_node_and_takes_up_edited_faults(make_node: MakeNode) -> None:
    node = make_node("nvidia-h100x8", at=0)
    state = node.folder / "state" / "nvml"
    stop = threading.Event()
    mover = threading.Thread(target=node.run, args=(stop, 0.02), daemon=True)
    before = state.read_text()
    mover.start()
    try:
        wait_until(lambda: state.read_text() != before)
        other = SimulatedNode.open(node.folder)
        assert other.is_running()
        with pytest.raises(FolderInUse):
            other.run(threading.Event())
        put(node.folder / "faults.yaml", "- {kind: lost, device: 6}\n")
        wait_until(lambda: "gpu6.fault=lost\n" in state.read_text())
        put(node.folder / "faults.yaml", "- {kind: nonsense}\n")
        time.sleep(0.1)
        assert "gpu6.fault=lost\n" in state.read_text()  # a bad file leaves the old faults in force
        other.write_faults([])
        wait_until(lambda: "gpu6.fault=lost\n" not in state.read_text())
    finally:
        stop.set()
        mover.join(PATIENCE_SECONDS)
    assert not other.is_running()


def test_a_node_can_be_opened_again_with_its_time_and_faults(make_node: MakeNode) -> None:
    node = make_node("nvidia-h100x8", at=100)
    node.set_faults([Fault(kind=FaultKind.ECC_STORM, device=0)])
    node.write(160)
    again = SimulatedNode.open(node.folder)
    assert again.readings(NvidiaDriver) == node.readings(NvidiaDriver)
    again.set_faults([])
    ended, running = again.readings(NvidiaDriver)[0].ecc, node.readings(NvidiaDriver)[0].ecc
    assert ended == running  # what was counted stays
    memory = json.loads((node.folder / "state/memory.json").read_text())
    assert memory["faults"] == [{"kind": "ecc_storm", "device": 0, "from": 100, "until": 160}]


def test_building_again_starts_afresh(make_node: MakeNode, native_cache: Path) -> None:
    node = make_node("nvidia-h100x8")
    node.set_faults([Fault(kind=FaultKind.LIBRARY_MISSING)])
    other = SimulatedNode(load_node("nvidia-mig"), node.folder, cache=native_cache)
    other.build()
    assert len(list((node.folder / "dev").glob("nvidia[0-9]"))) == 3
    assert Path(other.agent_settings()["nvml_library"]).exists()
    pids = {path.name for path in (node.folder / "proc").iterdir() if path.name.isdigit()}
    assert pids == {str(process.pid) for gpu in other.readings(NvidiaDriver) for process in gpu.processes}


def test_folders_that_are_not_nodes_are_left_alone(tmp_path: Path, native_cache: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(DescriptionError, match="not empty and not a simulated node"):
        SimulatedNode(load_node("nvidia-mig"), tmp_path, cache=native_cache).build()
    with pytest.raises(DescriptionError, match="not a simulated node"):
        SimulatedNode.open(tmp_path)


def test_compiled_parts_are_made_once(make_node: MakeNode, native_cache: Path) -> None:
    make_node("nvidia-mig")
    before = {path.name: path.stat().st_mtime_ns for path in native_cache.iterdir()}
    make_node("nvidia-h100x8")
    assert {path.name: path.stat().st_mtime_ns for path in native_cache.iterdir()} == before
    assert {"libnvidia-ml.so.1", "nvidia-smi"} <= {name.rpartition("-")[0] for name in before}


def test_a_missing_compiler_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CompileError, match=r"no C compiler found .* install one") as caught:
        SimulatedNode(load_node("nvidia-mig"), tmp_path / "node", cache=tmp_path / "cache").build()
    assert "\n" not in str(caught.value)


def test_an_error_of_the_cache_names_the_setting_that_moves_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(CompileError) as caught:
        SimulatedNode(load_node("nvidia-mig"), tmp_path / "node").build()
    assert str(caught.value) == (
        f"cannot store compiled drivers in {tmp_path}/file/accelscope: Not a directory;"
        " set XDG_CACHE_HOME to use another folder"
    )


def test_an_error_of_the_compiler_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = script(tmp_path / "mycc", "echo 'nvml.c:1: error: no such header' >&2\nexit 1")
    monkeypatch.setenv("CC", str(compiler))
    with pytest.raises(
        CompileError, match=r"cannot build libnvidia-ml\.so\.1: nvml\.c:1: error: no such header"
    ):
        SimulatedNode(load_node("nvidia-mig"), tmp_path / "node", cache=tmp_path / "cache").build()
    assert not any((tmp_path / "cache").iterdir())


def test_library_has_the_name_that_programs_look_for(make_node: MakeNode) -> None:
    node = make_node("nvidia-mig")
    content = Path(node.agent_settings()["nvml_library"]).read_bytes()
    assert b"libnvidia-ml.so.1\0" in content
    assert os.access(node.agent_settings()["nvidia_smi_path"], os.X_OK)


def test_checking_the_lock_does_not_prevent_a_start(tmp_path: Path, native_cache: Path) -> None:
    """To ask is to hold its lock for a moment."""
    node = SimulatedNode(load_node("furiosa-warboy"), tmp_path / "node", cache=native_cache)
    node.build()
    stop, asked_enough = threading.Event(), threading.Event()

    def ask() -> None:
        while not asked_enough.is_set():
            node.is_running()

    asking = threading.Thread(target=ask)
    asking.start()
    mover = threading.Thread(target=node.run, args=(stop, 0.05))
    mover.start()
    try:
        wait_until(node.is_running, "the node moves")
    finally:
        asked_enough.set()
        asking.join()
        stop.set()
        mover.join()


def test_cpu_time_is_counted_between_the_steps_too(make_node: MakeNode) -> None:
    """Else whoever measures over a second or two sees it jump."""
    node = make_node("nvidia-h100x8", at=0)
    file = next(iter(sorted(node.folder.glob("proc/[0-9]*/stat"))))
    seen = [_cpu_ticks(file)]
    stop = threading.Event()
    mover = threading.Thread(target=node.run, args=(stop, 3600.0), daemon=True)
    mover.start()

    def counted() -> bool:
        if (ticks := _cpu_ticks(file)) != seen[-1]:
            seen.append(ticks)
        return len(seen) >= 4  # as it was built, at the only step, and at two counts at least

    try:
        wait_until(counted, "CPU time goes on")
        assert seen == sorted(seen)
        assert 0 < node.at < 1, "there was no second step"
    finally:
        stop.set()
        mover.join(PATIENCE_SECONDS)


def _cpu_ticks(stat: Path) -> int:
    fields = stat.read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])
