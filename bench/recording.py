"""What the agent's reader asks the driver in one collection: every NVML call with its arguments.

The calls are taken down between `nvidia-ml-py` and the library, and written as text that `c/driver_calls.c`
makes again. Pointers that the library gave out (devices, event sets, GPM samples) get names, because another
process will be given others.
"""

import ctypes
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

from accelscope.vendors.common.contract import ReaderOptions
from accelscope.vendors.nvidia.nvml_library import load_binding
from accelscope.vendors.nvidia.reader import NvmlSource

PASSES = 2  # GPM compares two samples that change places at each pass, so the calls repeat after two

_HANDLE_GIVERS = {"nvmlDeviceGetHandleByIndex_v2": "d", "nvmlEventSetCreate": "e", "nvmlGpmSampleAlloc": "s"}


class Recorder:
    """Stands where the library stands."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library
        self._names: dict[int, str] = {}  # pointer of the library's -> name
        self._given: dict[str, int] = {}  # kind of name -> how many there are
        self.calls: list[str] = []
        self.refused = 0  # calls that did not succeed: values that the cards do not have
        self.on = False

    def __getattr__(self, name: str) -> Callable[..., int]:
        function = getattr(self._library, name)
        kind = _HANDLE_GIVERS.get(name)

        def call(*arguments: Any) -> int:
            written = " ".join([name, *map(self._written, arguments)]) if self.on else ""
            code: int = function(*arguments)
            if written:
                self.calls.append(written)
                self.refused += code != 0
            if kind is not None and code == 0:
                self._name(kind, arguments)
            return code

        return call

    def _name(self, kind: str, arguments: tuple[Any, ...]) -> None:
        place = self._given.setdefault(kind, 0)
        self._given[kind] = place + 1
        if kind == "d":
            place = arguments[0].value
        self._names[_address(arguments[-1]._obj)] = f"{kind}{place}"

    def _written(self, argument: Any) -> str:
        """A number, the name of a pointer, or a buffer with its content and the names of pointers in it."""
        if argument is None:
            return "0"
        if isinstance(argument, int):
            return str(argument)
        buffer = getattr(argument, "_obj", argument)  # what byref() was given
        if buffer is argument and isinstance(argument, ctypes._SimpleCData):
            return str(argument.value)
        if buffer is argument and isinstance(argument, ctypes._Pointer):
            return self._names[_address(argument)]
        content = bytes(buffer)
        named = "".join(f"@{place}:{name}" for place, name in self._named_words(content))
        return f"b{content.hex()}{named}"

    def _named_words(self, content: bytes) -> Iterator[tuple[int, str]]:
        for place in range(0, len(content) - 7, 8):
            name = self._names.get(int.from_bytes(content[place : place + 8], "little"))
            if name is not None:
                yield place, name


def _address(pointer: Any) -> int:
    return ctypes.cast(pointer, ctypes.c_void_p).value or 0


def record(library: str) -> Recorder:
    """Who took down the calls of PASSES collections, after the ones that only the first makes."""
    recorders: list[Recorder] = []
    loaded: list[tuple[Any, Any]] = []  # bindings with the library itself, which alone can be unloaded

    def load_recorded(place: str, spare: Any) -> Any:
        binding = load_binding(place, spare)
        loaded.append((binding, binding.nvmlLib))
        recorders.append(Recorder(binding.nvmlLib))
        binding.nvmlLib = recorders[-1]
        return binding

    with mock.patch("accelscope.vendors.nvidia.reader.load_binding", load_recorded):
        source = NvmlSource(ReaderOptions(settings={"nvml_library": library}))
        for number in range(2 * PASSES):
            if recorders:
                recorders[-1].on = number >= PASSES
            for key in source.survey().keys:
                source.read(key)
        [(binding, itself)] = loaded
        binding.nvmlLib = itself
        source.close()
    [recorder] = recorders
    return recorder
