"""Loading NVML, and what its errors mean.

The calls themselves are those of NVIDIA's own `nvidia-ml-py` (module `pynvml`). It keeps the library in a
module global, so each reader gets a copy of the module: a library that was replaced can be loaded again while
a call into the old one hangs. A copy uses as much memory as the import would.
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

_MODULE = "accelscope_nvml_binding"
DEFAULT_LIBRARY = "libnvidia-ml.so.1"

# Where containers and distributions put it when the loader's own search does not find it.
USUAL_PLACES = (
    "/run/nvidia/driver/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1",
    "/run/nvidia/driver/usr/lib/aarch64-linux-gnu/libnvidia-ml.so.1",
    "/run/nvidia/driver/usr/lib64/libnvidia-ml.so.1",
    "/usr/local/nvidia/lib64/libnvidia-ml.so.1",
    "/home/kubernetes/bin/nvidia/lib64/libnvidia-ml.so.1",
    "/usr/lib/wsl/lib/libnvidia-ml.so.1",
)

# NVML return codes (nvml.h). The first column of each pair is stable since they were introduced.
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
    INVALID_ARGUMENT: AbsenceReason.NOT_KNOWN,  # an older driver's answer to a newer field or structure
    25: AbsenceReason.NOT_KNOWN,  # argument version mismatch, likewise
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


def absence(code: int) -> AbsenceReason:
    return _ABSENCE.get(code, AbsenceReason.DRIVER_ERROR)


def driver_error(error: Any, what: str) -> ReaderError:
    """An NVML error about the driver as a whole, in a form that can be counted."""
    return ReaderError(_DRIVER_REASONS.get(error.value, "driver_error"), f"{what}: {error}")


def text_of(value: str | bytes) -> str:
    """A text field of a structure: the binding decodes some of them and leaves others."""
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def find_library(library: str) -> str | None:
    """The library's place as `ctypes` can load it, or None. A name is looked up as the loader does."""
    candidates = (library, *USUAL_PLACES) if library == DEFAULT_LIBRARY else (library,)
    for candidate in candidates:
        try:
            loaded = ctypes.CDLL(candidate)
        except OSError:
            if Path(candidate).is_file():
                return candidate  # it is there but does not load: loading it again tells why
            continue
        _close(loaded)
        return candidate
    return None


def load_binding(library: str, spare: Any = None) -> Any:
    """A `pynvml` module of one's own, bound to this library. `spare` is one that was unloaded: ctypes never
    forgets the types of a module, so each new one costs two mebibytes for good."""
    place = find_library(library)
    if place is None:
        raise DriverAbsent(f"the NVML library {library} is not on this node")
    try:
        loaded = ctypes.CDLL(place)
    except OSError as error:
        raise ReaderError("library_unusable", f"the NVML library cannot be loaded: {error}") from None
    binding = _own_module() if spare is None else spare
    binding.nvmlLib = loaded
    binding.accelscope_library_file = _mapped_file(place)
    return binding


def unload(binding: Any) -> None:
    """Unmap the library, so that the next load takes the file that is there then. No call may be inside. The
    module is as it was before it was bound, and may be bound again."""
    _close(binding.nvmlLib)
    binding.nvmlLib = None
    binding._nvmlGetFunctionPointer_cache.clear()
    binding._nvmlLib_refcount = 0


def library_version(binding: Any) -> tuple[int, int] | None:
    """Tells whether the file that was loaded is still the one that is there; None: it is gone."""
    try:
        status = Path(binding.accelscope_library_file).stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns


def _close(library: ctypes.CDLL) -> None:
    ctypes.CDLL(None).dlclose(ctypes.c_void_p(library._handle))


def _mapped_file(place: str) -> str:
    """Which file the loader took for a bare name."""
    if "/" in place:
        return place
    for line in Path("/proc/self/maps").read_text(errors="replace").splitlines():
        path = line.partition("/")
        if path[2].rpartition("/")[2].startswith(place.removesuffix(".1")):
            return "/" + path[2]
    return place


