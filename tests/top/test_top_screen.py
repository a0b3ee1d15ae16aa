"""Keys and mouse on the real application, without a terminal."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest
from tests.top.views import GIB, NOW, StillSource, device, node, process, view
from tests.waiting import PATIENCE_SECONDS
from textual.events import Key
from textual.pilot import Pilot

from accelscope.model import OwnerKind
from accelscope.top.screen.app import TopApp
from accelscope.top.screen.board import Lines, ScreenTable
from accelscope.top.sources.source import Query
from accelscope.top.view.frame import Choices
from accelscope.top.view.model import ClusterSums, NodeSums, Overview, Sums, View, ViewKind, sums_of
from accelscope.top.view.table import plain
from accelscope.top.view.text import ASCII

POD = {"namespace": "research", "pod": "train-0", "container": "torch", "owner_kind": OwnerKind.POD}
NODE = node(
    [device(0, utilization_ratio=0.9, temperature_celsius=50.0), device(1, temperature_celsius=95.0)],
    [
        process(10, 0, name="vllm", user="alice", memory=4 * GIB),
        process(11, 1, name="torchrun", user="bob", memory=6 * GIB, **POD),
        process(12, 1, name="[red]bold[/]", user="\x1b[31mcarol", memory=1 * GIB),
    ],
)

Play = Callable[[Pilot[None], TopApp], Awaitable[None]]


def play(source: StillSource, steps: Play, size: tuple[int, int] = (100, 30), **choices: Any) -> None:
    async def run() -> None:
        app = TopApp(source, Query(), Choices(**choices), glyphs=ASCII, interval_seconds=0.5)
        async with app.run_test(size=size) as pilot:
            await until(pilot, lambda: app.view is not None, "the first view")
            await steps(pilot, app)

    asyncio.run(run())


async def until(pilot: Pilot[None], condition: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < end, f"waited in vain: {what}"
        await pilot.pause(0.02)


def lower(app: TopApp) -> ScreenTable:
    return app.screen_stack[0].query_one("#lower", ScreenTable)


def upper(app: TopApp) -> ScreenTable:
    return app.screen_stack[0].query_one("#upper", ScreenTable)


def shown(app: TopApp) -> View:
    assert app.view is not None
    return app.view


def pids(app: TopApp) -> list[int | None]:
    return [row.pid for row in lower(app).pane.rows]


def text_of(app: TopApp) -> str:
    """What the whole screen shows."""
    width, height = app.size
    strips = app.screen._compositor.render_strips(app.size)
    assert len(strips) == height
    return "\n".join(strip.text[:width].rstrip() for strip in strips)


def said(app: TopApp) -> str:
    return "\n".join(plain(line) for line in app.screen_stack[0].query_one("#keys", Lines).lines)


def test_screen_shows_devices_processes_and_what_is_wrong() -> None:
    async def steps(pilot: Pilot[None], app: TopApp) -> None:
        await pilot.pause()
        shown = text_of(app)
        assert "device 1 H100 80GB HBM3: HOT 95C" in shown
        assert "devices 2" in shown
        assert "research/train-0/torch" in shown
        assert "[red]bold[/]" in shown, "markup is text"
        assert "?[31mcarol" in shown, "escape codes are text"
        assert "\x1b" not in shown
        assert shown.isascii()

    play(StillSource(view(NODE)), steps)


def test_sort_by_key_and_by_click_shows_in_the_title() -> None:
    async def steps(pilot: Pilot[None], app: TopApp) -> None:
        assert pids(app) == [11, 10, 12]
        await pilot.press("r")
        assert pids(app) == [12, 10, 11]
        await pilot.press("S")
        assert "dev^" in plain_title(app)
        await pilot.press("s")
        assert "dev.memv" in plain_title(app)
        at = plain_title(app).index("pid")
        await pilot.click("#lower", offset=(at + 1, 1))
        assert pids(app) == [10, 11, 12]
        assert "pid^" in plain_title(app)
        await pilot.click("#lower", offset=(at + 1, 1))
        assert pids(app) == [12, 11, 10]
        assert "pidv" in plain_title(app)

    play(StillSource(view(NODE)), steps)


def test_filter_has_the_keys_at_once() -> None:
    """Whoever types fast, or over a slow line, has sent the words before the screen is drawn anew."""

    async def steps(pilot: Pilot[None], app: TopApp) -> None:
        for letter in "/train-0/":  # all of them wait already when the first is looked at
            app.post_message(Key({"/": "slash", "-": "minus"}.get(letter, letter), letter))
        await until(
            pilot, lambda: app.choices.text == "train-0/", "every letter but the first is the filter's"
        )
        assert pids(app) == [11]
        assert app.interval_seconds == 0.5, "the minus too"

    play(StillSource(view(NODE)), steps)


def plain_title(app: TopApp) -> str:
    return lower(app).render_line(1).text


def test_filter_is_typed_kept_and_cleared() -> None:
    async def steps(pilot: Pilot[None], app: TopApp) -> None:
        await pilot.press("slash", *"bob")
        await until(pilot, lambda: pids(app) == [11], "the filter works while it is typed")
        await pilot.press("enter")
        assert "filter: bob" in said(app)
        assert [row.device.index for row in upper(app).pane.rows] == [1]
        await pilot.press("escape")
        assert pids(app) == [11, 10, 12]
        await pilot.press("slash", *"quit", "escape")
        assert app.choices.text == ""
        assert app.is_running

    play(StillSource(view(NODE)), steps)


def test_processes_follow_the_devices_that_are_chosen() -> None:
    async def steps(pilot: Pilot[None], app: TopApp) -> None:
        await pilot.press("tab")
        assert upper(app).has_focus
        await pilot.press("down", "space")
        assert pids(app) == [11, 12]
        await pilot.press("up", "space")
        assert pids(app) == [11, 10, 12]
        await pilot.press("enter")
        assert pids(app) == [10], "this device alone"
        await pilot.press("escape")
        assert pids(app) == [11, 10, 12]
        await pilot.click("#upper", offset=(5, 3))
        await pilot.click("#upper", offset=(5, 3))
        assert pids(app) == [11, 12], "a second click chooses"

    play(StillSource(view(NODE)), steps)


def test_tree_goes_round_and_groups_fold() -> None:
    async def steps(pilot: Pilot[None], app: TopApp) -> None:
        await pilot.press("t")
        labels = [row.label for row in lower(app).pane.rows]
        assert labels[:3] == ["research/train-0", "torch", "torchrun"]
        await pilot.press("home", "enter")
        assert [row.label for row in lower(app).pane.rows][0:2] != labels[0:2]
        assert lower(app).pane.rows[0].folded
        await pilot.press("enter", "t")
        assert "by device" in lower(app).pane.title
        await pilot.press("t")
        assert pids(app) == [11, 10, 12]

    play(StillSource(view(NODE)), steps)


def test_pause_holds_readings_and_the_pace_can_be_changed() -> None:
    source = StillSource(view(NODE))

    async def steps(pilot: Pilot[None], app: TopApp) -> None:
        await until(pilot, lambda: len(source.questions) >= 2, "it is read again by itself")
        await pilot.press("p")
        await pilot.pause(0.1)
        count = len(source.questions)
        assert "PAUSED" in text_of(app)
        await pilot.pause(1.0)
        assert len(source.questions) <= count + 1
        count = len(source.questions)
        await pilot.press("f5")
        await until(pilot, lambda: len(source.questions) == count + 1, "what is asked for by hand is read")
        await pilot.press("p", "plus", "plus")
        assert app.interval_seconds == 2.0
        await pilot.press("minus", "minus", "minus", "minus")
        assert app.interval_seconds == 0.5
        await until(pilot, lambda: len(source.questions) > count + 1, "it goes on")
        assert source.intervals[-1] == 0.5

    play(source, steps)


def test_reading_that_hangs_does_not_hang_the_screen() -> None:
    answers = iter([view(NODE)])
    hangs, enough, over = threading.Event(), threading.Event(), threading.Event()

    def slow(_: Query) -> View:
        known = next(answers, None)
        if known is None:
            hangs.set()
            enough.wait(PATIENCE_SECONDS)
            over.set()
        return known or view(NODE)

    async def steps(pilot: Pilot[None], app: TopApp) -> None:
        await pilot.press("f5")
        await until(pilot, hangs.is_set, "the reading that hangs")
        await pilot.press("t")
        assert "by pod" in lower(app).pane.title
        assert not over.is_set()
        enough.set()

    play(StillSource(slow), steps)


def test_help_and_alerts_open_and_close() -> None:
    async def steps(pilot: Pilot[None], app: TopApp) -> None:
        await pilot.press("question_mark")
        await pilot.pause()
        assert "keys and states" in text_of(app)
        await pilot.press("escape", "exclamation_mark")
        await pilot.pause()
        assert "Problems, the worst first" in text_of(app)
        assert "HOT 95C" in text_of(app)
        await pilot.press("escape")
        await pilot.pause()
        assert "processes 3" in text_of(app)

    play(StillSource(view(NODE)), steps, size=(80, 24))


@pytest.mark.parametrize("size", [(20, 6), (40, 10), (80, 24), (200, 50)])
def test_every_size_is_drawn(size: tuple[int, int]) -> None:
    async def steps(pilot: Pilot[None], app: TopApp) -> None:
        await pilot.pause()
        for line in text_of(app).split("\n"):
            assert len(line) <= size[0]
        await pilot.resize_terminal(60, 20)
        await pilot.pause()
        assert "torchrun" in text_of(app)

    play(StillSource(view(NODE)), steps, size=size)


def own(pid: int, **values: Any) -> View:
    return replace(
        view(node([device(0)], [process(pid, 0, name="sleeper", user="me", **values)])), at=time.time()
    )


def test_own_process_gets_a_signal_after_the_question() -> None:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as child:

        async def steps(pilot: Pilot[None], app: TopApp) -> None:
            await pilot.press("k")
            await pilot.pause()
            query = text_of(app)
            assert f"Send SIGTERM to {child.pid}" in query
            await pilot.press("n")
            assert "no signal sent" in said(app)
            assert child.poll() is None
            await pilot.press("k", "down")
            await pilot.pause()
            assert "Send SIGINT" in text_of(app)
            await pilot.press("9")
            await pilot.pause()
            assert "Send SIGKILL" in text_of(app)
            await pilot.press("y")
            await until(pilot, lambda: child.poll() is not None, "the child ends")
            assert f"SIGKILL sent to {child.pid}" in said(app)

        play(StillSource(lambda _: own(child.pid)), steps)
        assert child.returncode == -signal.SIGKILL


def test_processes_elsewhere_and_gone_get_none() -> None:
    async def elsewhere(pilot: Pilot[None], app: TopApp) -> None:
        await pilot.press("k")
        assert "no signal sent: the process is on another machine" in said(app)
        assert len(app.screen_stack) == 1

    play(StillSource(lambda _: own(os.getpid()), kind=ViewKind.AGENTS), elsewhere)

    async def gone(pilot: Pilot[None], app: TopApp) -> None:
        await pilot.press("k")
        assert "no signal sent" in said(app)
        assert len(app.screen_stack) == 1

    play(StillSource(lambda _: own(2**22 - 1)), gone)


def fleet(query: Query) -> View:
    if query.node is not None:
        cluster, name = query.node
        return view(replace(NODE, name=name, cluster=cluster), kind=ViewKind.FLEET, title="fleet")
    names = [f"n{query.page * 2 + i}" for i in range(2)]
    return View(
        kind=ViewKind.FLEET,
        title="fleet",
        at=NOW,
        overview=Overview(
            sums=Sums(nodes=6, devices=12),
            clusters=tuple(
                ClusterSums(key=key, sums=Sums(nodes=3, devices=6), reachable=key != "rome")
                for key in ("berlin", "rome")
            ),
            nodes=tuple(
                NodeSums(
                    key=f"berlin/{name}", cluster="berlin", node=name, state="fresh", sums=Sums(devices=2)
                )
                for name in names
            ),
            nodes_total=6,
            page=query.page,
            has_next=query.page < 2,
            troubles=("rome: unreachable",),
        ),
    )


def test_fleet_turns_pages_opens_a_node_and_comes_back() -> None:
    source = StillSource(fleet, kind=ViewKind.FLEET)

    async def steps(pilot: Pilot[None], app: TopApp) -> None:
        await pilot.pause()
        assert "unreachable" in text_of(app)
        await pilot.press("right_square_bracket")
        await until(pilot, lambda: lower(app).pane.entries[0].key == "berlin/n2", "the second page")
        await pilot.press("down", "enter")
        await until(pilot, lambda: lower(app).pane.name == "processes", "the node")
        assert source.questions[-1].node == ("berlin", "n3")
        assert pids(app) == [11, 10, 12]
        await pilot.press("escape")
        await until(pilot, lambda: lower(app).pane.name == "nodes", "the overview")
        assert source.questions[-1].page == 1
        await pilot.press("slash", *"n4", "enter")
        await until(pilot, lambda: source.questions[-1].text == "n4", "the fleet is asked for the words")
        assert source.questions[-1].page == 0
        await pilot.press("escape", "s")
        await until(pilot, lambda: source.questions[-1].sort != "", "the fleet sorts")
        await pilot.press("tab", "home", "enter")
        await until(pilot, lambda: source.questions[-1].cluster == "berlin", "one cluster's nodes")

    play(source, steps)


def test_fleet_whose_list_became_shorter_goes_on_with_the_last_page() -> None:
    state = {"devices": 0, "shorter": False}

    def shrinking(query: Query) -> View:
        state["devices"] += 1
        found = fleet(replace(query, page=0) if state["shorter"] else query)
        assert found.overview is not None
        return replace(found, overview=replace(found.overview, sums=Sums(devices=state["devices"])))

    async def steps(pilot: Pilot[None], app: TopApp) -> None:
        await pilot.press("right_square_bracket")
        await until(pilot, lambda: lower(app).pane.entries[0].key == "berlin/n2", "the second page")
        state["shorter"] = True
        await until(pilot, lambda: lower(app).pane.entries[0].key == "berlin/n0", "the first page")
        seen = state["devices"]
        await until(pilot, lambda: (sums_of(shown(app)).devices or 0) > seen + 1, "what is read after it")

    play(StillSource(shrinking, kind=ViewKind.FLEET), steps)


def test_cursor_stays_on_its_process_when_the_order_changes() -> None:
    def moving(_: Query, count: list[int] = [0]) -> View:  # noqa: B006 - counts its calls
        count[0] += 1
        first, second, third = NODE.processes
        return view(replace(NODE, processes=(first, second, third) if count[0] < 2 else (third, first)))

    async def steps(pilot: Pilot[None], app: TopApp) -> None:
        await pilot.press("end")
        assert lower(app).cursor_key == "n 12"
        await until(pilot, lambda: len(pids(app)) == 2, "one has ended")
        assert lower(app).cursor_key == "n 12"
        await pilot.press("up")
        assert lower(app).cursor_key == "n 10"

    play(StillSource(moving), steps)


@pytest.mark.parametrize("keys", [(), ("end", "home")])
def test_cursor_that_nobody_moved_stays_on_the_first_row(keys: tuple[str, ...]) -> None:
    """So that a screen that is only watched does not scroll away with what was worst and is well again."""
    state = {"grown": False}

    def growing(_: Query) -> View:
        most = 20 if state["grown"] else 1
        processes = [process(pid, 0, memory=pid * GIB) for pid in range(10, 10 + 2 * most)]
        return view(replace(NODE, processes=tuple(processes)))

    async def steps(pilot: Pilot[None], app: TopApp) -> None:
        await pilot.press(*keys)
        assert lower(app).cursor_key == "n 11"
        state["grown"] = True
        await until(pilot, lambda: len(pids(app)) == 40, "many more, and larger ones")
        assert lower(app).cursor_key == "n 49"
        assert lower(app).render_line(2).text.split()[0] == "49"

    play(StillSource(growing), steps)
