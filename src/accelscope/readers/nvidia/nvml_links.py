"""NVLink through NVML: state, traffic and errors of each link."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from accelscope.model import Link, LinkErrors, pci_address
from accelscope.readers.nvidia.nvml_ask import PASSING, Ask
from accelscope.readers.nvidia.nvml_binding import text_of

# Field numbers of nvml.h; the scope is the link. All of them come with the device's one batched call.
_TRANSMIT_KIB = 138
_RECEIVE_KIB = 139
_STATE = 165
_ERROR_FIELDS = {161: "dl_replay", 162: "dl_recovery", 163: "dl_crc"}
_SPEED_MBPS = 90  # of the device's links, without a scope
# Cards before Hopper know these counters only, each with a call of its own.
_ERROR_COUNTERS = {0: "dl_replay", 1: "dl_recovery", 2: "crc_flit", 3: "crc_data"}
_MOST_LINKS = 36  # that a newer nvml.h knows; a driver that knows fewer says so
_ACTIVE = 1
_KIB = 1024


class Links:
    def __init__(self, handle: Any, ask: Ask) -> None:
        self._handle = handle
        self._ask = ask
        self._count: int | None = None
        self._remotes: dict[int, str | None] = {}
        self._last: dict[int, Link] = {}  # while it was up: counters must not fall when a link goes down

    def wanted_fields(self) -> list[tuple[int, int]]:
        """(field number, scope) of what `read` takes from the batched call."""
        if self._count is None:
            self._count = self._count_links()  # None again: for now it cannot be known
        if not self._count:
            return []
        per_link = (_STATE, _TRANSMIT_KIB, _RECEIVE_KIB, *_ERROR_FIELDS)
        return [(_SPEED_MBPS, 0), *((number, link) for link in range(self._count) for number in per_link)]

    def read(self, fields: Mapping[tuple[int, int], float]) -> tuple[Link, ...]:
        return tuple(self._link(index, fields) for index in range(self._count or 0))

    def _count_links(self) -> int | None:
        """How many links the card has does not change while its driver is loaded."""
        for index in range(_MOST_LINKS):
            if self._state(index) is None:
                why_not = self._ask.forget(f"links.{index}")
                if why_not in PASSING:
                    self._ask.miss("links", why_not)
                    return None
                return index  # the end of the list
        return _MOST_LINKS

    def _state(self, index: int) -> int | None:
        state: int | None = self._ask(f"links.{index}", "nvmlDeviceGetNvLinkState", self._handle, index)
        return state

    def _link(self, index: int, fields: Mapping[tuple[int, int], float]) -> Link:
        state = fields.get((_STATE, index))
        if state is None:
            state = self._state(index)
        if state != _ACTIVE:
            last = self._last.get(index, Link("nvlink", index))
            return replace(last, active=None if state is None else False, bytes_per_second=None)
        speed = fields.get((_SPEED_MBPS, 0))
        transmitted = fields.get((_TRANSMIT_KIB, index))
        received = fields.get((_RECEIVE_KIB, index))
        link = Link(
            "nvlink",
            index,
            active=True,
            remote=self._remote(index),
            bytes_per_second=speed * 1e6 if speed else None,
            transmit_bytes_total=None if transmitted is None else transmitted * _KIB,
            receive_bytes_total=None if received is None else received * _KIB,
            errors=self._errors(index, fields),
        )
        self._last[index] = link
        return link

    def _remote(self, index: int) -> str | None:
        if index not in self._remotes:
            info = self._ask(f"links.{index}.remote", "nvmlDeviceGetNvLinkRemotePciInfo", self._handle, index)
            self._remotes[index] = None if info is None else pci_address(text_of(info.busId))
        return self._remotes[index]

    def _errors(self, index: int, fields: Mapping[tuple[int, int], float]) -> tuple[LinkErrors, ...]:
        told = {name: fields.get((number, index)) for number, name in _ERROR_FIELDS.items()}
        counted = [LinkErrors(name, int(count)) for name, count in told.items() if count is not None]
        if counted:
            return tuple(counted)
        for counter, name in _ERROR_COUNTERS.items():
            # One field for all links: a card has this counter or has it not.
            count = self._ask(
                f"links.errors.{name}", "nvmlDeviceGetNvLinkErrorCounter", self._handle, index, counter
            )
            if count is not None:
                counted.append(LinkErrors(name, count))
        return tuple(counted)
