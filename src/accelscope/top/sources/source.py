"""What every source of views is."""

import time
from dataclasses import dataclass
from typing import Protocol

from accelscope.top.view.shown import Kind, Overview, Sums, View


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

    def refresh(self) -> None:
        """The next `read` is to tell what is so now: what was known before is not enough."""

    def stop(self) -> None: ...


def look(source: Source, question: Question) -> View:
    """What the source reads; where that fails by a fault of ours, a view that says so. The next one may be
    well again."""
    try:
        return source.read(question)
    except Exception as fault:  # noqa: BLE001 - it is shown, and costs this view only
        overview = question.node is None and source.kind is Kind.FLEET
        return View(
            kind=source.kind,
            title=source.title,
            at=time.time(),
            overview=Overview(sums=Sums()) if overview else None,
            error=f"a fault of accelscope top itself: {type(fault).__name__}: {fault}",
        )
