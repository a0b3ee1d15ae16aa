"""The NVML library, its Python binding, whether it starts, and the tool that stands in for it."""

import ctypes
import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from accelscope.doctor.finding import Finding, error, note, ok, sentence, warning
from accelscope.doctor.nvidia import advice
from accelscope.doctor.nvidia.driver import gpus, module_version
from accelscope.doctor.subject import Subject
from accelscope.readers.contract import ReaderError
from accelscope.readers.nvidia.nvml_binding import (
    DEFAULT_LIBRARY,
    NOT_SUPPORTED,
    USUAL_PLACES,
    driver_error,
    find_library,
    load_binding,
)
from accelscope.readers.tool import Tool

_PACKAGE = "nvidia-ml-py"
_XID_EVENTS = 0x8  # nvmlEventTypeXidCriticalError of nvml.h
_MAPS = Path("/proc/self/maps")  # of this very process, whatever --proc-root says
_FILE_VERSION = re.compile(r"\.so\.([0-9]+(?:\.[0-9]+)+)$")


def library(subject: Subject) -> Iterator[Finding]:
    wanted = subject.settings.nvml_library
    place = find_library(wanted)
    if place is None:
        yield _missing(subject, wanted)
        return
    try:
        ctypes.CDLL(place)
    except OSError as problem:
        yield error(
            "library", f"{place} does not load: {problem}", advice.advice("library_unusable", subject)
        )
        return
    file = _file_of(place)
    yield ok("library", f"{file} loads", path=str(file), asked_for=wanted)


def binding(subject: Subject) -> Iterator[Finding]:
    from importlib import metadata  # noqa: PLC0415 - brings email, a megabyte

    if find_spec("pynvml") is None:
        needed = find_library(subject.settings.nvml_library) is not None
        yield (error if needed else note)(
            "binding",
            f"the Python package {_PACKAGE} is not installed: NVML cannot be used",
            advice.advice("binding_missing", subject),
        )
        return
    try:
        version = metadata.version(_PACKAGE)
    except metadata.PackageNotFoundError:
        yield note(
            "binding",
            f"the module pynvml is there, but not as the package {_PACKAGE}",
            f"If values are missing, `pip install {_PACKAGE}`: others of that module name are older.",
        )
        return
    yield ok("binding", f"{_PACKAGE} {version}", version=version)


def nvml(subject: Subject) -> Iterator[Finding]:
    """Whether it starts, and whether library and kernel module are of one version."""
    if find_library(subject.settings.nvml_library) is None or find_spec("pynvml") is None:
        return  # said above
    loaded = module_version(subject.paths)
    versions: dict[str, str | None] = {"library": None, "module": loaded}
    try:
        library = load_binding(subject.settings.nvml_library)
        versions["library"] = _library_version(library, subject)
        with _started(library):
            driver = str(library.nvmlSystemGetDriverVersion())
            versions["library"] = versions["library"] or _library_version(library, subject)
    except ReaderError as problem:
        yield error(
            "nvml",
            f"{problem}{_side_by_side(versions) if problem.reason == 'version_mismatch' else ''}",
            advice.advice(problem.reason, subject),
            reason=problem.reason,
        )
        return
    versions["driver"] = driver
    if versions["library"] not in (None, driver) or loaded not in (None, driver):
        yield warning(
            "nvml",
            f"it starts, but versions differ: driver {driver}{_side_by_side(versions)}",
            advice.advice("version_mismatch", subject),
            **versions,
        )
    else:
        yield ok("nvml", f"it starts; library, module and driver are {driver}", **versions)


def tool(subject: Subject) -> Iterator[Finding]:
    program = subject.settings.nvidia_smi_path
    place = Tool(program, timeout_seconds=1).find()
    if place is not None:
        yield ok("nvidia-smi", f"{place}, for when there is no library", path=place)
    elif Path(program).is_file():
        yield warning(
            "nvidia-smi", f"{program} is there but cannot be executed", f"chmod a+x {program}.", path=program
        )
    else:
        yield note("nvidia-smi", f"{program} not found; it is needed only where the library is missing")


