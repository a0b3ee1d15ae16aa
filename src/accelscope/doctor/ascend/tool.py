"""npu-smi and the libraries that it needs."""

import re
from collections.abc import Iterator
from pathlib import Path

from accelscope.doctor.ascend import advice
from accelscope.doctor.ascend.driver import is_loaded, npus
from accelscope.doctor.finding import Finding, error, note, ok, warning
from accelscope.doctor.subject import Subject
from accelscope.readers.ascend.smi import library_folders
from accelscope.readers.tool import find_program

_LIBRARY = "libdrvdsmi_host.so"  # the first that the tool asks the loader for
_VERSION = re.compile(r"^Version\s*=\s*(\S+)", re.MULTILINE)


def driver_folder(subject: Subject) -> Iterator[Finding]:
    """Where the driver's installation puts its libraries; only login shells are told."""
    root = subject.paths.ascend_driver
    expected = is_loaded(subject.paths) or bool(npus(subject.paths))
    place = next((folder for folder in library_folders(root) if (folder / _LIBRARY).is_file()), None)
    if place is not None:
        version = _version(root)
        yield ok("driver folder", f"{_LIBRARY} in {place}, driver {version or 'of unknown version'}")
    elif expected:
        what = f"{_LIBRARY} is not in lib64/driver of {root}" if root.is_dir() else f"{root} is not there"
        yield warning("driver folder", what, advice.library_missing(subject), root=str(root))
    else:
        yield note("driver folder", f"{root} is not there")


def tool(subject: Subject) -> Iterator[Finding]:
    program = subject.settings.npu_smi_path
    place = find_program(program)
    if place is not None:
        yield ok("npu-smi", place, path=place)
    elif Path(program).is_file():
        yield error("npu-smi", f"{program} is there but cannot be executed", f"chmod a+x {program}.")
    elif is_loaded(subject.paths):
        yield error("npu-smi", f"{program} not found: nothing can be read", advice.tool_missing(subject))
    elif npus(subject.paths):
        yield warning("npu-smi", f"{program} not found", advice.DRIVER)
    else:
        yield note("npu-smi", f"{program} not found")


def _version(root: Path) -> str | None:
    try:
        match = _VERSION.search((root / "version.info").read_text(errors="replace"))
    except OSError:
        return None
    return match[1] if match else None
