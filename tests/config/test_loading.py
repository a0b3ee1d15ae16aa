"""Flags, environment and file become settings; whatever is wrong is one line that says what and where."""

import argparse
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from accelscope.config import (
    BOOLEAN,
    CONFIG_FILE,
    LABELS,
    PATH,
    PATTERNS,
    PORT,
    TEXT,
    BadValue,
    Choice,
    ConfigError,
    Decimal,
    Duration,
    List,
    LoadedSettings,
    Node,
    ValueKind,
    WholeNumber,
    add_arguments,
    load,
    setting,
)
from accelscope.config.document import problem_of


class Ratios(ValueKind[Mapping[str, float]]):
    """A kind of somebody else's making, for the file only."""

    allowed = "a mapping of models to ratios above 0"
    textual = False

    def parse_node(self, node: Node) -> Mapping[str, float]:
        if not isinstance(node, Mapping):
            raise BadValue
        ratios = {}
        for model, text in node.items():
            if not isinstance(text, str) or not text.isdigit() or int(text) == 0:
                raise BadValue(f"the ratio of {model} is not")
            ratios[model] = float(text)
        return ratios


@dataclass(frozen=True, slots=True)
class Sample:
    config_file: str | None = setting(None, CONFIG_FILE, "File with settings.", group="General")
    log_level: str = setting("info", Choice("debug", "info"), "What is logged.", group="General")
    exporter_port: int = setting(9400, PORT, "Port of the server.", group="HTTP", reloadable=False)
    tls_key: str | None = setting(None, PATH, "Key of the server.", group="HTTP")
    tls_certificate: str | None = setting(None, PATH, "Certificate of the server.", group="HTTP")
    host: str = setting("", TEXT, "Address of the server.", group="HTTP")
    streams: int = setting(0, WholeNumber(0, 9999), "At the same time.", group="HTTP")
    interval: float = setting(
        10.0,
        Duration(0.1, 3600),
        "Seconds between collections, give or take 5%.",
        group="Collection",
        env_aliases=("COLLECT_INTERVAL",),
    )
    processes: bool = setting(True, BOOLEAN, "Whether processes are read.", group="Collection")
    share: float = setting(0.5, Decimal(0, 1), "A share.", group="Collection")
    dialect: tuple[str, ...] = setting((), List(Choice("dcgm", "vgpu")), "Other names.", group="Metrics")
    metric_denylist: tuple[str, ...] = setting((), PATTERNS, "Left out.", group="Metrics")
    labels: Mapping[str, str] = setting({}, LABELS, "Static labels.", group="Metrics")
    ratios: Mapping[str, float] = setting({}, Ratios(), "Ratios by model.", group="Metrics")

    def __post_init__(self) -> None:
        if (self.tls_key is None) != (self.tls_certificate is None):
            raise ConfigError("TLS needs both a key and a certificate")


