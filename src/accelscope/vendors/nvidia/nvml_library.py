"""The NVML library: loading and unloading it, its return codes, and calls that record why a value is absent.

The functions come from NVIDIA's `nvidia-ml-py` (module `pynvml`), which keeps the loaded library in a module
global. Each reader therefore gets its own copy of the module, and a replaced library can be loaded while a
call into the old one still hangs. A copy uses as much memory as the import would.
"""

import ctypes
import importlib.util
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from accelscope.model import Absence, AbsenceReason
from accelscope.vendors.common.contract import DeviceLost, DriverAbsent, ReaderError

BINDING_NAME = "accelscope_nvml_binding"
DEFAULT_LIBRARY = "libnvidia-ml.so.1"

# Where containers and distributions install the library outside the loader's search path.
USUAL_PLACES = (
    "/run/nvidia/driver/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1",
    "/run/nvidia/driver/usr/lib/aarch64-linux-gnu/libnvidia-ml.so.1",
    "/run/nvidia/driver/usr/lib64/libnvidia-ml.so.1",
    "/usr/local/nvidia/lib64/libnvidia-ml.so.1",
    "/home/kubernetes/bin/nvidia/lib64/libnvidia-ml.so.1",
    "/usr/lib/wsl/lib/libnvidia-ml.so.1",
)

# NVML return codes (nvml.h).
UNINITIALIZED = 1
INVALID_ARGUMENT = 2
NOT_SUPPORTED = 3
NO_PERMISSION = 4
NOT_FOUND = 6
DRIVER_NOT_LOADED = 9
TIMEOUT = 10
FUNCTION_NOT_FOUND = 13
GPU_IS_LOST = 15
RESET_REQUIRED = 16
VERSION_MISMATCH = 18
NO_DATA = 21
DEPRECATED = 26

_ABSENCE = {
    NOT_SUPPORTED: AbsenceReason.NOT_SUPPORTED,
    FUNCTION_NOT_FOUND: AbsenceReason.NOT_KNOWN,
    # Older drivers return these two for a field or structure that they do not have.
    INVALID_ARGUMENT: AbsenceReason.NOT_KNOWN,
    25: AbsenceReason.NOT_KNOWN,  # argument version mismatch
    NO_PERMISSION: AbsenceReason.NO_PERMISSION,
    GPU_IS_LOST: AbsenceReason.LOST,
    RESET_REQUIRED: AbsenceReason.RESET_REQUIRED,
    TIMEOUT: AbsenceReason.TIMEOUT,
    NO_DATA: AbsenceReason.NO_SAMPLE,
    NOT_FOUND: AbsenceReason.NO_SAMPLE,
    DEPRECATED: AbsenceReason.DEPRECATED,
}

_DRIVER_REASONS = {
    UNINITIALIZED: "driver_reloaded",
    NO_PERMISSION: "no_permission",
    DRIVER_NOT_LOADED: "driver_not_loaded",
    TIMEOUT: "timeout",
    GPU_IS_LOST: "lost",
    RESET_REQUIRED: "reset_required",
    VERSION_MISMATCH: "version_mismatch",
}


def absence_reason(code: int) -> AbsenceReason:
    return _ABSENCE.get(code, AbsenceReason.DRIVER_ERROR)


def driver_error(error: Any, what: str) -> ReaderError:
    """The ReaderError for an NVML error that is not specific to one value."""
    return ReaderError(_DRIVER_REASONS.get(error.value, "driver_error"), f"{what}: {error}")


def decode_text(value: str | bytes) -> str:
    """A text field of a structure. The binding decodes some of them and returns others as bytes."""
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def find_library(library: str) -> str | None:
    """The name or path that `ctypes` can load, or None."""
    candidates = (library, *USUAL_PLACES) if library == DEFAULT_LIBRARY else (library,)
    for candidate in candidates:
        try:
            loaded = ctypes.CDLL(candidate)
        except OSError:
            if Path(candidate).is_file():
                return candidate  # it exists but does not load: the caller's own attempt gives the reason
            continue
        _close(loaded)
        return candidate
    return None


def load_binding(library: str, spare: Any = None) -> Any:
    """A private copy of `pynvml`, bound to this library.

    `spare` is an unloaded binding to reuse. ctypes never frees the types of a module, so each new copy costs
    two mebibytes until the process ends.
    """
    location = find_library(library)
    if location is None:
        raise DriverAbsent(f"NVML library {library} not found")
    try:
        loaded = ctypes.CDLL(location)
    except OSError as error:
        raise ReaderError("library_unusable", f"cannot load the NVML library: {error}") from None
    binding = _copy_binding() if spare is None else spare
    binding.nvmlLib = loaded
    binding.accelscope_library_file = mapped_file(location)
    return binding


def unload(binding: Any) -> None:
    """Unmap the library, so that the next load opens the file that is installed then. No call may be running.
    The binding can be bound to a library again."""
    _close(binding.nvmlLib)
    binding.nvmlLib = None
    # pynvml has no public way to unload. These two private members hold pointers into the old library and the
    # count of nvmlInit calls. Resetting them saves the two mebibytes of a new copy of the module.
    binding._nvmlGetFunctionPointer_cache.clear()
    binding._nvmlLib_refcount = 0


def library_version(binding: Any) -> tuple[int, int] | None:
    """Identifies the library's file, to detect that it was replaced. None if the file is gone."""
    try:
        status = Path(binding.accelscope_library_file).stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns


