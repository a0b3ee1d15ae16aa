"""What all tests share: where the captures of real machines are."""

import os
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[1]


def captures_folder() -> Path:
    """Captures are other people's data and not part of the repository; ACCELSCOPE_CAPTURES says where they
    are, relative to the repository's root if it is relative."""
    return REPOSITORY / os.environ.get("ACCELSCOPE_CAPTURES", "../shared/captures")


def pytest_report_header() -> str:
    folder = captures_folder()
    if folder.is_dir():
        return f"captures: {sum(1 for path in folder.rglob('*') if path.is_file())} files found"
    return "captures: not found, tests that read them are skipped (set ACCELSCOPE_CAPTURES)"


@pytest.fixture(scope="session")
def captures() -> Path:
    """The folder of captures; a test that asks for it is skipped where there is none."""
    folder = captures_folder()
    if not folder.is_dir():
        pytest.skip(f"no captures at {folder}; set ACCELSCOPE_CAPTURES to their folder")
    return folder