def parse(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_arguments(parser, Sample)
    return parser.parse_args(words)


def load_with(
    flags: str = "", environ: Mapping[str, str] | None = None, file: Path | None = None
) -> LoadedSettings[Sample]:
    return load(Sample, parse(*flags.split()), environ or {}, str(file) if file else None)


@pytest.fixture
def settings_file(tmp_path: Path) -> Path:
    return tmp_path / "agent.yaml"


def test_defaults_without_anything() -> None:
    loaded = load_with()
    assert loaded.settings == Sample()
    assert loaded.settings.exporter_port == 9400
    assert loaded.origins == {}
    assert loaded.file is None


@pytest.mark.parametrize(
    ("flags", "environ", "text", "port", "origin"),
    [
        ("", {}, "", 9400, None),
        ("", {}, "exporterPort: 1", 1, "agent.yaml:1: exporterPort"),
        ("", {"EXPORTER_PORT": "2"}, "exporterPort: 1", 2, "EXPORTER_PORT"),
        ("--exporter-port 3", {"EXPORTER_PORT": "2"}, "exporterPort: 1", 3, "--exporter-port"),
        ("--exporter-port 3 --exporter-port 4", {}, "", 4, "--exporter-port"),
        ("", {"EXPORTER_PORT": ""}, "exporterPort: 1", 1, "agent.yaml:1: exporterPort"),
        ("", {}, "exporterPort: null", 9400, None),
        ("", {}, "exporterPort:", 9400, None),
        ("", {}, 'exporterPort: "1"', 1, "agent.yaml:1: exporterPort"),
    ],
)
def test_a_flag_outweighs_the_environment_and_that_the_file(
    settings_file: Path, flags: str, environ: dict[str, str], text: str, port: int, origin: str | None
) -> None:
    settings_file.write_text(text)
    loaded = load_with(flags, environ, settings_file)
    assert loaded.settings.exporter_port == port
    expected = f"{settings_file.parent}/{origin}" if origin and "yaml" in origin else origin
    assert loaded.origins.get("exporter_port") == expected


@pytest.mark.parametrize(
    ("environ", "interval"),
    [
        ({"COLLECT_INTERVAL": "3"}, 3.0),
        ({"COLLECT_INTERVAL": "3", "INTERVAL": "4s"}, 4.0),
        ({"COLLECT_INTERVAL": "3", "INTERVAL": ""}, 3.0),
    ],
)
def test_a_variable_outweighs_its_alias(environ: dict[str, str], interval: float) -> None:
    assert load_with(environ=environ).settings.interval == interval


@pytest.mark.parametrize(
    ("flags", "processes"), [("", True), ("--no-processes", False), ("--no-processes --processes", True)]
)
def test_switches_have_both_directions(flags: str, processes: bool) -> None:
    assert load_with(flags).settings.processes is processes


def test_a_list_may_be_given_in_one_flag_or_several() -> None:
    flags = "--dialect dcgm --dialect vgpu --metric-denylist a*,b --labels rack=7 --labels zone=a"
    settings = load_with(flags).settings
    assert settings.dialect == ("dcgm", "vgpu")
    assert settings.metric_denylist == ("a*", "b")
    assert settings.labels == {"rack": "7", "zone": "a"}


def test_the_file_says_what_stands_there(settings_file: Path) -> None:
    """No octal numbers, no `no` for false, no dates: labels are text."""
    settings_file.write_text(
        "---\n# a comment\ninterval: 1m30s\nprocesses: off\nshare: .5\nlogLevel: DEBUG\n"
        "labels: {rack: 07, norway: no, day: 2026-01-02, empty: ''}\n"
        "dialect:\n  - vgpu\nmetricDenylist: a, b\nratios:\n  A100: 2\n"
    )
    settings = load_with(file=settings_file).settings
    assert settings == Sample(
        interval=90.0,
        processes=False,
        log_level="debug",
        labels={"rack": "07", "norway": "no", "day": "2026-01-02", "empty": ""},
        dialect=("vgpu",),
        metric_denylist=("a", "b"),
        ratios={"A100": 2.0},
    )


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n", "null\n", "{}\n", "\ufeffinterval: 10\n"])
def test_an_empty_file_changes_nothing(settings_file: Path, text: str) -> None:
    settings_file.write_text(text, encoding="utf-8")
    assert load_with(file=settings_file).settings == Sample()


def test_the_file_is_named_by_flag_or_environment(settings_file: Path) -> None:
    settings_file.write_text("exporterPort: 1")
    by_flag = load_with(f"--config-file {settings_file}")
    by_variable = load_with(environ={"CONFIG_FILE": str(settings_file)})
    assert by_flag.settings == by_variable.settings == Sample(config_file=str(settings_file), exporter_port=1)
    assert by_flag.file == str(settings_file)


def test_unknown_variables_are_no_business_of_ours() -> None:
    assert load_with(environ={"EXPORTER_PROT": "x", "RATIOS": "x", "PATH": "/bin"}).settings == Sample()


PORTS = "a port from 0 to 65535 (0: any free one)"
DURATIONS = "a duration from 100ms to 1h, such as 10s, 500ms or 1m30s"
LABEL_LIST = "a list of labels such as rack=7,zone=a"

BAD_FLAGS_AND_VARIABLES: list[tuple[str, dict[str, str], str]] = [
    ("--exporter-port abc", {}, f'--exporter-port: "abc" is not {PORTS}'),
    ("--exporter-port 70000", {}, f'--exporter-port: "70000" is not {PORTS}'),
    ("--exporter-port=-1", {}, f'--exporter-port: "-1" is not {PORTS}'),
    ("--exporter-port=", {}, f'--exporter-port: "" is not {PORTS}'),
    ("", {"EXPORTER_PORT": "94oo"}, f'EXPORTER_PORT: "94oo" is not {PORTS}'),
    (
        "",
        {"EXPORTER_PORT": "tcp://10.0.0.1:80"},
        f'EXPORTER_PORT: "tcp://10.0.0.1:80" is not {PORTS}; '
        "a Kubernetes service link set it: use enableServiceLinks: false in the pod",
    ),
    ("--interval 10sec", {}, f'--interval: "10sec" is not {DURATIONS}'),
    ("--interval 0", {}, f'--interval: "0" is not {DURATIONS}'),
    ("", {"COLLECT_INTERVAL": "2h"}, f'COLLECT_INTERVAL: "2h" is not {DURATIONS}'),
    ("", {"INTERVAL": "1\n2"}, rf'INTERVAL: "1\n2" is not {DURATIONS}'),
    ("", {"PROCESSES": "maybe"}, 'PROCESSES: "maybe" is not true or false (also yes/no, on/off, 1/0)'),
    ("--log-level trace", {}, '--log-level: "trace" is not one of debug, info'),
    ("--share 1.5", {}, '--share: "1.5" is not a number from 0 to 1'),
    ("--labels rack", {}, f'--labels: "rack" is not {LABEL_LIST}; "rack" has no ='),
    (
        "",
        {"LABELS": "9a=1"},
        f'LABELS: "9a=1" is not {LABEL_LIST}; '
        '"9a" is not a label name: letters, digits and _, no digit first',
    ),
    (
        "--labels __a=1",
        {},
        f'--labels: "__a=1" is not {LABEL_LIST}; "__a" begins with __, which Prometheus keeps for itself',
    ),
    (
        "--labels a=1 --labels a=2",
        {},
        f'--labels: "a=1,a=2" is not {LABEL_LIST}; "a" is given twice',
    ),
    (
        "--dialect dcgm,foo",
        {},
        '--dialect: "dcgm,foo" is not a list with commas between, each one of dcgm, vgpu; '
        'the wrong one is "foo"',
    ),
    (
        "--metric-denylist a(b",
        {},
        '--metric-denylist: "a(b" is not a list of metric names with commas between; * and ? are wildcards; '
        '"a(b" is not a name with * and ? as wildcards',
    ),
    ("--tls-key=", {}, '--tls-key: "" is not a path'),
    ("--tls-key k", {}, "TLS needs both a key and a certificate"),
    ("", {"STREAMS": "many"}, 'STREAMS: "many" is not a whole number from 0 to 9999'),
    ("", {"HOST": "a\nb"}, r'HOST: "a\nb" is not one line of text'),
    ("--config-file=", {}, '--config-file: "" is not a path'),
    ("--config-file /nowhere/x.yaml", {}, "/nowhere/x.yaml: cannot be read: No such file or directory"),
    ("", {"CONFIG_FILE": "/"}, "/: cannot be read: Is a directory"),
    (
        f"--exporter-port {'9' * 200}",
        {},
        f'--exporter-port: "{"9" * 80}…" is not {PORTS}',
    ),
]


@pytest.mark.parametrize(("flags", "environ", "message"), BAD_FLAGS_AND_VARIABLES)
def test_a_bad_flag_or_variable_is_one_clear_line(flags: str, environ: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        load_with(flags, environ)
    assert str(raised.value) == message


BOMB = "a: &a [x, x]\nb: &b [*a, *a]\n"

BAD_FILES: list[tuple[str, str]] = [
    ("exporterPort: abc", f':1: exporterPort: "abc" is not {PORTS}'),
    ("\nexporterPort: [1]", f":2: exporterPort: a list is not {PORTS}"),
    ("exporterPort: {a: 1}", f":1: exporterPort: a mapping is not {PORTS}"),
    ("processes: ''", ':1: processes: "" is not true or false (also yes/no, on/off, 1/0)'),
    ("interval: 1h1s", f':1: interval: "1h1s" is not {DURATIONS}'),
    (
        "labels: {a-b: 1}",
        f':1: labels: a mapping is not {LABEL_LIST}; "a-b" is not a label name: '
        "letters, digits and _, no digit first",
    ),
    ("labels: {a: [1]}", f':1: labels: a mapping is not {LABEL_LIST}; the value of "a" is not a text'),
    ("host: [here]", ":1: host: a list is not one line of text"),
    ("ratios: 2", ':1: ratios: "2" is not a mapping of models to ratios above 0'),
    (
        "ratios: {A: 0}",
        ":1: ratios: a mapping is not a mapping of models to ratios above 0; the ratio of A is not",
    ),
    ("exporterPrt: 1", ':1: unknown key "exporterPrt"; did you mean exporterPort?'),
    ("exporter_port: 1", ':1: unknown key "exporter_port"; did you mean exporterPort?'),
    ("interval: 1\nEXPORTER-PORT: 1", ':2: unknown key "EXPORTER-PORT"; did you mean exporterPort?'),
    ("zzz: 1", ':1: unknown key "zzz"; see --help for the settings'),
    ("configFile: x", ":1: configFile cannot be set in the file; use --config-file"),
    ("interval: 1\nprocesses: on\ninterval: 2", ':3: "interval" is given twice, first in line 1'),
    ("labels:\n  a: 1\n  a: 2", ':3: "a" is given twice, first in line 2'),
    ("interval: [1", ":1: not valid YAML: "),
    ("interval: 1\n\tprocesses: on", ":2: not valid YAML: "),
    ("a: b: c", ":1: not valid YAML: "),
    ("interval: '1", ":1: not valid YAML: "),
    ("- a\n- b", ":1: the file must be a mapping: lines of the form key: value"),
    ("just words", ":1: the file must be a mapping: lines of the form key: value"),
    ("interval: 1\n---\ninterval: 2", ":2: a second document begins here; one is allowed"),
    (BOMB, ":1: anchors and aliases (& and *) are not supported"),
    ("interval: *x", ":1: anchors and aliases (& and *) are not supported"),
    ("labels: {<<: {a: 1}}", ":1: labels: a mapping is not"),
    ("interval: !!python/object/apply:os.system [x]", ":1: tags (!) are not supported"),
    ("? [a]\n: b", ":1: a key must be plain text"),
    ("labels: " + "[" * 100 + "]" * 100, ":1: nested more than 32 deep"),
    ("labels: " + "[" * 50_000, ":1: nested more than 32 deep"),
    ("labels: {a: \x01}", ": not valid YAML: "),
    ("interval: 1 # " + "x" * (1 << 20), ": larger than 1 MiB"),
]


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize(("text", "message"), BAD_FILES, ids=[text[:30] for text, _ in BAD_FILES])
def test_a_bad_file_is_one_clear_line(
    settings_file: Path, monkeypatch: pytest.MonkeyPatch, text: str, message: str, compiled: bool
) -> None:
    """With PyYAML's compiled parser and with the other."""
    if compiled and not yaml.__with_libyaml__:
        pytest.skip("PyYAML is here without libyaml")
    monkeypatch.setattr(yaml, "__with_libyaml__", compiled)
    settings_file.write_text(text)
    with pytest.raises(ConfigError) as raised:
        load_with(file=settings_file)
    said = str(raised.value)
    # The YAML library words its own errors; what it says after the line is its business.
    assert said == f"{settings_file}{message}" or (
        message.endswith((": ", "is not")) and said.startswith(f"{settings_file}{message}")
    )
    assert said.isprintable()


PROBLEMS = {
    "expected ',' or ']', but got '<stream end>'": "expected ',' or ']', but got '<stream end>'",
    "did not find expected ',' or '}'": "did not find expected ',' or '}'",
    "found character '\\t' that cannot start any token": "found character '\\t' that cannot start any token",
    "expected '!', but found \"'\"": "expected '!', but found \"'\"",
    "found undefined alias 'hunter2'": "found undefined alias '…'",
    "expected ',' or ']', but got 'hunter2'": "expected ',' or ']', but got '…'",
    "a constructor for the tag '!<hunter2'": "a constructor for the tag '…'",
    'a constructor for the tag "!hunter\'2"': "a constructor for the tag '…'",
    "a constructor for the tag '!hunter\\'2\"'": "a constructor for the tag '…'",
    "a constructor for the tag '\\\\hunter2'": "a constructor for the tag '…'",
}


@pytest.mark.parametrize(("problem", "told"), PROBLEMS.items())
def test_of_what_yaml_quotes_only_its_own_is_told(problem: str, told: str) -> None:
    """Words of the file may be secrets."""
    assert problem_of(yaml.MarkedYAMLError(problem=problem)) == told


def test_a_file_that_is_not_text(settings_file: Path) -> None:
    settings_file.write_bytes(b"interval: 1\nlogLevel: \xff\xfe\n")
    with pytest.raises(ConfigError) as raised:
        load_with(file=settings_file)
    assert str(raised.value) == f"{settings_file}:2: not UTF-8 text"


def test_help_shows_defaults_and_variables(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse("--help")
    text = " ".join(capsys.readouterr().out.split())
    assert "--exporter-port PORT Port of the server. Default: 9400. Environment: EXPORTER_PORT." in text
    assert "give or take 5%. Default: 10s. Environment: INTERVAL, COLLECT_INTERVAL." in text
    assert "Whether processes are read. --no-processes turns it off. Default: true." in text
    assert "--ratios" not in text
    assert "Collection:" in text


def test_yaml_is_not_imported_without_a_file() -> None:
    """It costs 4 MiB, a fifth of what the agent may take."""
    code = (
        "import sys; before = set(sys.modules)\n"
        "import accelscope.config, accelscope.config.log, accelscope.serve\n"
        "heavy = {'yaml', 'ssl', 'hashlib', 'subprocess', 'asyncio', 'http', 'email', 'difflib'}\n"
        "brought = heavy & (set(sys.modules) - before)\n"
        "assert not brought, brought"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=30)
