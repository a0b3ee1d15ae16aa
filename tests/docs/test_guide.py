"""The documentation as one guide: every page is in its table of contents, links lead somewhere, and commands
are such as the program takes. (Those for Kubernetes are also run: tests/deploy, tests/e2e.)"""

import re
import shlex
from collections import Counter
from pathlib import Path

import pytest
from tests.repository import REPOSITORY

from accelscope.cli.main import COMMANDS, make_parser
from accelscope.cli.output import missing

DOCS = REPOSITORY / "docs"
PAGES = [REPOSITORY / "README.md", REPOSITORY / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]
FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")
MADE = re.compile(r"^(<!-- )?(Made|Generated) (from|by) ", re.MULTILINE)
# What ends a command for the shell.
END = {"|", "||", "&&", "&", ";", ">"}


def name(page: Path) -> str:
    return str(page.relative_to(REPOSITORY))


def without_blocks(page: Path) -> str:
    return FENCE.sub("", page.read_text())


def links(page: Path) -> list[str]:
    """Without those to other hosts."""
    return [link for link in LINK.findall(without_blocks(page)) if "://" not in link]


def anchors(page: Path) -> set[str]:
    """Of its titles, as GitHub makes them."""
    found: Counter[str] = Counter()
    made = set()
    for title in re.findall(r"^#+ (.+)$", without_blocks(page), re.MULTILINE):
        text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", title)
        slug = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
        made.add(f"{slug}-{found[slug]}" if found[slug] else slug)
        found[slug] += 1
    return made


def commands(page: Path) -> list[list[str]]:
    """Words of each `accelscope ...` in its blocks."""
    typed = []
    for _, language, text in FENCE.findall(page.read_text()):
        if language in ("sh", "console"):
            prompt = "$ " if language == "console" else ""
            lines = text.replace("\\\n", " ").splitlines()
            typed += [line.strip().removeprefix(prompt) for line in lines if line.strip().startswith(prompt)]
    found = []
    for line in typed:
        words = shlex.split(line, comments=True)
        if "accelscope" in words and not line.startswith(("helm", "docker", "cp", "ln")):
            given = words[words.index("accelscope") + 1 :]
            end = next((at for at, word in enumerate(given) if word in END), len(given))
            found.append(given[:end])
    return [words for words in found if words and words[0] in COMMANDS]


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page: Path) -> None:
    for link in links(page):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        if anchor:
            assert anchor in anchors(target), link


def test_every_page_is_in_the_table_of_contents() -> None:
    contents = DOCS / "README.md"
    listed = {(DOCS / link).resolve() for link in links(contents)}
    assert not set(PAGES) - listed - {contents}


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_blocks_say_what_they_hold(page: Path) -> None:
    for _, language, text in FENCE.findall(page.read_text()):
        assert language, text
        if language == "console":
            assert text.lstrip().startswith("$ "), text


@pytest.mark.parametrize("page", [page for page in PAGES if not MADE.search(page.read_text())], ids=name)
def test_lines_that_people_write_are_not_long(page: Path) -> None:
    for line in without_blocks(page).splitlines():
        assert len(line) <= 125 or line.startswith("|"), line


def test_code_is_where_the_architecture_says() -> None:
    _, _, table = (DOCS / "architecture.md").read_text().partition("## Where is …?")
    rows = re.findall(r"^\| .+? \| (.+) \|$", table.partition("\n## ")[0], re.MULTILINE)
    named = [path for row in rows for path in re.findall(r"`([^`]+/[^`]*)`", row)]
    assert len(named) > 40
    for path in named:
        pattern = re.sub(r"<\w+>", "*", path).rstrip("/")
        assert any(any(root.glob(pattern)) for root in (REPOSITORY / "src/accelscope", REPOSITORY)), path


def test_an_extra_is_added_as_the_program_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("accelscope.cli.output._is_installed", lambda _module: False)
    [command] = re.findall(r"with pipx: (.+)\)$", missing("fleet") or "")
    assert f"`{command}`" in (DOCS / "install-without-kubernetes.md").read_text()


def test_there_are_commands() -> None:
    assert len([words for page in PAGES for words in commands(page)]) > 20


@pytest.mark.parametrize("page", [page for page in PAGES if commands(page)], ids=name)
def test_commands_are_such_as_the_program_takes(page: Path) -> None:
    for words in commands(page):
        make_parser([words[0]]).parse_args(words)
