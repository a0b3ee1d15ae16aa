"""`accelscope top` in real terminals: tmux sessions whose screens are compared with stored ones.

    UPDATE_GOLDEN=1 make test ARGS=tests/top/test_terminal.py

writes them anew. Times are masked; what is shown stands still.
"""

import contextlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.top.still_node import settings_file
from tests.top.stub_agent import stored, stub_agent
from tests.waiting import wait_until

SCREENS = Path(__file__).parent / "screens"
UPDATE = bool(os.environ.get("UPDATE_GOLDEN"))

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="no tmux on PATH: apt install tmux")


SOCKET = Path(tempfile.gettempdir()) / f"accelscope-tmux-{os.getpid()}"  # of a server of our own


def tmux(*words: str) -> str:
    command = ["tmux", "-S", str(SOCKET), "-f", "/dev/null", *words]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


class Session:
    """A terminal of its own, in which the command runs."""

    def __init__(
        self,
        name: str,
        size: tuple[int, int],
        words: list[str],
        *,
        shell: list[str] | None = None,
        **environ: str,
    ) -> None:
        """In an interactive shell where one is given, else as the only command."""
        self.name = name
        self._masked: list[tuple[str, str]] = []
        given = {"LC_ALL": "C.UTF-8", "TERM": "screen-256color", **environ}
        variables = [f"{key}={value}" for key, value in given.items() if value]
        unset = [word for key, value in given.items() if not value for word in ("-u", key)]
        command = [
            "env",
            *unset,
            "-u",
            "COLUMNS",
            "-u",
            "LINES",
            *variables,
            sys.executable,
            "-m",
            "accelscope",
            "top",
            *words,
        ]
        alone = f"{shlex.join(command)}; echo ended with $?; exec sleep 600"
        started = alone if shell is None else shlex.join(shell)
        tmux("-u", "new-session", "-d", "-s", name, "-x", str(size[0]), "-y", str(size[1]), started)
        if shell is not None:
            self.press("-l", shlex.join(command))
            self.press("Enter")

    def mask(self, text: str, mask: str) -> None:
        self._masked.append((text, mask.ljust(len(text))[: len(text)]))

    def press(self, *keys: str) -> None:
        tmux("send-keys", "-t", f"={self.name}:", *keys)

    def screen(self, *, codes: bool = False) -> str:
        shown = tmux("capture-pane", "-p", *(["-e"] if codes else []), "-t", f"={self.name}:")
        shown = re.sub(r"\d\d:\d\d:\d\d", "HH:MM:SS", shown)
        for text, mask in self._masked:
            shown = shown.replace(text, mask)
        return shown

    def until(self, condition: Callable[[str], bool], what: str) -> str:
        seen = [""]

        def fulfilled() -> bool:
            seen[0] = self.screen()
            return condition(seen[0])

        try:
            wait_until(fulfilled, what)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{seen[0]}") from None
        return seen[0]


Open = Callable[..., Session]


@pytest.fixture(scope="module")
def agents() -> Iterator[list[str]]:
    """Three that always say the same; the fourth does not answer."""
    with ExitStack() as stack:
        found = [
            stack.enter_context(stub_agent(stored(name))) for name in ("nvidia-sick", "nvidia-mig", "mixed")
        ]
        yield [*(agent.url for agent in found), "http://127.0.0.1:1"]


@pytest.fixture(scope="module")
def shared_node(tmp_path_factory: pytest.TempPathFactory, native_cache: Path) -> str:
    folder = tmp_path_factory.mktemp("node")
    passwd = folder / "passwd"
    passwd.write_text("root:x:0:0::/root:/bin/sh\nalice:x:1000:1000::/home/alice:/bin/sh\n")
    more = {"node_name": "node-7", "passwd_file": str(passwd)}
    return settings_file("nvidia-shared", 60.0, folder, native_cache, **more)


@pytest.fixture(scope="module")
def terminals() -> Iterator[None]:
    """A server of tmux with a session that nobody uses: without any it would end between two tests."""
    tmux("new-session", "-d", "-s", "rests", "exec sleep 600")
    yield
    tmux("kill-server")
    SOCKET.unlink(missing_ok=True)  # which tmux leaves behind


@pytest.fixture
def opened(agents: list[str], terminals: None) -> Iterator[Open]:
    names: list[str] = []

    def open_session(size: tuple[int, int], words: list[str], **more: Any) -> Session:
        session = Session(f"s{len(names)}", size, words, **more)
        names.append(session.name)
        for number, url in enumerate(agents):
            session.mask(url, f"http://agent-{number}:9400")
        return session

    yield open_session
    for name in names:
        tmux("kill-session", "-t", f"={name}")


def compare(name: str, session: Session, condition: Callable[[str], bool], what: str) -> None:
    """Until the screen is the stored one: a screen on which `condition` holds may be half drawn."""
    path = SCREENS / f"{name}.txt"
    if UPDATE:
        drawn = masked(session.until(condition, what))
        while drawn != (drawn := masked(session.screen())):
            time.sleep(0.5)
        path.write_text(drawn)
    expected = path.read_text()
    seen = ""

    def is_expected(screen: str) -> bool:
        nonlocal seen
        seen = masked(screen)
        return seen == expected

    with contextlib.suppress(AssertionError):  # the comparison below shows what is different
        session.until(is_expected, what)
    assert seen == expected


