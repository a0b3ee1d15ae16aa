"""What holds for every command."""

import re
import tomllib
from importlib import import_module
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from tests.repository import REPOSITORY

from accelscope.cli.main import COMMANDS, main, make_parser
from accelscope.cli.output import EXTRAS, missing

# Packages whose modules are called otherwise.
MODULES = {"grpcio": "grpc", "protobuf": "google.protobuf"}


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["--help"])
    assert re.findall(r"^    ([a-z][a-z-]*)", capsys.readouterr().out, re.MULTILINE) == sorted(COMMANDS)


def test_other_commands_are_not_imported_for_one() -> None:
    with pytest.raises(SystemExit):
        make_parser(["files"]).parse_args(["top", "--once"])


@pytest.mark.parametrize(
    ("words", "command"),
    [
        (["--nonsense", "files"], "accelscope"),
        (["agent", "--nonsense"], "accelscope agent"),
        (["fleet", "--nonsense"], "accelscope fleet"),
        (["fleet", "token", "create", "ann", "--nonsense"], "accelscope fleet token create"),
        (["simulate", "build", "nvidia-mig", "node", "--nonsense"], "accelscope simulate build"),
    ],
)
def test_an_unknown_option_names_the_help_that_lists_those_known(
    words: list[str], command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(words)
    told = capsys.readouterr().err
    assert told == f"{command}: unrecognized arguments: --nonsense (see {command} --help)\n"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            ["fleet", "--clusterfile", "c.yaml"],
            "accelscope fleet: unrecognized arguments: --clusterfile c.yaml (see accelscope fleet --help)\n",
        ),
        (
            ["fleet", "--config-file", "c.yaml", "--clusterfile", "c.yaml"],
            "accelscope fleet: unrecognized arguments: --clusterfile c.yaml (see accelscope fleet --help)\n",
        ),
        (
            ["--verbose", "yes", "files"],
            "accelscope: unrecognized arguments: --verbose yes (see accelscope --help)\n",
        ),
    ],
)
def test_a_misspelt_option_is_named_and_not_its_value(
    words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(words)
    assert capsys.readouterr().err == told


def test_a_word_that_is_no_command_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["fleet", "--clusters-file", "c.yaml", "tokens"])
    assert "argument COMMAND: invalid choice: 'tokens'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "parsed"),
    [
        (
            ["parse", "nvidia-smi-query-gpu", "--fields", "index,name", "q.txt"],
            {"source": "nvidia-smi-query-gpu", "fields": "index,name", "file": "q.txt"},
        ),
        (["parse", "nvidia-smi-query-gpu", "--", "-q.txt"], {"file": "-q.txt"}),
        (["parse", "--list"], {"source": None, "file": "-", "list": True}),
        (
            ["top", "http://a:9400", "--once", "http://b:9400"],
            {"urls": ["http://a:9400", "http://b:9400"], "once": True},
        ),
        (["top", "--once"], {"urls": [], "once": True}),
        (
            ["simulate", "fault", "node", "--device", "1", "hot"],
            {"folder": Path("node"), "device": 1, "kind": "hot"},
        ),
        (
            ["simulate", "fleet", "fleet", "--clusters", "1", "mine.yaml"],
            {"folder": Path("fleet"), "clusters": 1, "description": Path("mine.yaml")},
        ),
    ],
)
def test_options_may_stand_between_words(words: list[str], parsed: dict[str, object]) -> None:
    found = vars(make_parser(words[:1]).parse_args(words))
    assert {name: found[name] for name in parsed} == parsed


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["simulate", "build", "--at", "5s"], "the following arguments are required: NODE, DIR"),
        (["simulate", "build", "--at"], "argument --at: expected one argument"),
        (["simulate", "build", "a", "--at", "5s", "b", "c"], "unrecognized arguments: c"),
        (
            ["simulate", "fault", "node", "--device", "1", "hot", "--nonsense"],
            "unrecognized arguments: --nonsense",
        ),
    ],
)
def test_what_stands_between_words_is_refused_as_elsewhere(
    words: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command = f"accelscope {' '.join(words[:2])}"
    with pytest.raises(SystemExit, match="2"):
        main(words)
    assert capsys.readouterr().err == f"{command}: {problem} (see {command} --help)\n"


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["top", "--limit", "0"], '"0" is not a whole number from 1 to 1000'),
        (["top", "--interval", "1ms"], '"1ms" is not a duration from 200ms to 1h'),
        (["simulate", "fleet", "fleet", "--clusters", "many"], '"many" is not a whole number of at least 1'),
        (["simulate", "fleet", "fleet", "--port", "99999"], '"99999" is not a whole number from 1 to 65535'),
        (["simulate", "build", "nvidia-mig", "node", "--at", f"{10**400}s"], "is not a duration"),
    ],
)
def test_a_bad_value_is_told_with_what_is_allowed(
    words: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(words)
    assert problem in capsys.readouterr().err


def test_a_simulated_fleet_needs_a_port_for_each_cluster(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", "fleet", str(tmp_path), "--clusters", "2", "--port", "65535"]) == 2
    told = capsys.readouterr().err
    assert told == "accelscope simulate: --port 65535: too high for 2 API servers\n"


@pytest.mark.parametrize("extra", EXTRAS)
def test_extras_are_those_of_the_package(extra: str) -> None:
    declared = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    packages = [Requirement(line).name for line in declared[extra]]
    assert [MODULES.get(name, name) for name in packages] == list(EXTRAS[extra])


@pytest.mark.parametrize("extra", EXTRAS)
def test_what_is_installed_is_not_missing(extra: str) -> None:
    for module in EXTRAS[extra]:
        import_module(module)
    assert missing(extra) is None


def test_what_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(EXTRAS, "fleet", ("json", "no_such_package.of_ours"))
    assert missing("fleet") == (
        "no_such_package.of_ours is not installed; install the extra where accelscope is: "
        "pip install 'accelscope[fleet]' (with pipx: pipx runpip accelscope install 'accelscope[fleet]')"
    )
