"""What all tests share: where captures and compiled parts are, and how many examples are tried."""

import os
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# The same examples each time, however long a busy machine takes for one: what is red is red because of a
# change. To look for more: make test ARGS="--hypothesis-profile=search -k any_text"
settings.register_profile(
    "steady",
    derandomize=True,
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("search", settings.get_profile("steady"), derandomize=False, max_examples=2000)
settings.load_profile("steady")

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


@pytest.fixture(scope="session")
def native_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where simulated nodes keep what they compile: it is compiled once for all tests."""
    if not any(map(shutil.which, ("cc", "gcc", "clang"))):
        pytest.skip("no C compiler: simulated libraries and tools cannot be built")
    return tmp_path_factory.mktemp("cache") / "accelscope"
