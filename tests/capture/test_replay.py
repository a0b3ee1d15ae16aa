"""An archive contains all that a reader needs: on the files in it, the reader reads the same values."""

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from tests.costless import costless

from accelscope.capture import Gathered, Mask, gather, plans
from accelscope.model import Reading, Vendor
from accelscope.model.wire import plain
from accelscope.simulate import SimulatedNode
from accelscope.vendors.common.contract import Paths, ReaderOptions, open_reader

NODES = {
    "amd-mi250": "amd",
    "amd-mi300-cpx": "amd",
    "amd-mi300x8": "amd",
    "amd-radeon": "amd",
    "furiosa-both": "furiosa",
    "furiosa-rngd": "furiosa",
    "furiosa-warboy": "furiosa",
}
_ROOTS = ("proc", "sys", "dev")
_IDENTITY = {"id", "uuid", "serial", "device", "partition"}
_HEADER = re.compile(r"^=== /(\S+)(?: \((.*)\))?\n", re.MULTILINE)


def unpack(gathered: tuple[Gathered, ...], folder: Path) -> None:
    """Writes the files of the archive's trees."""
    for root in _ROOTS:
        (folder / root).mkdir(parents=True)
    for one in gathered:
        parts = _HEADER.split(one.text or "")
        for name, note, content in zip(parts[1::3], parts[2::3], parts[3::3], strict=True):
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            kind, _, rest = (note or "").partition(" ")
            if kind == "folder":
                path.mkdir(exist_ok=True)
            elif kind == "link":
                path.symlink_to(rest.removeprefix("to "))
            elif kind == "hexadecimal":
                path.write_bytes(bytes.fromhex(content))
            elif kind == "cannot":
                path.mkdir()  # as in simulated nodes: reading it is an error
            else:
                path.write_text(content)
            if kind == "of":
                opened = path.parent.parent / "fd" / path.name
                opened.parent.mkdir(exist_ok=True)
                opened.symlink_to(rest)


def without_tools(folder: Path) -> ReaderOptions:
    roots = Paths(**{root: folder / root for root in _ROOTS})
    tools = {command.tool.name: str(folder / "no-tool") for plan in plans() for command in plan.commands}
    return ReaderOptions(paths=roots, settings=tools, clock=lambda: 1e9, monotonic=lambda: 1e3)


def readings(vendor: str, options: ReaderOptions) -> list[Reading]:
    reader = open_reader(Vendor(vendor), options)
    try:
        return [reader.read(key) for key in reader.survey().keys]
    finally:
        reader.close()


def document(reading: Reading) -> object:
    return _without_identity(plain(reading))


def _without_identity(value: object) -> object:
    if isinstance(value, Mapping):
        kept = {k: v for k, v in value.items() if not (k in _IDENTITY and isinstance(v, str))}
        return {k: _without_identity(v) for k, v in kept.items()}
    return [_without_identity(each) for each in value] if isinstance(value, list | tuple) else value


@pytest.mark.parametrize("masked", [False, True], ids=["as it is", "masked"])
@pytest.mark.parametrize("name", NODES)
def test_a_reader_reads_the_same_from_the_archive(
    name: str, masked: bool, tmp_path: Path, native_cache: Path
) -> None:
    node = SimulatedNode(costless(name), tmp_path / "node", cache=native_cache)
    node.build(120.0)
    options = without_tools(node.folder)
    gathered = gather(plans(), options)
    if masked:
        mask = Mask()
        mask.learn([one.text for one in gathered if one.text])
        gathered = tuple(replace(one, text=mask.apply(one.source, one.text or "")) for one in gathered)
    unpack(gathered, tmp_path / "unpacked")
    before = readings(NODES[name], options)
    after = readings(NODES[name], without_tools(tmp_path / "unpacked"))
    assert before
    assert list(map(document, after)) == list(map(document, before))
