"""A changed file takes effect; a bad one leaves the old settings in force and says so once."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from accelscope.config import BOOLEAN, LABELS, PORT, Change, ConfigError, Duration, Reloader, load, setting


@dataclass(frozen=True, slots=True)
class Sample:
    exporter_port: int = setting(9400, PORT, "Port.", group="HTTP", reloadable=False)
    interval: float = setting(10.0, Duration(1), "Seconds.", group="Collection")
    processes: bool = setting(True, BOOLEAN, "Processes.", group="Collection")
    labels: Mapping[str, str] = setting({}, LABELS, "Labels.", group="Metrics")

    def __post_init__(self) -> None:
        if self.exporter_port == 1 and self.interval == 1:
            raise ConfigError("port 1 and interval 1 do not go together")


@pytest.fixture
def settings_file(tmp_path: Path) -> Path:
    path = tmp_path / "agent.yaml"
    path.write_text("interval: 10\n")
    return path


def reloader(path: Path, flags: Mapping[str, object] | None = None) -> Reloader[Sample]:
    arguments = flags or {}
    return Reloader(load(Sample, arguments, {}, str(path)), arguments, {})


def replace(path: Path, text: str) -> None:
    """As editors and configuration tools do it."""
    new = path.with_suffix(".new")
    new.write_text(text)
    new.rename(path)


def test_nothing_to_say_while_nothing_changes(settings_file: Path) -> None:
    watched = reloader(settings_file)
    assert watched.poll() is None
    os.utime(settings_file)
    assert watched.poll() is None
    replace(settings_file, "interval: 10  # said otherwise\n")
    assert watched.poll() is None
    assert watched.settings == Sample()


@pytest.mark.parametrize("write", [Path.write_text, replace])
def test_a_change_takes_effect_and_is_named(settings_file: Path, write: object) -> None:
    watched = reloader(settings_file)
    assert callable(write)
    write(settings_file, "interval: 20\nlabels: {rack: 7}\n")
    expected = Sample(interval=20, labels={"rack": "7"})
    assert watched.poll() == Change(expected, changed=("interval", "labels"))
    assert watched.settings == expected
    assert watched.poll() is None


def test_a_key_taken_out_goes_back_to_its_default(settings_file: Path) -> None:
    settings_file.write_text("interval: 20\n")
    watched = reloader(settings_file)
    replace(settings_file, "")
    assert watched.poll() == Change(Sample(), changed=("interval",))


def test_a_change_right_after_the_start_is_not_missed(settings_file: Path) -> None:
    loaded = load(Sample, {}, {}, str(settings_file))
    settings_file.write_text("interval: 30\n")
    watched = Reloader(loaded, {}, {})
    assert watched.poll() == Change(Sample(interval=30), changed=("interval",))


def test_a_flag_still_outweighs_the_file(settings_file: Path) -> None:
    watched = reloader(settings_file, {"interval": "5s"})
    replace(settings_file, "interval: 20\n")
    assert watched.poll() is None
    assert watched.settings.interval == 5


def test_the_symlink_swap_of_a_config_map(tmp_path: Path) -> None:
    def folder(name: str, text: str) -> None:
        (tmp_path / name).mkdir()
        (tmp_path / name / "agent.yaml").write_text(text)

    folder("..2026_01", "interval: 10\n")
    folder("..2026_02", "interval: 20\n")
    (tmp_path / "..data").symlink_to("..2026_01")
    path = tmp_path / "agent.yaml"
    path.symlink_to("..data/agent.yaml")
    watched = reloader(path)
    assert watched.poll() is None

    (tmp_path / "..data_tmp").symlink_to("..2026_02")
    (tmp_path / "..data_tmp").rename(tmp_path / "..data")
    assert watched.poll() == Change(Sample(interval=20), changed=("interval",))
    assert watched.poll() is None


def test_a_bad_file_keeps_the_old_settings_and_is_reported_once(settings_file: Path) -> None:
    settings_file.write_text("interval: 20\n")
    watched = reloader(settings_file)
    replace(settings_file, "interval: soon\nprocesses: no\n")
    change = watched.poll()
    assert change is not None
    assert change.settings == watched.settings == Sample(interval=20)
    assert change.error == (
        f'{settings_file}:1: interval: "soon" is not a duration of at least 1s, such as 10s, 500ms or 1m30s'
    )
    assert watched.poll() is None
    replace(settings_file, "interval: soon\nprocesses: no\n")
    assert watched.poll() is None

    replace(settings_file, "interval: later\n")
    another = watched.poll()
    assert another is not None
    assert another.error is not None
    assert '"later"' in another.error


def test_a_file_that_is_good_again_is_reported_too(settings_file: Path) -> None:
    watched = reloader(settings_file)
    replace(settings_file, "interval: [")
    assert watched.poll() is not None
    replace(settings_file, "interval: 10\n")
    assert watched.poll() == Change(Sample())
    assert watched.poll() is None


def test_a_file_that_vanishes_keeps_the_old_settings(settings_file: Path) -> None:
    settings_file.write_text("interval: 20\n")
    watched = reloader(settings_file)
    settings_file.unlink()
    change = watched.poll()
    assert change == Change(
        Sample(interval=20), error=f"{settings_file}: cannot be read: No such file or directory"
    )
    assert watched.poll() is None
    settings_file.write_text("interval: 30\n")
    assert watched.poll() == Change(Sample(interval=30), changed=("interval",))


def test_what_needs_a_restart_is_named_and_not_done(settings_file: Path) -> None:
    watched = reloader(settings_file)
    replace(settings_file, "exporterPort: 9500\ninterval: 20\n")
    expected = Sample(interval=20)
    assert watched.poll() == Change(expected, changed=("interval",), needs_restart=("exporterPort",))

    replace(settings_file, "exporterPort: 9500\ninterval: 30\n")
    assert watched.poll() == Change(Sample(interval=30), changed=("interval",)), "said before"

    replace(settings_file, "interval: 30\n")
    assert watched.poll() == Change(Sample(interval=30), restart_withdrawn=("exporterPort",))
    replace(settings_file, "interval: 30 # still\n")
    assert watched.poll() is None, "said before"

    replace(settings_file, "exporterPort: 9600\n")
    assert watched.poll() == Change(Sample(), changed=("interval",), needs_restart=("exporterPort",))


def test_a_change_that_only_goes_together_after_a_restart_is_refused(settings_file: Path) -> None:
    settings_file.write_text("exporterPort: 1\n")
    watched = reloader(settings_file)
    replace(settings_file, "exporterPort: 2\ninterval: 1\n")
    change = watched.poll()
    assert change == Change(Sample(exporter_port=1), error="port 1 and interval 1 do not go together")


def test_without_a_file_there_is_nothing_to_watch() -> None:
    watched = Reloader(load(Sample, {}, {}), {}, {})
    assert watched.poll() is None
