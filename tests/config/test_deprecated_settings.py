"""Deprecated settings still work, are hidden in --help and are reported where they are set."""

import argparse
import json
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from accelscope.agent.settings import AgentSettings
from accelscope.config import WholeNumber, add_arguments, load, reference, setting
from accelscope.config.settings import Setting, environment_name, flag_name, key_name, settings_of
from accelscope.deviceplugin.settings import PluginSettings
from accelscope.fleet.settings import FleetSettings

DEPRECATED = {  # another value than the default
    "tool_interval": 33.0,
    "annotation_interval": 7.0,
    "unhealthy_after": 5,
    "healthy_after": 6,
    "unanswered_after": 41,
    "request_timeout": 12.5,
    "agents_at_once": 9,
    "requests_burst": 77,
    "max_streams": 3,
}


@dataclass(frozen=True, slots=True)
class Settings:
    workers: int = setting(4, WholeNumber(1, 9), "Workers.", group="Work")
    retries: int = setting(2, WholeNumber(0, 9), "Retries.", group="Work", deprecated="two are enough.")


def test_a_changed_deprecated_setting_works_and_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    loaded = load(Settings, {"retries": "5"}, {})
    with caplog.at_level(logging.WARNING):
        loaded.log_deprecated(logging.getLogger("test"))
    assert loaded.settings.retries == 5
    assert caplog.messages == ["--retries is deprecated and will be removed: two are enough."]


def test_a_deprecated_setting_that_is_set_to_its_default_is_reported(
    caplog: pytest.LogCaptureFixture,
) -> None:
    load(Settings, {"workers": "9"}, {"RETRIES": "2"}).log_deprecated(logging.getLogger("test"))
    assert caplog.messages == ["RETRIES is deprecated and will be removed: two are enough."]


def test_a_deprecated_setting_that_is_not_set_is_not_reported(caplog: pytest.LogCaptureFixture) -> None:
    load(Settings, {"workers": "9"}, {}).log_deprecated(logging.getLogger("test"))
    assert caplog.messages == []


def test_help_refers_to_another_command_for_settings_that_it_leaves_out() -> None:
    parser = argparse.ArgumentParser()
    add_arguments(parser, Settings, listed_by="accelscope work")
    assert "--workers" not in parser.format_help()
    assert "accelscope work --help lists them" in " ".join(parser.format_help().split())
    assert parser.parse_args(["--workers", "3"]).workers == "3"


def test_help_hides_a_deprecated_setting_and_the_reference_lists_it_last() -> None:
    parser = argparse.ArgumentParser()
    add_arguments(parser, Settings)
    assert "--workers" in parser.format_help()
    assert "--retries" not in parser.format_help()
    assert parser.parse_args(["--retries", "3"]).retries == "3"
    first, _, last = reference(Settings).partition("## Deprecated")
    assert "`--workers`" in first
    assert "`--retries`" in last


def deprecated_settings() -> list[tuple[type, Setting]]:
    programs = (AgentSettings, PluginSettings, FleetSettings)
    return [(program, each) for program in programs for each in settings_of(program) if each.deprecated]


def test_the_deprecated_settings_are_those_below() -> None:
    assert [each.name for _, each in deprecated_settings()] == list(DEPRECATED)


@pytest.mark.parametrize("spelling", ["flag", "variable", "key"])
@pytest.mark.parametrize(
    ("program", "declared"), [pytest.param(*each, id=each[1].name) for each in deprecated_settings()]
)
def test_each_deprecated_setting_works_by_flag_variable_and_key(
    program: type[Any], declared: Setting, spelling: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    value = DEPRECATED[declared.name]
    flags: argparse.Namespace | None = None
    environ: dict[str, str] = {}
    file = None
    parser = argparse.ArgumentParser()
    add_arguments(parser, program)
    match spelling:
        case "flag":
            used = flag_name(declared.name)
            flags = parser.parse_args([used, str(value)])
        case "variable":
            used = environment_name(declared.name)
            environ[used] = str(value)
        case "key":
            file = str(tmp_path / "settings.yaml")
            used = f"{file}:1: {key_name(declared.name)}"
            Path(file).write_text(f"{key_name(declared.name)}: {json.dumps(value)}\n")
    loaded = load(program, flags or {}, environ, file)
    with caplog.at_level(logging.WARNING):
        loaded.log_deprecated(logging.getLogger("test"))
    assert declared.value(loaded.settings) == value
    assert caplog.messages == [f"{used} is deprecated and will be removed: {declared.deprecated}"]