def _close(library: ctypes.CDLL) -> None:
    # ctypes has no public dlclose, and the handle is only in the private `_handle`.
    ctypes.CDLL(None).dlclose(ctypes.c_void_p(library._handle))


def mapped_file(location: str) -> str:
    """The file of a loaded library. For a bare name only the memory map of this process has it."""
    if "/" in location:
        return location
    for line in Path("/proc/self/maps").read_text(errors="replace").splitlines():
        path = line.partition("/")
        if path[2].rpartition("/")[2].startswith(location.removesuffix(".1")):
            return "/" + path[2]
    return location


def _copy_binding() -> Any:
    found = importlib.util.find_spec("pynvml")
    if found is None or found.origin is None:
        raise ReaderError("binding_missing", "the Python package nvidia-ml-py is not installed")
    spec = importlib.util.spec_from_file_location(BINDING_NAME, found.origin)
    if spec is None or spec.loader is None:
        raise ReaderError("binding_missing", f"cannot load the Python package nvidia-ml-py: {found.origin}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[BINDING_NAME] = module  # pynvml looks itself up here during its import
    with _stub_ctypes_util():
        spec.loader.exec_module(module)
    return module


@contextmanager
def _stub_ctypes_util() -> Iterator[None]:
    """Replace `ctypes.util` during the import of pynvml, which imports `find_library` and never calls it.

    The real module imports subprocess and tempfile. With it the binding adds 2.9 MiB to the agent's resident
    memory, without it 1.9 MiB (Python 3.11, five runs each, all within 0.1 MiB).
    """
    name = "ctypes.util"
    if name in sys.modules:
        yield
        return
    sys.modules[name] = stub = ModuleType(name)
    stub.find_library = find_library  # type: ignore[attr-defined]
    try:
        yield
    finally:
        del sys.modules[name]


# A value that a card does not support is not requested again for this long. That halves the driver calls.
RETRY_UNSUPPORTED_SECONDS = 300.0
_PERMANENT = frozenset({AbsenceReason.NOT_SUPPORTED, AbsenceReason.NOT_KNOWN, AbsenceReason.DEPRECATED})
# Reasons that may be gone at the next reading.
TRANSIENT = frozenset({AbsenceReason.DRIVER_ERROR, AbsenceReason.TIMEOUT, AbsenceReason.NO_SAMPLE})


class NvmlCaller:
    """Calls NVML functions for one GPU, one value at a time, and records why a value is absent. A value that
    the driver does not have leaves the other values of the reading intact."""

    def __init__(self, binding: Any, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._nvml = binding
        self._monotonic = monotonic
        self._constants: dict[str, Any] = {}
        self._permanent: dict[str, tuple[AbsenceReason, float]] = {}  # until a monotonic time
        self._absent: dict[str, AbsenceReason] = {}
        self._now = 0.0

    def begin(self) -> None:
        """Start a new reading: drop the recorded absences, except the permanent ones."""
        self._now = self._monotonic()
        self._absent = {}
        self._permanent = {f: entry for f, entry in self._permanent.items() if entry[1] > self._now}

    def __call__(self, field: str, function: str, *arguments: Any) -> Any:
        """The function's result, or None with the reason recorded under `field`. Raises DeviceLost."""
        permanent = self._permanent.get(field)
        if permanent is not None:
            self._absent[field] = permanent[0]
            return None
        try:
            return getattr(self._nvml, function)(*arguments)
        except self._nvml.NVMLError as error:
            self._record(field, error.value, str(error))
        except (UnicodeDecodeError, ValueError):  # the binding could not convert the result
            self._absent[field] = AbsenceReason.UNREADABLE
        return None

    def direct(self, field: str, function: str, *arguments: Any) -> bool:
        """Calls the library without the binding, for results that the binding converts slowly. They are in
        the arguments, if True is returned. Raises DeviceLost."""
        permanent = self._permanent.get(field)
        if permanent is not None:
            self._absent[field] = permanent[0]
            return False
        try:
            code = getattr(self._nvml.nvmlLib, function)(*arguments)
        except AttributeError:
            code = FUNCTION_NOT_FOUND
        if code:
            self.record_code(field, code)
        return not code

    def once(self, field: str, function: str, *arguments: Any) -> Any:
        """The same for a value that never changes: called until it returns one."""
        if field not in self._constants:
            value = self(field, function, *arguments)
            if value is None:
                return None
            self._constants[field] = value
        return self._constants[field]

    def absence_of(self, field: str) -> AbsenceReason | None:
        return self._absent.get(field)

    def record_code(self, field: str, code: int) -> None:
        """Record the absence for a return code that is part of a result. Raises DeviceLost."""
        self._record(field, code, f"NVML return code {code}")

    def absent(self) -> tuple[Absence, ...]:
        return tuple(Absence(field, reason) for field, reason in self._absent.items())

    def record(self, field: str, reason: AbsenceReason) -> None:
        self._absent[field] = reason

    def retry_unsupported(self) -> None:
        """Request unsupported values again: what the card supports has changed."""
        self._permanent.clear()

    def discard(self, field: str) -> AbsenceReason | None:
        """Remove and return the recorded absence of a value that another function provides."""
        return self._absent.pop(field, None)

    def _record(self, field: str, code: int, text: str) -> None:
        reason = absence_reason(code)
        if reason in (AbsenceReason.LOST, AbsenceReason.RESET_REQUIRED):
            raise DeviceLost(text, reason=str(reason))
        self._absent[field] = reason
        if reason in _PERMANENT:
            self._permanent[field] = (reason, self._now + RETRY_UNSUPPORTED_SECONDS)