def masked(screen: str) -> str:
    """Trends grow with every reading, ages too; run times are since a fixed date."""
    shown = re.sub(r"(?<=\s)[▁▂▃▄▅▆▇█]+(?=\s)", lambda m: " " * len(m[0]), screen)
    shown = re.sub(r"\b\d+s old", "Ns old", shown)
    shown = re.sub(r"\b\d+d(?=\s)", lambda m: "D".rjust(len(m[0])), shown)
    return "\n".join(line.rstrip() for line in shown.splitlines()).rstrip() + "\n"


def is_drawn(screen: str) -> bool:
    """With an answer, not before it."""
    return "q quit" in screen and "processes" in screen and "no data yet" not in screen


def test_80_by_24(opened: Open, agents: list[str]) -> None:
    session = opened((80, 24), [agents[0]])
    compare("agent-80x24", session, is_drawn, "the screen is drawn")
    session.press("t")
    compare("agent-80x24-tree", session, lambda screen: "by pod" in screen, "the tree")
    session.press("/")
    session.press("-l", "nobody")
    compare("agent-80x24-filter", session, lambda screen: "no process matches" in screen, "the filter")
    session.press("Escape")
    session.until(lambda screen: "by pod" in screen and "q quit" in screen, "the filter is taken back")
    session.press("?")
    compare("help-80x24", session, lambda screen: "keys and states" in screen, "help")
    session.press("q")
    session.until(is_drawn, "help is closed")
    session.press("q")
    session.until(lambda screen: "ended with 0" in screen, "it ends and leaves the terminal as it was")


def test_200_by_50_with_a_silent_agent(opened: Open, agents: list[str]) -> None:
    session = opened((200, 50), agents)
    compare("agents-200x50", session, lambda screen: "15 devices" in screen, "all but one have answered")


def test_vt100_and_ascii_locale(opened: Open, agents: list[str]) -> None:
    session = opened((80, 24), [agents[0]], TERM="vt100", LC_ALL="C")
    compare("agent-vt100-ascii", session, is_drawn, "the screen is drawn")
    assert session.screen().isascii()
    codes = session.screen(codes=True)
    assert re.search(r"\x1b\[[0-9;]*\b(3[0-7]|4[0-7]|38|48|9[0-7])\b[0-9;]*m", codes) is None, "no colours"
    assert "\x1b[1;7m" in codes, "what is bad still stands out"


def test_no_color(opened: Open, agents: list[str]) -> None:
    session = opened((80, 24), [agents[0]], NO_COLOR="1")
    session.until(is_drawn, "the screen is drawn")
    assert re.search(r"\x1b\[[0-9;]*\b(3[0-7]|4[0-7])\b[0-9;]*m", session.screen(codes=True)) is None
    coloured = opened((80, 24), [agents[0]])
    coloured.until(is_drawn, "the screen is drawn")
    red = re.compile(r"\x1b\[31m|\x1b\[[0-9;]*;31m")
    wait_until(lambda: red.search(coloured.screen(codes=True)), "what is bad is red")


def test_this_node(opened: Open, shared_node: str) -> None:
    session = opened((100, 30), ["--config-file", shared_node, "--interval", "1"])
    told = re.compile(r" 0% +\d[\d.]*[GM] +\d+d ")  # CPU is measured between two readings
    compare(
        "this-node-100x30",
        session,
        lambda screen: is_drawn(screen) and bool(told.search(screen)),
        "CPU and run time",
    )
    session.press("k")
    session.until(lambda screen: "no signal sent: the processes are read from" in screen, "a refusal")


def test_dumb_terminal_gets_one_table_after_the_other(opened: Open, agents: list[str]) -> None:
    session = opened((80, 50), [agents[1], "--interval", "0.3"], TERM="dumb")
    session.until(lambda screen: screen.count("accelscope top") >= 2, "two tables")
    session.press("C-c")
    session.until(lambda screen: "ended with 130" in screen, "Ctrl-C ends it")


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash on PATH, whose job control is used")
def test_ctrl_z_gives_the_terminal_back_to_the_shell_and_fg_returns(opened: Open, agents: list[str]) -> None:
    session = opened((80, 24), [agents[0]], shell=["bash", "--norc", "--noprofile", "-i"])
    session.until(is_drawn, "the screen is drawn")
    session.press("C-z")
    shown = session.until(lambda screen: "Stopped" in screen, "it is suspended")
    assert "q quit" not in shown
    session.press("-l", "echo $((40 + 2)) and on")
    session.press("Enter")
    session.until(lambda screen: "42 and on" in screen, "the shell has the terminal")
    session.press("-l", "fg")
    session.press("Enter")
    session.until(lambda screen: is_drawn(screen) and "42 and on" not in screen, "it is back")
    session.press("?")
    session.until(lambda screen: "keys and states" in screen, "and takes keys")
    session.press("q")
    session.until(is_drawn, "help is closed")
    session.press("q")
    session.until(lambda screen: "42 and on" in screen, "it ends")


def test_terminal_is_left_as_it_was_by_a_signal(opened: Open, agents: list[str]) -> None:
    session = opened((80, 24), [agents[1]])
    session.until(is_drawn, "the screen is drawn")
    session.press("C-c")
    shown = session.until(lambda screen: "ended with" in screen, "Ctrl-C ends it")
    assert "processes" not in shown
