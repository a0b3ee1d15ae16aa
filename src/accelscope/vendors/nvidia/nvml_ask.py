"""Asking NVML one value at a time, so that a value one driver does not know costs that value only."""

import time
from collections.abc import Callable
from typing import Any

from accelscope.model import Absence, AbsenceReason
from accelscope.vendors.common.contract import DeviceLost
from accelscope.vendors.nvidia.nvml_binding import absence

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
