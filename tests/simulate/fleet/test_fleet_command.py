"""`accelscope simulate fleet` and `fleet-fault`."""

import argparse
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from tests.waiting import PATIENCE_SECONDS, wait_until

from accelscope.cli import simulate
from accelscope.simulate.fleet.faults import NODE_FAULTS, FleetFaultKind


def command(*words: object) -> int:
    parser = argparse.ArgumentParser(prog="accelscope")
    simulate.add_parser(parser.add_subparsers())
    return simulate.run(parser.parse_args(["simulate", *map(str, words)]))


def test_a_fleet_runs_until_it_is_stopped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["fleet", str(tmp_path), "--clusters", "2", "--nodes", "3", "--kind", "nvidia-shared"]
    process = subprocess.Popen(
        [sys.executable, "-m", "accelscope", "simulate", *words], stdout=subprocess.PIPE, text=True
    )
    try:
        wait_until(lambda: (tmp_path / "faults.yaml").exists() or process.poll() is not None)
        clusters = yaml.safe_load((tmp_path / "clusters.yaml").read_text())["clusters"]
        assert [cluster["simulated"] for cluster in clusters] == [True, True]
        where = ("--cluster", clusters[0]["id"], "--node", "nvidia-shared-0002")
        assert command("fleet-fault", tmp_path, "hot", *where, "--device", 1) == 0
        assert capsys.readouterr().out == "set: hot of berlin-1 nvidia-shared-0002 device 1\n"
        assert command("fleet-fault", tmp_path, "api_slow", "--cluster", "oslo-1", "--seconds", 2) == 0
        assert "api_slow of oslo-1" in capsys.readouterr().out
        assert command("fleet-fault", tmp_path, "xid", *where, "--device", 0, "--code", "0x1f") == 0
        assert "xid of berlin-1 nvidia-shared-0002 device 0" in capsys.readouterr().out
        assert command("fleet-fault", tmp_path, "xid", *where, "--device", 0, "--code", 31, "--clear") == 0
        capsys.readouterr()
        assert command("fleet-fault", tmp_path, "hot", *where, "--device", 1, "--clear") == 0
        assert capsys.readouterr().out == "set: api_slow of oslo-1\n"
        known = ", ".join(sorted({*FleetFaultKind, *NODE_FAULTS}))
        for fault, problem in (
            (("sad",), f'KIND: "sad" is not one of {known}'),
            (("hot",), "--cluster: missing; expected one of berlin-1, oslo-1"),
            (("hot", "--cluster", "rome"), '--cluster: "rome" is not one of berlin-1, oslo-1'),
            (("hot", "--cluster", "oslo-1"), "--node: hot needs a node of oslo-1"),
            (("hot", *where), "--device: hot needs a device; allowed: 0 to 1"),
            (("hot", *where, "--device", 7), "--device: 7 is not a device number from 0 to 1"),
            (("node_gone", *where, "--device", 1), "--device: not valid for this kind of fault"),
        ):
            assert command("fleet-fault", tmp_path, *fault) == 2
            assert capsys.readouterr().err == f"accelscope simulate: {problem}\n"
        assert command("fleet-fault", tmp_path, "--clear") == 0
        assert command("fleet-fault", tmp_path) == 0
        assert capsys.readouterr().out == "set: nothing\nset: nothing\n"
        assert command("fleet-fault", tmp_path, "agent_down", *where, "--clear") == 2
        assert "agent_down is not set; set: nothing" in capsys.readouterr().err
        written = (tmp_path / "clusters.yaml").read_text()
        assert command("fleet", tmp_path, "--clusters", 1, "--nodes", 1) == 1  # not while it runs
        problem = f"{tmp_path} is in use by another process; stop it first"
        assert capsys.readouterr().err == f"accelscope simulate: {problem}\n"
        assert (tmp_path / "clusters.yaml").read_text() == written
    finally:
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 0
    assert f"accelscope fleet --clusters-file {tmp_path}/clusters.yaml" in output
    assert "berlin-1: 3 nodes at http://127.0.0.1:" in output


@pytest.mark.parametrize("others", [("clusters.yaml",), ("clusters.yaml", "fleet.yaml")])
def test_folders_that_are_not_fleets_are_left_alone(
    others: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in others:
        (tmp_path / name).write_text("clusters: []  # real ones\n")
    assert command("fleet", tmp_path, "--clusters", 1, "--nodes", 1) == 2
    problem = f"{tmp_path}: not empty and not a simulated fleet; choose a new folder"
    assert capsys.readouterr().err == f"accelscope simulate: {problem}\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(others)
    assert (tmp_path / "clusters.yaml").read_text() == "clusters: []  # real ones\n"


def test_a_bad_description_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """That of the fleet, or that of one of its nodes."""
    fleet, node = tmp_path / "mine.yaml", tmp_path / "node.yaml"
    node.write_text("colour: blue\n")
    for text, problem in (
        ("clusters: [\n", f"{fleet}:2: not valid YAML: "),
        ("clusters: []\n", f"{fleet}: clusters: expected 1 to 1000"),
        ("clusters: [{id: a, nodes: [{node: node.yaml}]}]\n", f'{node}: unknown key "colour"'),
    ):
        fleet.write_text(text)
        assert command("fleet", tmp_path / "new", fleet) == 2
        assert capsys.readouterr().err.startswith(f"accelscope simulate: {problem}")


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (("--clusters", 3), "--clusters"),
        (("--seed", 2, "--nodes", 5), "--nodes, --seed"),
        (("--kind", "nvidia-mig", "--interval", "10s"), "--kind, --interval"),
    ],
)
def test_options_cannot_be_combined_with_a_description(
    options: tuple[object, ...], named: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command("fleet", tmp_path / "new", tmp_path / "mine.yaml", *options) == 2
    assert capsys.readouterr().err == f"accelscope simulate: only without a FILE: {named}\n"


def test_a_port_in_use_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert command("fleet", tmp_path / "new", "--clusters", 1, "--nodes", 1, "--port", port) == 1
    problem = f"cannot listen on 127.0.0.1:{port}: Address already in use; choose another with --port"
    assert capsys.readouterr().err == f"accelscope simulate: {problem}\n"


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("fleet", "x", "nowhere.yaml"), "nowhere.yaml: No such file or directory"),
        (("fleet", "x", "--kind", "nothing"), "nothing: No such file or directory; ready-made nodes: "),
        (("fleet-fault", "nowhere", "hot"), "nowhere/fleet.yaml: No such file or directory"),
    ],
)
def test_invalid_options_are_rejected(
    words: tuple[str, ...], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(*words) == 2
    assert problem in capsys.readouterr().err
