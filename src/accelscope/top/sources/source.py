"""What every source of views is."""

from dataclasses import dataclass
from typing import Protocol

from accelscope.top.view.shown import Kind, View


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is looked at. Sources of few nodes give all they have; a fleet gives what is asked for."""

    node: tuple[str, str] | None = None  # cluster and node; None: the overview
    cluster: str | None = None  # of the overview: nodes of this cluster only
    sort: str = ""  # of the overview's nodes, as the fleet's API spells it; empty: what matters first
    text: str = ""  # that is found in a node
    page: int = 0


class Source(Protocol):
    """`read` is called by one thread, which it may keep waiting for as long as its timeouts say."""

    kind: Kind
    title: str

    def start(self) -> None: ...

    def read(self, question: Question) -> View:
        """What is known now. Never raises for what is wrong at the other end: the view says it."""

    def settle(self) -> None:
        """For those who look once: wait, within reason, for what needs two readings or comes later."""

    def hurry(self, interval_seconds: float) -> None:
        """How often `read` will be called."""

    def stop(self) -> None: ...
