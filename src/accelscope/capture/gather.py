"""Executes the capture plans, and writes what they gather into an archive.

Each command runs once and each file is read once; failures are recorded. The archive contains a folder of
outputs for each vendor, and a manifest that describes them. The same outputs give the same bytes: no times,
no owners, files in order.
"""

import gzip
import io
import json
import platform
import re
import tarfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path, PurePath
from typing import IO, Any

from accelscope import __version__
from accelscope.capture.plan import Command, Plan, Tree
from accelscope.deadline import call_with_deadline
from accelscope.model import Vendor
from accelscope.parsing import OutputFormat, sources
from accelscope.vendors.common.contract import ReaderError, ReaderOptions
from accelscope.vendors.common.files import read_whole
from accelscope.vendors.common.tool import Tool

_MAX_FILES = 20_000  # of a tree
TREE_SECONDS = 10.0  # for all files of a tree together
_MAX_TIMEOUTS = 2  # of a tool; after that it is not run again
_PROC_FILES = {"proc-cgroup": "cgroup", "proc-mountinfo": "mountinfo"}
_PROC_BYTES = 1024 * 1024
_MAX_PROCESSES = 200

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class TreeText:
    text: str
    files: int
    hung: str | None = None  # the path whose read did not return


@dataclass(slots=True)
class _TreeProgress:
    lines: list[str] = field(default_factory=list)
    files: int = 0
    at: str = ""


def read_tree(tree: Tree, root: Path, *, seconds: float) -> TreeText:
    """The files as one text, each after a line `=== path`, as far as they could be read in time. Paths begin
    with the root's default name. A read of a faulty device's file may never return, so a thread reads that is
    abandoned then."""
    progress = _TreeProgress()

    def read() -> None:
        for path in _paths(tree, root):
            progress.at = str(path)
            progress.lines.append(_entry(tree, path, f"/{tree.root}/{path.relative_to(root)}"))
            progress.files += 1

    try:
        call_with_deadline(f"tree {tree.source}", read, seconds)
    except Exception:  # noqa: BLE001 - any error must affect this tree only
        return TreeText("".join(progress.lines), progress.files, hung=progress.at)
    return TreeText("".join(progress.lines), progress.files)


def _paths(tree: Tree, root: Path) -> Iterator[Path]:
    found = 0
    for pattern in tree.folders:
        for folder in sorted(root.glob(pattern)):
            if tree.only is not None and _word(folder / tree.only[0]) != tree.only[1]:
                continue
            for path in _paths_in(tree, folder):
                found += 1
                if found > _MAX_FILES:
                    return
                yield path


def _paths_in(tree: Tree, folder: Path) -> Iterator[Path]:
    if not tree.files:
        yield folder
        return
    patterns = tree.files
    if tree.asleep is not None and _word(folder / tree.asleep[0]).startswith(tree.asleep[1]):
        patterns = (tree.asleep[0], *tree.asleep_files)
    # A folder in sysfs contains links to itself: only named files are read, and links are not followed.
    files = {path for pattern in patterns for path in folder.glob(pattern)}
    for path in sorted(files):
        if tree.opened is not None:
            if tree.opened.fullmatch(_open_file(path)):
                yield path
        elif path.is_symlink() or not path.is_dir():
            yield path


def _open_file(fdinfo: Path) -> str:
    """The path of the file that a process has open. Empty if the process ended or may not be inspected."""
    try:
        return str((fdinfo.parent.parent / "fd" / fdinfo.name).readlink())
    except OSError:
        return ""


def _word(path: Path) -> str:
    content = _content(path)
    return content.decode(errors="replace").strip() if isinstance(content, bytes) else ""


def _entry(tree: Tree, path: Path, name: str) -> str:
    """A line with the path, and the content."""
    if path.is_symlink() and not path.is_file():
        return f"=== {name} (link to {path.readlink()})\n"
    if not tree.files:
        kind = "char device" if path.is_char_device() else "folder" if path.is_dir() else "file"
        return f"=== {name} ({kind})\n"
    content = _content(path)
    if isinstance(content, OSError):
        return f"=== {name} (cannot be read: {content.strerror})\n"
    if path.name in tree.binary:
        return f"=== {name} (hexadecimal)\n{_hexadecimal(content)}"
    if tree.opened is not None:
        name += f" (of {_open_file(path)})"
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return f"=== {name} (binary, {len(content)} bytes, left out)\n"
    return f"=== {name}\n{text}" + ("" if text.endswith("\n") or not text else "\n")


def _hexadecimal(content: bytes) -> str:
    """Bytes stand apart: a mask takes longer groups of digits for an identifier."""
    lines = (content[at : at + 16].hex(" ") for at in range(0, len(content), 16))
    return "".join(f"{line}\n" for line in lines)


def _content(path: Path) -> bytes | OSError:
    try:
        return read_whole(str(path))
    except OSError as error:
        return error


@dataclass(frozen=True, slots=True)
class Gathered:
    """The output of one source, or the error."""

    group: str  # the vendor, or `proc`
    source: str
    origin: str  # the command, or the folders of the files
    tag: str = ""
    text: str | None = None
    complaint: str = ""  # standard error of a command
    exit_code: int | None = None
    error: tuple[str, str] | None = None  # a short reason and a text


