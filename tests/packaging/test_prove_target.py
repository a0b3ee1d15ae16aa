"""`make prove` takes hours: a part that fails does not keep those behind it from being run."""

import shutil
import subprocess
from pathlib import Path

import pytest
from tests.programs import script
from tests.repository import REPOSITORY

PARTS = [
    "-m tools.soak",
    "-m tools.soak.hostile_agent",
    "fuzz",
    "scripts/mutate",
    "-m bench --peers --only exporters",
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With the Makefile, and programs that only tell that they were run and fail if the file `broken` names
    them."""
    shutil.copy(REPOSITORY / "Makefile", tmp_path)
    (tmp_path / "broken").touch()
    script(tmp_path / "scripts" / "setup", "exit 0")
    tells = 'echo "$told" >>ran; ! grep -qxF -e "$told" broken'
    script(tmp_path / "scripts" / "fuzz", f"told=fuzz; {tells}")
    script(tmp_path / ".venv" / "bin" / "python", f'told="$*"; {tells}')
    return tmp_path


def prove(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["make", "--no-print-directory", "prove"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_every_part_is_run(folder: Path) -> None:
    done = prove(folder)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (folder / "ran").read_text().splitlines() == PARTS
    assert done.stdout.endswith("prove: all passed\n")


@pytest.mark.parametrize("part", PARTS)
def test_one_that_fails_is_told_at_the_end(folder: Path, part: str) -> None:
    (folder / "broken").write_text(f"{part}\n")
    done = prove(folder)
    assert done.returncode != 0
    assert (folder / "ran").read_text().splitlines() == PARTS
    [failed] = [line for line in done.stdout.splitlines() if line.startswith("prove: FAILED: ")]
    assert part in failed