def xids(subject: Subject) -> Iterator[Finding]:
    """XIDs are told only to those who listen: for which GPUs that does not work."""
    if find_library(subject.settings.nvml_library) is None or find_spec("pynvml") is None:
        return
    try:
        library = load_binding(subject.settings.nvml_library)
        with _started(library):
            deaf, listening = _deaf_to_xids(library)
    except ReaderError:
        return  # said above
    if deaf:
        yield note(
            "xids",
            "errors with a code are not counted for GPU "
            + "; ".join(f"{i}: {why}" for i, why in deaf.items()),
            not_counted=list(deaf),
        )
    elif listening:
        yield ok(
            "xids", f"{listening} GPUs tell them; they are counted from the agent's start", counted=listening
        )


def _deaf_to_xids(library: Any) -> tuple[dict[int, str], int]:
    deaf: dict[int, str] = {}
    listening = 0
    for index in range(library.nvmlDeviceGetCount()):
        try:
            handle = library.nvmlDeviceGetHandleByIndex(index)
            told = library.nvmlDeviceGetSupportedEventTypes(handle) & _XID_EVENTS
        except library.NVMLError as problem:
            deaf[index] = "its driver has no events" if problem.value == NOT_SUPPORTED else str(problem)
            continue
        if told:
            listening += 1
        else:
            deaf[index] = "its driver does not tell them"
    return deaf, listening


@contextmanager
def _started(library: Any) -> Iterator[None]:
    try:
        library.nvmlInit()
        try:
            yield
        finally:
            library.nvmlShutdown()
    except library.NVMLError as problem:
        raise driver_error(problem, "NVML does not start") from None


def _library_version(library: Any, subject: Subject) -> str | None:
    """As the driver counts: NVML's own version puts CUDA's before it (12.550.54.15). It can be had from a
    library that does not start, or from the name of its file."""
    try:
        return str(library.nvmlSystemGetNVMLVersion()).partition(".")[2] or None
    except library.NVMLError:
        place = find_library(subject.settings.nvml_library)
        match = _FILE_VERSION.search(str(_file_of(place))) if place else None
        return match[1] if match else None


def _side_by_side(versions: dict[str, str | None]) -> str:
    known = [f"{what} {versions[what]}" for what in ("library", "module") if versions[what]]
    return f" ({sentence(known)})" if known else ""


def _file_of(place: str) -> Path:
    """The file behind the name: the loader has its own ways, so the process is asked what it has mapped."""
    if "/" in place:
        return Path(place).resolve()
    for line in _MAPS.read_text(errors="replace").splitlines():
        path = Path(line.partition("/")[2])
        if path.name.startswith(place.partition(".so")[0]):
            return Path("/") / path
    return Path(place)


def _missing(subject: Subject, wanted: str) -> Finding:
    """How bad it is depends on what else there is: without hardware, it is missed by nobody."""
    tried = [wanted, *(USUAL_PLACES if wanted == DEFAULT_LIBRARY else ())]
    todo = advice.library_absent(subject)
    found = f"{wanted} is neither known to the loader nor in the usual places"
    if wanted != DEFAULT_LIBRARY:
        found = f"{wanted}, named by --nvml-library, is not there"
        todo = f"Correct --nvml-library, or leave it out. {todo}"
    if module_version(subject.paths) is None:
        if not gpus(subject.paths):
            return note("library", found, tried=tried)
        return warning("library", found, advice.DRIVER, tried=tried)
    stand_in = Tool(subject.settings.nvidia_smi_path, timeout_seconds=1).find()
    if stand_in is not None:
        return warning("library", f"{found}; nvidia-smi is used, which tells less", todo, tried=tried)
    return error("library", found, todo, tried=tried)
