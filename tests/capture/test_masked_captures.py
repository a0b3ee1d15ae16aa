"""Masked captures of real machines parse to the same values."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import captures_folder

from accelscope.capture import Mask, NodeNames
from accelscope.model.wire import plain
from accelscope.parsing import ParseResult, sources

# How files of the captures are named, and what they are.
KINDS = {
    r"nvidia/query-gpu_.*\.csv": "nvidia-smi-query-gpu",
    r"nvidia/compute-apps_.*\.csv": "nvidia-smi-compute-apps",
    r"nvidia/pmon-.*\.txt": "nvidia-smi-pmon",
    r"nvidia/qx_.*\.xml": "nvidia-smi-xml",
    r"nvidia/list_.*\.txt": "nvidia-smi-list",
    r"amd/rocm-smi_.*\.json": "rocm-smi-json",
    r"amd/amd-smi_metric.*\.json": "amd-smi-metric",
    r"amd/amd-smi_static.*\.json": "amd-smi-static",
    r"ascend/info_.*\.txt": "npu-smi-info",
    r"ascend/board_.*\.txt": "npu-smi-board",
    r"ascend/usages_.*\.txt": "npu-smi-usages",
    r"ascend/common_.*\.txt": "npu-smi-common",
    r"ascend/proc-mem_.*\.txt": "npu-smi-proc-mem",
    r"ascend/ecc_.*\.txt": "npu-smi-ecc",
    r"furiosa/furiosa-smi-info.*": "furiosa-smi-info",
    r"furiosa/furiosa-smi-status.*": "furiosa-smi-status",
    r"furiosa/furiosa-smi-ps.*": "furiosa-smi-ps",
    r"furiosa/furiosactl-info.*": "furiosactl-info",
    r"furiosa/furiosactl-ps.*": "furiosactl-ps",
}
IDENTITY = {"id", "uuid", "serial", "device", "partition"}
NAMES = NodeNames(hosts=("gpu-07.corp.example",), users=("alice",))


def files() -> Iterator[tuple[str, str]]:
    folder = captures_folder()
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        source = next((s for pattern, s in KINDS.items() if re.fullmatch(pattern, name)), None)
        if source is not None and path.is_file():
            yield name, source


def numbers(parsed: ParseResult) -> Any:
    return _anonymous([plain(parsed.devices), plain(parsed.processes)])


def _anonymous(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _anonymous(item) for key, item in value.items() if key not in IDENTITY}
    return [_anonymous(item) for item in value] if isinstance(value, list) else value


def joins(parsed: ParseResult) -> list[tuple[int, ...]]:
    """Which devices have which processes, without their names."""
    ids = [device.id for device in parsed.devices]
    return [tuple(n for n, id_ in enumerate(ids) if id_ == p.device) for p in parsed.processes]


@pytest.mark.parametrize(("name", "source"), list(files()))
def test_a_masked_capture_parses_to_the_same_values(name: str, source: str, captures: Path) -> None:
    known = sources()
    if source not in known:
        pytest.skip(f"{source} is not read yet")
    text = (captures / name).read_text(errors="replace")
    mask = Mask(NAMES)
    mask.learn([text])
    masked = mask.apply(source, text)
    before, after = (known[source].parse(one, None) for one in (text, masked))
    assert numbers(after) == numbers(before)
    assert joins(after) == joins(before)
    assert len({d.id for d in after.devices}) == len({d.id for d in before.devices})
    assert (after.error is None) == (before.error is None)
    for device in before.devices:
        for told in (device.uuid, device.serial):
            if told is not None and re.search("[1-9]", told) and len(told) > 3:
                assert told not in masked
