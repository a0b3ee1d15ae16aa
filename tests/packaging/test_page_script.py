"""scripts/page and scripts/npm, with a stand-in for npm: what is done once, and what is left by a failure."""

import shutil
import subprocess
from pathlib import Path

import pytest
from tests.programs import program, script
from tests.repository import REPOSITORY

BUILT = "src/accelscope/fleet/page/static"
# Writes down what it was asked; installs and builds something, unless a file says that it fails.
NPM = """
echo "$*" >>"$LOG"
case "$*" in
    *install*) [ ! -e "$BROKEN" ] || { echo "npm error no network" >&2; exit 1; }; mkdir -p node_modules ;;
    *build*)
        [ ! -e "$BROKEN" ] || { echo "Build failed" >&2; exit 1; }
        for folder in "$@"; do :; done
        cat src/main.tsx >"$folder/index.html"
        ;;
esac
"""
INSTALLING = "npm: installing the locked packages of the page (web/package-lock.json)"
BUILDING = f"page: building web/ into {BUILT}"


class Clone:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "npm.log"
        self.broken = folder / "broken"
        for name in ("page", "npm"):
            program(folder / "scripts" / name, (REPOSITORY / "scripts" / name).read_bytes())
        script(folder / "scripts" / "setup", '[ "$*" = "--need node" ]')
        # As scripts/setup leaves them where the machine has no Node: they are found there.
        script(folder / ".venv" / "bin" / "npm", NPM)
        script(folder / ".venv" / "bin" / "node", "echo v24.0.0")
        for name in ("package.json", "package-lock.json", ".npmrc"):
            (folder / "web" / "src").mkdir(parents=True, exist_ok=True)
            shutil.copy(REPOSITORY / "web" / name, folder / "web" / name)
        (folder / BUILT).parent.mkdir(parents=True)
        self.write("first")

    def write(self, text: str) -> None:
        (self.folder / "web/src/main.tsx").write_text(text)

    @property
    def index(self) -> str:
        return (self.folder / BUILT / "index.html").read_text()

    def run(self, name: str, *arguments: str) -> tuple[int, list[str]]:
        """Exit code and all lines; the log is of this run alone."""
        self.log.write_text("")
        done = subprocess.run(
            [self.folder / "scripts" / name, *arguments],
            check=False,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            timeout=60,
            env={"PATH": "/usr/bin:/bin", "LOG": str(self.log), "BROKEN": str(self.broken)},
        )
        return done.returncode, done.stdout.splitlines()

    def asked(self) -> list[str]:
        """What npm was asked for, in a word."""
        return [word for line in self.log.read_text().splitlines() for word in line.split() if word in WORDS]


WORDS = ("install", "build", "test")


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    return Clone(tmp_path / "a clone")


def test_the_page_is_built_once_and_again_when_something_changed(clone: Clone) -> None:
    assert clone.run("page") == (0, [INSTALLING, BUILDING])
    assert (clone.asked(), clone.index) == (["install", "build"], "first")

    assert clone.run("page") == (0, [])
    assert clone.asked() == []

    clone.write("second")
    assert clone.run("page") == (0, [BUILDING])
    assert (clone.asked(), clone.index) == (["build"], "second")

    with (clone.folder / "web/package-lock.json").open("a") as lock:
        lock.write("\n")
    assert clone.run("page") == (0, [INSTALLING, BUILDING])


def test_a_page_that_was_removed_or_changed_is_built_anew(clone: Clone) -> None:
    clone.run("page")
    (clone.folder / BUILT / "index.html").write_text("by hand")
    assert clone.run("page") == (0, [BUILDING])
    shutil.rmtree(clone.folder / BUILT)
    assert clone.run("page") == (0, [BUILDING])
    assert clone.index == "first"


def test_a_build_that_fails_leaves_the_old_page_and_no_rubbish(clone: Clone) -> None:
    clone.run("page")
    clone.write("second")
    clone.broken.touch()
    assert clone.run("page") == (1, [BUILDING, "Build failed", "page: the build failed (see above)"])
    assert clone.index == "first"
    assert not list((clone.folder / "web/node_modules").glob(".page.??????"))
    clone.broken.unlink()
    assert clone.run("page") == (0, [BUILDING])
    assert clone.index == "second"


def test_without_a_network_one_line_says_what_is_missing(clone: Clone) -> None:
    clone.broken.touch()
    assert clone.run("page") == (
        1,
        [
            INSTALLING,
            "npm error no network",
            "npm: the packages of web/package-lock.json could not be installed (see above);"
            " that needs the network and a package registry",
        ],
    )
    clone.broken.unlink()
    assert clone.run("page") == (0, [INSTALLING, BUILDING])


def test_packages_come_by_their_lock_alone_and_run_nothing(clone: Clone) -> None:
    clone.run("npm")
    [line] = clone.log.read_text().splitlines()
    assert {"install", "--no-save", "--ignore-scripts"} <= set(line.split())


def test_what_npm_is_asked_reaches_it_and_its_failure_comes_back(clone: Clone) -> None:
    clone.run("npm")
    assert clone.run("npm", "test") == (0, [])
    assert clone.asked() == ["test"]
    clone.broken.touch()
    assert clone.run("npm", "run", "build")[0] == 1
