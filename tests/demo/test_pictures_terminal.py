"""A terminal's screen as HTML: what a picture of it shows."""

import re
import shutil
from pathlib import Path

import pytest
from tools.demo.pictures.terminal import as_html, plain, terminal


def spans(screen: str) -> list[tuple[str, str]]:
    """Style and text of each piece."""
    body = as_html(screen, "title").partition("<pre>")[2]
    return re.findall(r'<span style="([^"]*)">([^<]*)</span>', body)


@pytest.mark.parametrize(
    ("codes", "style"),
    [
        ("1", "font-weight:700"),
        ("3", "font-style:italic"),
        ("4", "text-decoration:underline"),
        ("31", "color:#e06c75"),
        ("94", "color:#7cc0fa"),
        ("41", "background:#e06c75"),
        ("38;2;1;2;3", "color:rgb(1,2,3)"),
        ("48;2;1;2;3", "background:rgb(1,2,3)"),
        ("38;5;9", "color:#ef7f88"),
        ("38;5;16", "color:rgb(0,0,0)"),
        ("38;5;231", "color:rgb(255,255,255)"),
        ("38;5;244", "color:rgb(128,128,128)"),
        ("38;2;1;2;3;7", "background:rgb(1,2,3)"),
        ("1;38;5;16;4", "text-decoration:underline"),
    ],
)
def test_a_code_changes_what_follows_until_it_is_taken_back(codes: str, style: str) -> None:
    before, changed, after = spans(f"a\x1b[{codes}mb\x1b[0mc")
    assert style in changed[0].split(";")
    assert before[0] == after[0]
    assert (before[1], changed[1], after[1]) == ("a", "b", "c")


def test_text_stays_text() -> None:
    page = as_html("<b>&", "<i>")
    assert "<b>" not in page
    assert "<i>" not in page
    assert "&lt;b&gt;&amp;" in page


def test_codes_are_no_part_of_the_text() -> None:
    assert plain("\x1b[1;31ma\x1b[mb\x1b]8;;x\x1b\\c\x0f") == "abc"


@pytest.mark.skipif(shutil.which("tmux") is None, reason="no tmux on PATH: apt install tmux")
def test_a_program_runs_in_a_terminal_of_its_own(tmp_path: Path) -> None:
    command = ("sh", "-c", "printf '\\033[38;2;9;8;7mcoloured\\033[0m'; sleep 60")
    with terminal(tmp_path, command, columns=40, lines=5) as shown:
        shown.wait_for("coloured")
        [(style, _)] = [span for span in spans(shown.screen()) if span[1].strip() == "coloured"]
    assert "color:rgb(9,8,7)" in style