def _own_module() -> Any:
    found = importlib.util.find_spec("pynvml")
    if found is None or found.origin is None:
        raise ReaderError("binding_missing", "the Python package nvidia-ml-py is not installed")
    spec = importlib.util.spec_from_file_location(_MODULE, found.origin)
    if spec is None or spec.loader is None:
        raise ReaderError(
            "binding_missing", f"the Python package nvidia-ml-py cannot be read: {found.origin}"
        )
    module = importlib.util.module_from_spec(spec)
    sys.modules[_MODULE] = module  # it looks itself up there while it is being made
    with _light_ctypes_util():
        spec.loader.exec_module(module)
    return module


@contextmanager
def _light_ctypes_util() -> Iterator[None]:
    """The binding imports `find_library` from there and never calls it. With the real module come subprocess,
    tempfile and what they need: the binding then adds 2.9 MiB to the agent's resident memory instead of 1.9
    (Python 3.11, five runs each, all within 0.1 MiB)."""
    name = "ctypes.util"
    if name in sys.modules:
        yield
        return
    sys.modules[name] = stand_in = ModuleType(name)
    stand_in.find_library = find_library  # type: ignore[attr-defined]
    try:
        yield
    finally:
        del sys.modules[name]


# --- nvml ask ------------------------------------------------------------
# Asking NVML one value at a time, so that a value one driver does not know costs that value only.


# What a card does not have it will not have a second later: not asking again saves half the driver calls.
ASK_AGAIN_SECONDS = 300.0
_LASTING = frozenset({AbsenceReason.NOT_SUPPORTED, AbsenceReason.NOT_KNOWN, AbsenceReason.DEPRECATED})
# What a driver in trouble answers now, and perhaps not the next time.
PASSING = frozenset({AbsenceReason.DRIVER_ERROR, AbsenceReason.TIMEOUT, AbsenceReason.NO_SAMPLE})


class Ask:
    """Calls functions of NVML about one GPU and notes what is absent, and why."""

    def __init__(self, binding: Any, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._nvml = binding
        self._monotonic = monotonic
        self._once: dict[str, Any] = {}
        self._lasting: dict[str, tuple[AbsenceReason, float]] = {}
        self._absent: dict[str, AbsenceReason] = {}
        self._now = 0.0

    def begin(self) -> None:
        """A new reading: what was absent in the one before is forgotten unless it lasts."""
        self._now = self._monotonic()
        self._absent = {}
        self._lasting = {f: kept for f, kept in self._lasting.items() if kept[1] > self._now}

    def __call__(self, field: str, function: str, *arguments: Any) -> Any:
        """The function's answer, or None with the reason noted under `field`. A lost GPU raises."""
        lasting = self._lasting.get(field)
        if lasting is not None:
            self._absent[field] = lasting[0]
            return None
        try:
            return getattr(self._nvml, function)(*arguments)
        except self._nvml.NVMLError as error:
            self._note(field, error.value, str(error))
        except (UnicodeDecodeError, ValueError):  # the binding could not make a value of the answer
            self._absent[field] = AbsenceReason.UNREADABLE
        return None

    def once(self, field: str, function: str, *arguments: Any) -> Any:
        """The same for what does not change: asked until there is an answer."""
        if field not in self._once:
            answer = self(field, function, *arguments)
            if answer is None:
                return None
            self._once[field] = answer
        return self._once[field]

    def why_not(self, field: str) -> AbsenceReason | None:
        return self._absent.get(field)

    def refuse(self, field: str, code: int) -> None:
        """Note an absence that came as a return code inside an answer."""
        self._note(field, code, f"NVML return code {code}")

    def absent(self) -> tuple[Absence, ...]:
        return tuple(Absence(field, reason) for field, reason in self._absent.items())

    def miss(self, field: str, reason: AbsenceReason) -> None:
        """Note an absence that no call told of."""
        self._absent[field] = reason

    def start_over(self) -> None:
        """The card is another one now in what it supports: ask for everything again."""
        self._lasting.clear()

    def forget(self, field: str) -> AbsenceReason | None:
        """Another source gives the value, or the reason why not. Returns why this one did not."""
        return self._absent.pop(field, None)

    def _note(self, field: str, code: int, text: str) -> None:
        reason = absence(code)
        if reason in (AbsenceReason.LOST, AbsenceReason.RESET_REQUIRED):
            raise DeviceLost(text, reason=str(reason))
        self._absent[field] = reason
        if reason in _LASTING:
            self._lasting[field] = (reason, self._now + ASK_AGAIN_SECONDS)
