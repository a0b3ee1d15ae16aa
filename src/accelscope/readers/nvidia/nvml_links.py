"""NVLink through NVML: state, traffic and errors of each link."""

from collections.abc import Mapping
from typing import Any

from accelscope.model import Link, LinkErrors, pci_address
from accelscope.readers.nvidia.nvml_ask import Ask

THROUGHPUT_DATA_TX = 138  # field numbers of nvml.h; KiB, scope = link
THROUGHPUT_DATA_RX = 139
SPEED_MBPS_COMMON = 90
_MOST_LINKS = 18
_ERROR_COUNTERS = {0: "dl_replay", 1: "dl_recovery", 2: "crc_flit", 3: "crc_data"}
_KIB = 1024


class Links:
    def __init__(self, handle: Any, ask: Ask) -> None:
        self._handle = handle
        self._ask = ask
        self._remotes: dict[int, str | None] = {}

    def indices(self) -> tuple[tuple[int, bool], ...]:
        """Each link that the card has, and whether it is active."""
        states = []
        for index in range(_MOST_LINKS):
            state = self._ask(
                "links" if index == 0 else f"links.{index}", "nvmlDeviceGetNvLinkState", self._handle, index
            )
            if state is None:
                if index:
                    self._ask.forget(f"links.{index}")  # the end of the list, not a missing value
                break
            states.append((index, bool(state)))
        return tuple(states)

    def read(
        self, states: tuple[tuple[int, bool], ...], fields: Mapping[tuple[int, int], float]
    ) -> tuple[Link, ...]:
        """`fields` holds what one batched call answered, by (field number, link)."""
        speed = fields.get((SPEED_MBPS_COMMON, 0))
        links = []
        for index, active in states:
            transmitted = fields.get((THROUGHPUT_DATA_TX, index))
            received = fields.get((THROUGHPUT_DATA_RX, index))
            links.append(
                Link(
                    "nvlink",
                    index,
                    active=active,
                    remote=self._remote(index) if active else None,
                    bytes_per_second=speed * 1e6 if speed and active else None,
                    transmit_bytes_total=None if transmitted is None else transmitted * _KIB,
                    receive_bytes_total=None if received is None else received * _KIB,
                    errors=self._errors(index) if active else (),
                )
            )
        return tuple(links)

    def _remote(self, index: int) -> str | None:
        if index not in self._remotes:
            info = self._ask(f"links.{index}.remote", "nvmlDeviceGetNvLinkRemotePciInfo", self._handle, index)
            self._remotes[index] = None if info is None else pci_address(_text(info.busId))
        return self._remotes[index]

    def _errors(self, index: int) -> tuple[LinkErrors, ...]:
        counted = []
        for counter, name in _ERROR_COUNTERS.items():
            # One field for all links: a card has this counter or has it not.
            count = self._ask(
                f"links.errors.{name}", "nvmlDeviceGetNvLinkErrorCounter", self._handle, index, counter
            )
            if count is not None:
                counted.append(LinkErrors(name, count))
        return tuple(counted)


def _text(value: str | bytes) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else value
