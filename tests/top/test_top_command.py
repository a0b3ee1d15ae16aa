"""`accelscope top --once` and `--json` as scripts call them, and what is said about bad options."""

import argparse
import builtins
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.processes import runs
from tests.programs import script
from tests.repository import REPOSITORY
from tests.top.still_node import settings_file
from tests.top.stub_agent import stored, stub_agent
from tests.waiting import wait_until

from accelscope.cli import output, top
from accelscope.cli.main import COMMANDS, main, make_parser
from accelscope.cli.top import glyphs_for, is_colourless, is_dumb
from accelscope.config.settings import flag_name, settings_of
from accelscope.model.wire import read_snapshot
from accelscope.top.view.text import ASCII, UNICODE
from accelscope.vendors import declarations
from accelscope.vendors.common import tool

PAGE = (REPOSITORY / "docs" / "top.md").read_text()


@pytest.fixture(autouse=True)
def tools_start_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a command that ran in this process."""
    monkeypatch.setattr(tool, "_over", False)


@pytest.fixture(scope="module")
def sick_node(tmp_path_factory: pytest.TempPathFactory, native_cache: Path) -> str:
    more = {"node_name": "node-7", "gpu_allocation_file": "", "exporter_port": 1}
    return settings_file("nvidia-sick", 3600.0, tmp_path_factory.mktemp("node"), native_cache, **more)


def run(*words: str, **environ: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "accelscope", "top", *words],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "LC_ALL": "C", **environ},
    )


def test_once_prints_one_table_of_this_node(sick_node: str) -> None:
    done = run("--once", "--config-file", sick_node, COLUMNS="100")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("accelscope top  node-7")
    assert max(map(len, lines)) <= 100
    assert done.stdout.isascii()
    assert any(line.startswith("! device 3: LOST") for line in lines)
    assert re.search(r"^ 1 +H100 80GB HBM3 HOT WARN SLOW", done.stdout, re.MULTILINE)
    assert "torchrun" in done.stdout
    assert "\x1b" not in done.stdout
    wide = run("--once", "--config-file", sick_node, COLUMNS="")
    assert max(map(len, wide.stdout.splitlines())) > 100, "a pipe has room"


def test_json_holds_the_snapshot_in_its_own_form(sick_node: str) -> None:
    done = run("--json", "--config-file", sick_node)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert (document["schema"], document["kind"]) == ("1.0", "local")
    [node] = document["nodes"]
    assert (node["source"], node["error"]) == ("this node", None)
    snapshot = read_snapshot(node["snapshot"])
    assert snapshot.node == "node-7"
    assert len(snapshot.devices) == 4
    assert any(process.started_at is not None for process in snapshot.processes)


def tool_of_a_gpu(folder: Path, lines: str) -> list[str]:
    """Options for a node whose driver shows no files, so that its tool tells all."""
    (folder / "dev").mkdir()
    (folder / "dev" / "kfd").touch()
    static = [{"gpu": 0, "asic": {"market_name": "AMD Instinct MI300X", "asic_serial": "0x11"}}]
    (folder / "static.json").write_text(json.dumps(static))
    (folder / "metric.json").write_text(
        '[{"gpu": 0, "power": {"socket_power": {"value": 100, "unit": "W"}}}]'
    )
    program = script(folder / "amd-smi", f'{lines}\ncat "{folder}/$1.json" 2>/dev/null || echo "[]"')
    roots = [f"--{root}-root={folder}/{root}" for root in ("proc", "sys", "dev")]
    return ["--readers=amd", f"--amd-smi-path={program}", *roots]


def test_once_waits_for_a_slow_tool(tmp_path: Path) -> None:
    flags = tool_of_a_gpu(tmp_path, "sleep 1")
    done = run("--once", "--reader-timeout=60s", *flags)
    assert done.returncode == 0, done.stdout
    assert "MI300X" in done.stdout


def test_once_leaves_no_tool_behind(tmp_path: Path) -> None:
    """Neither the one that runs nor the one that would follow."""
    hangs = f'[ "$1" = xgmi -o "$1" = process ] && echo $$ >> {tmp_path}/pids && exec sleep 600'
    done = run("--once", "--reader-timeout=5s", *tool_of_a_gpu(tmp_path, hangs))
    assert done.returncode == 1
    assert "the tool returned no result within 4 s" in done.stdout
    [*pids] = map(int, (tmp_path / "pids").read_text().split())
    wait_until(lambda: not any(map(runs, pids)), "they have ended")
    assert len(pids) == 1


def test_nothing_that_can_be_read_is_exit_code_1(tmp_path: Path) -> None:
    nothing = {
        "proc-root": tmp_path,
        "sys-root": tmp_path,
        "dev-root": tmp_path,
    }
    flags = [f"--{name}={path}" for name, path in nothing.items()]
    declared = [setting.name for vendor in declarations().values() for setting in vendor.settings]
    flags += [f"{flag_name(name)}={tmp_path}/none" for name in declared]
    done = run("--once", *flags)
    assert done.returncode == 1
    assert "accelscope doctor" in done.stdout


def test_agents_that_answer_and_that_do_not(capsys: pytest.CaptureFixture[str]) -> None:
    with stub_agent(stored("nvidia-mig")) as well:
        assert main(["top", "--once", "--ascii", "--width", "120", well.url, "http://127.0.0.1:1"]) == 0
        table = capsys.readouterr().out
        assert "NO RESPONSE, never read: cannot connect" in table
        assert "nvidia-mig" in table
        assert main(["top", "--json", well.url, "http://127.0.0.1:1"]) == 0
        told = capsys.readouterr()
        [first, second] = json.loads(told.out)["nodes"]
        assert first["snapshot"] == stored("nvidia-mig")
        assert first["age_seconds"] == pytest.approx(1.0, abs=60)
        assert second["snapshot"] is None
        assert "cannot connect" in second["error"]
        assert "cannot connect" in told.err
    assert main(["top", "--json", "http://127.0.0.1:1"]) == 1
    assert main(["top", "--once", "--fleet", "http://127.0.0.1:1"]) == 1


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["--fleet", "http://localhost:1", "http://localhost:2"], "cannot be combined"),
        (["--once", "--json"], "cannot be combined"),
        (["--node", "a/b"], "--node requires --fleet"),
        (["--once", "--limit", "5"], "--limit requires --fleet"),
        (["http://localhost:1", "--once", "--limit", "100"], "--limit requires --fleet"),
        (["--fleet", "http://localhost:1", "--node", "b"], "expected CLUSTER/NODE"),
        (["--token-file", "x"], "--token-file requires URLs of agents"),
        (["--insecure-skip-tls-verify"], "--insecure-skip-tls-verify requires URLs"),
        (["--client-key", "x", "https://a"], "--client-key requires --client-certificate"),
        (["node1"], "use http://HOST:PORT or https://HOST:PORT"),
        (["node1:9400", "--token-file", "x"], "a token must not be sent over http"),
        (["node1:9400", "http://node1:9400"], "duplicate URL of an agent"),
        (["http://a:1", "http://a:1"], "duplicate URL of an agent"),
        (["http://a:1", "--token-file", "x"], "a token must not be sent over http"),
        (["--readers", "apple"], "--readers"),
        (["--once", "--config-file", "/no/such/file"], "/no/such/file"),
        ([], "not a terminal; use --once or --json"),
    ],
)
def test_bad_options_are_told_in_one_line(
    words: list[str], error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["top", *words]) == 2
    told = capsys.readouterr().err
    assert error in told
    assert told.startswith("accelscope top: ")
    assert told.count("\n") == 1


@pytest.mark.parametrize(
    "words",
    [
        ["--interval", "0"],
        ["--interval", "soon"],
        ["--timeout", "2h"],
        ["--limit", "0"],
        ["--tree", "x"],
        ["--ascii", "--unicode"],
    ],
)
def test_values_that_are_none_are_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["top", *words])
    assert ended.value.code == 2
    assert "accelscope top" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "seconds"), [("0.2", 0.2), ("3", 3.0), ("2s", 2.0), ("500ms", 0.5), ("1m", 60.0), ("1h", 3600.0)]
)
def test_intervals_are_written_as_in_settings(text: str, seconds: float) -> None:
    parsed = make_parser(["top"]).parse_args(["top", "--interval", text, "--timeout", text])
    assert (parsed.interval, parsed.timeout) == (seconds, seconds)


def test_insecure_is_said_out_loud(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["top", "--once", "--insecure-skip-tls-verify", "https://127.0.0.1:1"]) == 1
    assert "server certificates are not verified" in capsys.readouterr().err


def test_bare_install_has_tables_and_says_what_the_screen_needs(
    sick_node: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    imported = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name.partition(".")[0] in ("textual", "rich", "aiohttp", "numpy", "msgspec"):
            raise ModuleNotFoundError(name)
        return imported(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    monkeypatch.setattr(output, "find_spec", lambda _: None)
    for name in [name for name in sys.modules if name.startswith("accelscope.top")]:
        monkeypatch.delitem(sys.modules, name)
    assert main(["top", "--once", "--config-file", sick_node]) == 0
    assert "H100" in capsys.readouterr().out
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert main(["top", "--config-file", sick_node]) == 2
    assert "pip install 'accelscope[top]'" in capsys.readouterr().err


def own_flags() -> Iterator[str]:
    """Those that are not the agent's."""
    parser = argparse.ArgumentParser()
    top.add_parser(parser.add_subparsers())
    [subparsers] = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    agents = {declared.name for declared in settings_of(top.NodeSettings)}
    for action in subparsers.choices["top"]._actions:
        if action.dest not in agents and action.dest != "help":
            yield from action.option_strings


