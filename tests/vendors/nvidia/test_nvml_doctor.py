"""Doctor checks of the NVML library, its binding and nvidia-smi."""

import importlib.util
from typing import TYPE_CHECKING, Any

import pytest
from tests.programs import script

from accelscope.vendors.nvidia import doctor

if TYPE_CHECKING:
    from tests.doctor.node_folder import NodeFolder

POD = {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}


@pytest.mark.parametrize(
    ("hardware", "module", "tool", "severity"),
    [
        (False, False, False, "note"),
        (True, False, False, "warning"),
        (True, True, True, "warning"),
        (True, True, False, "error"),
        (False, True, False, "error"),
    ],
)
def test_the_severity_of_a_missing_library_depends_on_the_node(
    node: "NodeFolder", hardware: bool, module: bool, tool: bool, severity: str
) -> None:
    settings = {}
    if hardware:
        node.gpu("0000:1b:00.0", "nvidia" if module else None)
    if module:
        node.module()
    if tool:
        settings = {"nvidia_smi_path": str(script(node.folder / "bin/nvidia-smi", ""))}
    [finding] = doctor.library(node.subject(settings))
    assert finding.severity == severity
    assert "no-library" in finding.found
    assert finding.details["tried"] == [str(node.folder / "no-library")]


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        (POD, ("runtimeClassName: nvidia", "NVIDIA_DRIVER_CAPABILITIES=utility", "/run/nvidia/driver")),
        ({}, ("--nvml-library", "libnvidia-compute")),
    ],
)
def test_the_advice_depends_on_the_environment(
    node: "NodeFolder", environ: dict[str, str], words: tuple[str, ...]
) -> None:
    node.module()
    [finding] = doctor.library(node.subject(environ=environ))
    for word in words:
        assert word in (finding.advice or "")


def test_a_file_that_is_not_a_library_is_an_error(node: "NodeFolder") -> None:
    node.write({"libnvidia-ml.so.1": "this is text"})
    place = str(node.folder / "libnvidia-ml.so.1")
    [finding] = doctor.library(node.subject({"nvml_library": place}))
    assert finding.severity == "error"
    assert f"{place} does not load" in finding.found
    [started] = doctor.nvml(node.subject({"nvml_library": place}))
    assert started.details["reason"] == "library_unusable"


def test_the_version_of_the_binding_is_reported(node: "NodeFolder") -> None:
    [finding] = doctor.binding(node.subject())
    assert finding.severity == "ok"
    assert finding.found.startswith("nvidia-ml-py ")


def test_a_missing_binding_is_an_error_only_if_the_library_exists(
    node: "NodeFolder", monkeypatch: pytest.MonkeyPatch
) -> None:
    def nothing(name: str) -> Any:
        return None if name == "pynvml" else importlib.util.find_spec(name)

    monkeypatch.setattr(doctor, "find_spec", nothing)
    [finding] = doctor.binding(node.subject())
    assert finding.severity == "note"
    node.write({"lib.so": ""})
    subject = node.subject({"nvml_library": str(node.folder / "lib.so")})
    [finding] = doctor.binding(subject)
    assert finding.severity == "error"
    assert "pip install nvidia-ml-py" in (finding.advice or "")
    assert list(doctor.nvml(subject)) == []


def test_without_a_library_nvml_is_not_checked(node: "NodeFolder") -> None:
    assert list(doctor.nvml(node.subject())) == []
    assert list(doctor.xids(node.subject())) == []


@pytest.mark.parametrize(("mode", "severity"), [(0o755, "ok"), (0o644, "warning"), (None, "note")])
def test_the_tool_is_checked(node: "NodeFolder", mode: int | None, severity: str) -> None:
    tool = node.folder / "nvidia-smi"
    if mode is not None:
        script(tool, "").chmod(mode)
    [finding] = doctor.tool(node.subject({"nvidia_smi_path": str(tool)}))
    assert finding.severity == severity
    assert str(tool) in finding.found
