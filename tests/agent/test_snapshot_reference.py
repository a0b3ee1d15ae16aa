"""The reference of `/snapshot` describes every field of the document."""

import json
import marshal
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

import pytest

from accelscope.agent.snapshot_reference import EXAMPLE, reference
from accelscope.model import Snapshot, device
from accelscope.model.documentation import documentation, objects
from accelscope.model.wire import SCHEMA_VERSION, read_snapshot, snapshot_document
from accelscope.serve.message import Request
from accelscope.serve.routing import request_tokens

RECORDED = sorted((Path(__file__).parent / "snapshots" / SCHEMA_VERSION).glob("*.json"))
SECTION = re.compile(r"^### (\w+)$(.*?)(?=^###|\Z)", re.MULTILINE | re.DOTALL)
ROW = re.compile(r"^\| `(\w+)` \| (.*?) \| (.*?) \| (.*?) \| (.*?) \|$", re.MULTILINE)
kinds = pytest.mark.parametrize("kind", objects(Snapshot), ids=lambda kind: kind.__name__)


def named(hint: Any) -> Any:
    """The type in `hint | None` and in `tuple[hint, ...]`."""
    while get_origin(hint) is not None:
        hint = next(option for option in get_args(hint) if option is not NoneType)
    return hint


def described_fields() -> dict[str, dict[str, tuple[str, ...]]]:
    """Type, unit, when it is absent and the meaning of each field, by object."""
    return {
        name: {row[0]: row[1:] for row in ROW.findall(text)} for name, text in SECTION.findall(reference())
    }


def written(kind: Any, document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The objects of a document with their names."""
    yield kind.__name__, document
    for name, hint in get_type_hints(kind).items():
        if is_dataclass(named(hint)):
            value = document.get(name, [])
            for item in value if isinstance(value, list) else [value]:
                yield from written(named(hint), item)


def test_every_object_of_the_document_has_a_section() -> None:
    assert len(described_fields()) == 30


@kinds
def test_every_object_and_field_is_described(kind: type[Any]) -> None:
    declared = {field.name: field.default for field in fields(kind)}
    texts = documentation(kind)
    assert set(texts.fields) == set(declared)
    assert all(declared[name] in (None, ()) for name in texts.absent)
    assert all(meaning[-1] in ".…" for meaning in (texts.about, *texts.fields.values()))


@kinds
def test_a_number_that_is_measured_has_its_unit(kind: type[Any]) -> None:
    hints = get_type_hints(kind)
    for name, (_, unit, *_) in described_fields()[kind.__name__].items():
        assert unit or named(hints.get(name)) is not float, name


def test_a_ratio_that_may_exceed_1_has_another_unit() -> None:
    page = described_fields()
    assert page["DeviceBalance"]["share_ratio"][1] == "shares"
    assert page["PodUsage"]["compute_share_ratio"][1] == "ratio"


@kinds
def test_no_description_depends_on_that_of_another_field(kind: type[Any]) -> None:
    for meaning in documentation(kind).fields.values():
        assert not re.search(
            r"\b(since then|the same for|of that|of those|that (period|window))\b", meaning, re.I
        )


@pytest.mark.parametrize("header", ["authorization", "x-accelscope-token"])
def test_every_header_for_tokens_is_on_the_page(header: str) -> None:
    request = Request("GET", "/snapshot", "", {header: "Bearer 0"})
    assert request_tokens(request)
    assert f"| `{header}` | the request |" in reference().lower()


@pytest.mark.parametrize(
    "document",
    [snapshot_document(EXAMPLE), *(json.loads(path.read_text()) for path in RECORDED)],
    ids=["example", *(path.stem for path in RECORDED)],
)
def test_fields_that_are_never_absent_are_in_every_document(document: dict[str, Any]) -> None:
    page = described_fields()
    for name, found in written(Snapshot, document):
        assert {field for field, (_, _, absent, _) in page[name].items() if absent == "never"} <= set(found)
        assert set(found) <= set(page[name])
        assert None not in found.values()
        assert [] not in found.values()


def test_the_example_is_a_snapshot() -> None:
    [example] = re.findall(r"^```json\n(.*?)^```", reference(), re.MULTILINE | re.DOTALL)
    assert read_snapshot(json.loads(example)) == EXAMPLE


def test_an_agent_loads_no_descriptions_of_fields() -> None:
    listed = subprocess.run(
        [sys.executable, "-c", "import sys, accelscope.agent.app; print(*sys.modules)"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout.split()
    assert "accelscope.model.snapshot" in listed
    assert not {"accelscope.model.documentation", "accelscope.agent.snapshot_reference"} & set(listed)
    source = Path(device.__file__).read_text()
    described = documentation(device.Device).fields["numa_node"]
    assert described in source
    assert described.encode() not in marshal.dumps(compile(source, "device.py", "exec"))