def test_every_flag_is_on_the_page_and_every_flag_there_exists() -> None:
    section = PAGE.partition("## Options")[2].partition("## Keys")[0]
    told = set(re.findall(r"^\| `(--[a-z-]+)", section, re.MULTILINE))
    assert told == set(own_flags())


def test_every_key_of_the_help_is_on_the_page() -> None:
    from accelscope.top.screen.app import HELP  # noqa: PLC0415 - needs the extra

    words = {word for key, meaning in HELP if meaning is not None for word in key.replace(",", " ").split()}
    missing = {word for word in words - {"arrows"} if f"`{word}`" not in PAGE}
    assert not missing


def test_help_and_list_of_commands_name_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert "top" in COMMANDS
    with pytest.raises(SystemExit):
        main(["top", "--help"])
    told = capsys.readouterr().out
    for example in ("accelscope top http://node1:9400", "--fleet http://localhost:8080", "--config-file"):
        assert example in told


@pytest.mark.parametrize(
    ("environ", "glyphs"),
    [
        ({}, ASCII),
        ({"LC_ALL": "C"}, ASCII),
        ({"LC_ALL": "POSIX", "LANG": "en_US.UTF-8"}, ASCII),
        ({"LANG": "en_US.UTF-8"}, UNICODE),
        ({"LANG": "C.UTF-8"}, UNICODE),
        ({"LC_ALL": "C.UTF-8"}, UNICODE),
        ({"LANG": "de_DE.utf8@euro"}, UNICODE),
        ({"LANG": "de_DE.ISO-8859-1"}, ASCII),
        ({"LANG": "C", "LC_CTYPE": "C.UTF-8"}, ASCII),  # Python's own doing
        ({"LC_CTYPE": "en_US.UTF-8"}, UNICODE),
    ],
)
def test_bars_are_of_what_the_locale_can_show(environ: dict[str, str], glyphs: object) -> None:
    assert glyphs_for(environ) is glyphs


@pytest.mark.parametrize(
    ("environ", "colourless", "dumb"),
    [
        ({"TERM": "xterm-256color"}, False, False),
        ({"TERM": "xterm-256color", "NO_COLOR": "1"}, True, False),
        ({"TERM": "xterm-256color", "NO_COLOR": ""}, False, False),
        ({"TERM": "vt100"}, True, False),
        ({"TERM": "dumb"}, True, True),
        ({}, True, True),
    ],
)
def test_colours_and_cursor_are_as_the_terminal_says(
    environ: dict[str, str], colourless: bool, dumb: bool
) -> None:
    assert (is_colourless(environ), is_dumb(environ)) == (colourless, dumb)
