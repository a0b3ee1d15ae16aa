"""Where the settings came from, deprecated spellings, and that secrets stay secret."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from accelscope.agent.settings import AgentSettings
from accelscope.config import TEXT, Loaded, load, setting
from accelscope.doctor.settings import CHECKS
from accelscope.doctor.subject import Subject

if TYPE_CHECKING:
    from tests.doctor.conftest import NodeFolder


def findings(subject: Subject) -> dict[str, tuple[str, str]]:
    return {f.name: (f.severity.value, f.found) for check in CHECKS for f in check.look(subject)}


def test_each_given_setting_is_shown_with_its_origin(node: "NodeFolder") -> None:
    file = node.folder / "agent.yaml"
    file.write_text("# mine\nlabels: {rack: 7}\n")
    loaded = load(
        AgentSettings, {"exporter_port": "9500", "config_file": str(file)}, {"COLLECT_INTERVAL": "5"}
    )
    found = findings(Subject(loaded=loaded, environ={}))
    assert found["exporter-port"] == ("ok", "9500, from the command line")
    assert found["collection-interval"] == ("ok", "5s, from COLLECT_INTERVAL")
    assert found["labels"] == ("ok", f"rack=7, from {file}:2: labels")
    assert "log-level" not in found


def test_a_node_with_defaults_says_so() -> None:
    loaded = load(AgentSettings, {}, {})
    assert findings(Subject(loaded=loaded, environ={})) == {
        "given": ("ok", "none: every setting has its default")
    }


@dataclass(frozen=True, slots=True)
class Old:
    password: str = setting("", TEXT, "A secret.", group="General", secret=True)
    port: str = setting("", TEXT, "A port.", group="General", deprecated=("listen",))


def old(arguments: dict[str, Any]) -> Subject:
    return Subject(loaded=cast(Loaded[AgentSettings], load(Old, arguments, {})), environ={})


def test_a_deprecated_spelling_is_a_warning_that_names_the_new_one() -> None:
    [finding] = [f for check in CHECKS for f in check.look(old({"listen": "1"})) if f.name == "spelling"]
    assert finding.severity == "warning"
    assert finding.found == "--listen is deprecated"
    assert finding.advice == "use --port."


def test_a_secret_is_shown_nowhere() -> None:
    [finding] = [f for check in CHECKS for f in check.look(old({"password": "hunter2"}))]
    assert "hunter2" not in str(finding)
    assert finding.found == "(not shown), from the command line"