@dataclass(slots=True)
class _ToolRunner:
    """Runs the tools of one plan."""

    plan: Plan
    options: ReaderOptions
    _tools: dict[str, Tool] = field(default_factory=dict)
    _timeouts: dict[str, int] = field(default_factory=dict)

    def tool(self, command: Command) -> Tool:
        name = command.tool.name
        if name not in self._tools:
            self._tools[name] = Tool(
                self.options.value(command.tool),
                timeout_seconds=self.options.tool_timeout_seconds,
                environment=self.plan.environment(self.options),
            )
        return self._tools[name]

    def run(self, command: Command) -> Gathered:
        group, source, tag = self.plan.vendor.value, command.source, command.tag
        if self._timeouts.get(command.tool.name, 0) >= _MAX_TIMEOUTS:
            skipped = ("skipped", "earlier runs of the tool timed out")
            return Gathered(group, source, command.text, tag, error=skipped)
        try:
            output = self.tool(command).run(command.arguments)
        except ReaderError as error:
            if error.reason == "tool_timeout":
                self._timeouts[command.tool.name] = self._timeouts.get(command.tool.name, 0) + 1
            return Gathered(group, source, command.text, tag, error=(error.reason, str(error)))
        return Gathered(
            group, source, command.text, tag, output.text, output.complaint, exit_code=output.exit_code
        )


def gather(
    plans: Iterable[Plan],
    options: ReaderOptions,
    progress: Progress = lambda _: None,
    *,
    tree_seconds: float = TREE_SECONDS,
) -> tuple[Gathered, ...]:
    """The outputs of all vendors that are present on this node, and the processes on their devices."""
    found: list[Gathered] = []
    for plan in plans:
        of_vendor: list[Gathered] = []
        for one in _outputs(plan, options, tree_seconds):
            progress(_summary(one))
            of_vendor.append(one)
        if any(one.text for one in of_vendor):
            found += of_vendor
        else:
            progress(f"{plan.vendor}: not on this node")
    known = sources()
    pids = sorted({pid for one in found for pid in pids_in(one, known)})
    if len(pids) > _MAX_PROCESSES:
        progress(f"proc: {len(pids)} processes on devices, only the first {_MAX_PROCESSES} are captured")
    found += _process_files(pids[:_MAX_PROCESSES], options.paths.proc, progress)
    return tuple(found)


def _outputs(plan: Plan, options: ReaderOptions, tree_seconds: float) -> Iterator[Gathered]:
    own = chain(_tool_outputs(plan, options), _tree_outputs(plan, options, tree_seconds, shared=False))
    present = False
    for one in own:
        present |= bool(one.text)
        yield one
    if present:
        yield from _tree_outputs(plan, options, tree_seconds, shared=True)


def _tool_outputs(plan: Plan, options: ReaderOptions) -> Iterator[Gathered]:
    """Nothing if none of the vendor's tools is here; if only some are missing, that is recorded."""
    runner = _ToolRunner(plan, options)
    if not any(runner.tool(command).find() for command in plan.commands):
        return
    outputs: dict[str, str] = {}
    for command in plan.commands:
        one = runner.run(command)
        outputs.setdefault(command.source, one.text or "")
        yield one
    for command in plan.then(outputs):
        yield runner.run(command)


def _tree_outputs(plan: Plan, options: ReaderOptions, seconds: float, *, shared: bool) -> Iterator[Gathered]:
    for tree in plan.trees:
        if tree.shared is not shared:
            continue
        read = read_tree(tree, getattr(options.paths, tree.root), seconds=seconds)
        if not read.files and read.hung is None:
            continue
        hung = ("read_timeout", f"reading {read.hung} timed out") if read.hung is not None else None
        origin = ", ".join(f"/{tree.root}/{folder}" for folder in tree.folders)
        yield Gathered(plan.vendor.value, tree.source, origin, text=read.text, error=hung)


def _summary(one: Gathered) -> str:
    name = f"{one.group}: {one.origin[:100]}"
    if one.error is not None:
        return f"{name}: {one.error[1]}"
    failed = f", exit code {one.exit_code}" if one.exit_code else ""
    return f"{name}: {len((one.text or '').encode())} bytes{failed}"


def pids_in(one: Gathered, known: Mapping[str, OutputFormat]) -> set[int]:
    """Processes in an output, as far as it can be parsed."""
    source = known.get(one.source)
    if source is None or not one.text:
        return set()
    return {process.pid for process in source.parse(one.text, None).processes}


def identity_of(gathered: Iterable[Gathered], vendor: Vendor) -> tuple[str | None, int, str | None]:
    """Model of the first device, number of devices and driver version, as far as outputs can be parsed."""
    known = sources()
    model, count, version = None, 0, None
    for one in gathered:
        source = known.get(one.source)
        if one.group != vendor.value or source is None or not one.text:
            continue
        devices = source.parse(one.text, None).devices
        count = max(count, len(devices))
        model = model or next((d.model for d in devices if d.model), None)
        version = version or next((d.driver_version for d in devices if d.driver_version), None)
    return model, count, version


def _process_files(pids: Iterable[int], proc: Path, progress: Progress) -> Iterator[Gathered]:
    for pid in pids:
        for source, file in _PROC_FILES.items():
            origin = str(PurePath("/proc", str(pid), file))
            try:
                with (proc / str(pid) / file).open("rb") as opened:
                    text = opened.read(_PROC_BYTES).decode(errors="replace")
            except OSError as error:
                reason = (f"unreadable_{file}", f"{origin}: {error.strerror}")
                yield Gathered("proc", source, origin, f"pid{pid}", error=reason)
                continue
            yield Gathered("proc", source, origin, f"pid{pid}", text)
        progress(f"proc: process {pid}")


# --- archive --------------------------------------------------------------


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
        entries.append(_manifest_entry(one, path, hidden))
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


def _manifest_entry(one: Gathered, path: str | None, hidden: Callable[[str, str], str]) -> dict[str, Any]:
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
