"""The demo as it runs, small and without Prometheus (tests/e2e has that)."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.processes import runs
from tests.repository import REPOSITORY
from tests.waiting import PATIENCE_SECONDS, wait_until
from tools.demo.children import ChildEnded
from tools.demo.folder import demo_folder, remove_dead
from tools.demo.running import Demo
from tools.demo.settings import Settings
from tools.demo.story import Story

SMALL = Settings(nodes=1, prometheus=False, port=0, agent_port=0)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    with Demo(tmp_path_factory.mktemp("demo"), SMALL, story=False) as running:
        yield running


def rows(demo: Demo, path: str) -> list[Any]:
    return list(demo.ask(path)["items"])


def test_the_fleet_shows_three_clusters_with_all_four_vendors(demo: Demo) -> None:
    assert [row["id"] for row in rows(demo, "/api/v1/clusters")] == ["berlin", "oslo", "seoul"]
    vendors = {row["vendor"] for row in demo.ask("/api/v1/summary?group_by=vendor")["groups"]}
    assert vendors == {"nvidia", "amd", "ascend", "furiosa"}
    assert all(row["simulated"] for row in rows(demo, "/api/v1/clusters"))
    assert demo.prometheus_url is None


def test_the_real_agent_is_a_part_of_the_fleet(demo: Demo) -> None:
    with urllib.request.urlopen(f"{demo.agent_url}/snapshot", timeout=PATIENCE_SECONDS) as answer:
        snapshot = json.load(answer)
    assert snapshot["node"] == "lab-0001"
    assert {device["id"] for device in snapshot["devices"]} == {
        row["id"] for row in rows(demo, "/api/v1/devices?cluster=berlin&node=lab-0001")
    }
    assert snapshot["pods"]


def test_a_pod_idles_from_the_start(demo: Demo) -> None:
    def idle() -> list[Any]:
        return [row for row in rows(demo, "/api/v1/idle") if row["cluster"] == "berlin"]

    wait_until(lambda: bool(idle()), "an idle pod is listed")
    [pod] = idle()
    assert pod["pod"].startswith("ranking")
    assert 100 * 60 <= pod["idle_seconds"] < 120 * 60
    assert 0 < pod["devices_idle"] < 1, "it holds a share of a GPU"


def test_what_happens_is_seen_in_the_fleet_and_on_the_real_node(demo: Demo) -> None:
    story = Story(demo.fleet)
    demo.show(story.at(125))

    def health(node: str) -> set[str]:
        return {row["health"] for row in rows(demo, f"/api/v1/devices?cluster=berlin&node={node}")}

    def unreachable() -> list[str]:
        return [row["id"] for row in rows(demo, "/api/v1/clusters") if not row["reachable"]]

    wait_until(lambda: "lost" in health("h100-0001"), "a device of berlin is lost")
    wait_until(lambda: "warning" in health("lab-0001"), "the real agent's device is hot")
    wait_until(lambda: unreachable() == ["seoul"], "seoul is out of reach")
    demo.show(())
    wait_until(lambda: unreachable() == [], "seoul is back")
    wait_until(lambda: health("lab-0001") == {"ok"}, "the real agent's device is well")


def test_when_it_is_left_nothing_is_left_running(tmp_path: Path) -> None:
    told: list[str] = []
    with Demo(tmp_path, SMALL, progress=told.append, events=told.append) as demo:
        processes = demo.process_ids
        wait_until(lambda: any("fell off the bus" in line for line in told), "the story has begun")
        demo.check()
        os.kill(processes["agent"], signal.SIGKILL)

        def failure() -> str:
            """Its threads end one after the other: it is not gone as soon as the first one is."""
            try:
                demo.check()
            except ChildEnded as error:
                return str(error)
            return ""

        wait_until(lambda: "agent ended with code -9" in failure(), "the agent is missed")
    assert list(processes) == ["simulated node", "simulated clusters", "agent", "fleet"]
    assert not [name for name, process_id in processes.items() if runs(process_id)]


def start(**environ: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(REPOSITORY / "scripts" / "demo")],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PROMETHEUS": "no", "NODES": "1", "PORT": "0", "AGENT_PORT": "0", **environ},
    )


def test_the_command_says_where_to_look_and_ends_when_told(tmp_path: Path) -> None:
    process = start(TMPDIR=str(tmp_path))
    assert process.stdout is not None
    said = []
    for line in process.stdout:
        said.append(line)
        if "fell off the bus" in line:
            break
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    process.send_signal(signal.SIGINT)
    rest, _ = process.communicate(timeout=PATIENCE_SECONDS)
    text = "".join(said)
    assert process.returncode == 0, text + rest
    for words in (
        "page        http://127.0.0.1:",
        "/docs",
        "/idle",
        "accelscope top --fleet http",
        "/metrics",
        "PROMETHEUS=no",
    ):
        assert words in text
    assert rest.endswith("demo: ended\n")
    assert len(children) == 4
    assert not [child for child in children if runs(int(child))]
    assert list(tmp_path.iterdir()) == []


def test_a_demo_that_was_killed_is_tidied_up_by_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    others = [tmp_path / name for name in ("accelscope-demo-mine", "accelscope-demo-new", "somebody")]
    for folder in others:
        folder.mkdir()
    (others[1] / "running").touch()  # about to begin: it has not yet said who it is
    (tmp_path / "accelscope-demo-link").symlink_to(others[2])
    (others[2] / "running").write_text("1\n")
    killed = start(TMPDIR=str(tmp_path))
    assert killed.stdout is not None
    next(iter(killed.stdout))  # it has begun
    left = set(tmp_path.iterdir()) - {*others, tmp_path / "accelscope-demo-link"}
    assert len(left) == 1
    with demo_folder() as own:
        assert left <= set(tmp_path.iterdir()), "one that runs is left alone"
        killed.kill()
        killed.communicate(timeout=PATIENCE_SECONDS)
        remove_dead()
        assert set(tmp_path.iterdir()) == {*others, tmp_path / "accelscope-demo-link", own}
    assert not own.exists()


@pytest.mark.parametrize(
    ("environ", "problem"),
    [({"NODE": "nothing"}, "demo: NODE=nothing: "), ({"NODES": "x"}, "demo: NODES=x: ")],
)
def test_a_bad_choice_is_told_in_one_line(environ: dict[str, str], problem: str) -> None:
    process = start(**environ)
    said, _ = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 2
    assert said.startswith(problem)
    assert said.count("\n") == 1
