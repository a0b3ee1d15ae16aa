"""The archive: a folder of outputs for each vendor, and a manifest that describes them.

The same outputs give the same bytes: no times, no owners, files in order.
"""

import gzip
import io
import json
import platform
import re
import tarfile
from collections.abc import Callable, Iterable
from typing import IO, Any

from accelscope import __version__
from accelscope.capture.gather import Gathered, identity_of
from accelscope.model import Vendor

MANIFEST_VERSION = 1
_README = """\
Outputs of the accelerator drivers of one node, saved by `accelscope capture` {version}.

manifest.json contains for each file its command or path, the exit code, and the source for
`accelscope parse SOURCE FILE`. It also lists the sources that failed, with the reason.

{masking}
To use it as a test case, add the folders to other captures: <vendor>/<source>_<model>_<version>.txt.
"""
_MASKED = """\
Masked: uuids, serial numbers and other numbers that identify a device, names of hosts and users, IP and MAC
addresses. The same value has the same mask in all files. Command lines are cut to the program's name; only
mounts that identify a container are included. PCI addresses, models, versions and process ids are unchanged.
"""
_NOT_MASKED = """\
NOT masked (--no-mask): names, numbers and command lines are unchanged. Do not publish this archive.
"""


def write_archive(
    output: IO[bytes],
    gathered: Iterable[Gathered],
    *,
    hide: Callable[[str, str], str] | None,
) -> int:
    """Write the archive to `output` and return the number of files. `hide` masks the text of a source; None:
    nothing is masked."""
    listed = list(gathered)
    hidden = hide or _unmasked
    names = _FileNames(listed)
    files: dict[str, bytes] = {}
    entries: list[dict[str, Any]] = []
    for one in listed:
        path = names.path(one) if one.text is not None else None
        if path is not None and one.text is not None:
            files[path] = hidden(one.source, one.text).encode()
        entries.append(_entry(one, path, hidden))
    manifest = {
        "manifest_version": MANIFEST_VERSION,
        "accelscope": __version__,
        "masked": hide is not None,
        "system": {"kernel": hidden("", platform.release()), "machine": platform.machine()},
        "vendors": names.vendors,
        "files": entries,
    }
    masking = _NOT_MASKED if hide is None else _MASKED
    files["README.txt"] = _README.format(version=__version__, masking=masking).encode()
    files["manifest.json"] = (json.dumps(manifest, indent=2, ensure_ascii=False) + "\n").encode()
    _write(output, files)
    return len(files)


class _FileNames:
    def __init__(self, gathered: list[Gathered]) -> None:
        self.vendors: dict[str, dict[str, Any]] = {}
        self._suffixes: dict[str, str] = {}
        self._taken: set[str] = set()
        for vendor in Vendor:
            if not any(one.group == vendor.value for one in gathered):
                continue
            model, count, version = identity_of(gathered, vendor)
            facts = {"model": model, "devices": count or None, "driver_version": version}
            self.vendors[vendor.value] = {name: fact for name, fact in facts.items() if fact is not None}
            named = _slug(model or "unknown") + (f"x{count}" if count > 1 else "")
            self._suffixes[vendor.value] = f"_{named}_{_slug(version or 'unknown')}"

    def path(self, one: Gathered) -> str:
        tag = f"_{_slug(one.tag)}" if one.tag else ""
        stem = f"{one.group}/{one.source}{self._suffixes.get(one.group, '')}{tag}"
        path, number = f"{stem}.txt", 2
        while path in self._taken:
            path, number = f"{stem}_{number}.txt", number + 1
        self._taken.add(path)
        return path


def _slug(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9.]+", "-", text).strip("-").lower()[:60] or "unknown"


def _unmasked(_: str, text: str) -> str:
    return text


def _entry(one: Gathered, path: str | None, hidden: Callable[[str, str], str]) -> dict[str, Any]:
    entry: dict[str, Any] = {"path": path, "group": one.group, "source": one.source, "origin": one.origin}
    if one.exit_code is not None:
        entry["exit_code"] = one.exit_code
    if one.complaint:
        entry["complaint"] = hidden("", one.complaint)
    if one.error is not None:
        reason, text = one.error
        entry["error"] = {"reason": reason, "text": hidden("", text)}
    return entry


def _write(output: IO[bytes], files: dict[str, bytes]) -> None:
    """Writes in one call: after a failed write, GzipFile and TarFile write again when they are closed."""
    written = io.BytesIO()
    with (
        gzip.GzipFile(filename="", mode="wb", fileobj=written, compresslevel=9, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive,
    ):
        for name in sorted(files):
            member = tarfile.TarInfo(f"accelscope-capture/{name}")
            member.size = len(files[name])
            member.mode = 0o644
            archive.addfile(member, io.BytesIO(files[name]))
    output.write(written.getbuffer())
