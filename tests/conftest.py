"""What all tests share: where captures and compiled parts are, and how many examples are tried."""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from tests.repository import REPOSITORY

# The same examples each time, however long a busy machine takes for one: a test fails only because of a
# change. To try more examples: make test ARGS="--hypothesis-profile=search -k any_text"
settings.register_profile(
    "steady",
    derandomize=True,
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("search", settings.get_profile("steady"), derandomize=False, max_examples=2000)
settings.load_profile("steady")

NOBODY = 65534

# Proofs that take seconds each, most of them because they start the command or run simulated nodes. make e2e
# runs them, make test does not (ARGS="-m slow" selects them).
SLOW = tuple(
    REPOSITORY / "tests" / name
    for name in (
        "agent/test_annotation_while_the_tool_fails.py",
        "agent/test_faults.py",
        "agent/test_mixed_node.py",
        "agent/test_node_object.py",
        "agent/test_reload.py",
        "agent/test_snapshot_reference.py",
        "agent/test_token_review.py",
        "capture/test_capture_command.py",
        "cli/test_output.py",
        "compare/test_compare_command.py",
        "compare/test_nvitop.py",
        "demo/test_demo_children.py",
        "demo/test_demo_runs.py",
        "doctor/test_cross_check.py",
        "doctor/test_doctor_on_simulated_nodes.py",
        "faults/test_exhaustion.py",
        "faults/test_fault_matrix.py",
        "fleet/app",
        "fleet/refresh/test_engine_over_simulated_fleet.py",
        "fleet/sources/prometheus/test_prometheus_source.py",
        "fleet/store/test_store_limits.py",
        "fleet/trends/test_trends.py",
        "fleet/trends/test_trial_at_length.py",
        "monitoring/test_rules.py",
        "packaging/test_audit_script.py",
        "packaging/test_installed.py",
        "packaging/test_page_script.py",
        "packaging/test_sbom.py",
        "packaging/test_setup_command.py",
        "packaging/test_setup_script.py",
        "packaging/test_wheel.py",
        "security/test_secrets.py",
        "simulate/fleet",
        "simulate/test_simulate_command.py",
        "simulate/test_simulated_node.py",
        "soak",
        "top/test_terminal.py",
        "top/test_top_command.py",
        "vendors/amd/test_amd_doctor.py",
        "vendors/amd/test_amd_kernel_tree.py",
        "vendors/amd/test_amd_node.py",
        "vendors/amd/test_amd_on_simulated_nodes.py",
        "vendors/test_toy_vendor.py",
    )
)


def captures_folder() -> Path:
    """Captures are other people's data and not part of the repository; ACCELSCOPE_CAPTURES says where they
    are, relative to the repository's root if it is relative."""
    return REPOSITORY / os.environ.get("ACCELSCOPE_CAPTURES", "../shared/captures")


def pytest_report_header() -> str:
    folder = captures_folder()
    if folder.is_dir():
        return f"captures: {sum(1 for path in folder.rglob('*') if path.is_file())} files found"
    return "captures: not found, tests that read them are skipped (set ACCELSCOPE_CAPTURES)"


def pytest_itemcollected(item: pytest.Item) -> None:
    if any(item.path.is_relative_to(path) for path in SLOW):
        item.add_marker("slow")


@pytest.hookimpl(trylast=True)  # hypothesis marks its own first
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests with generated examples do not count for coverage: they take three times as long with it, and
    which lines they reach is chance."""
    for item in items:
        if item.get_closest_marker("hypothesis"):
            item.add_marker("no_cover")


@pytest.fixture(scope="session")
def captures() -> Path:
    """The folder of captures; a test that asks for it is skipped where there is none."""
    folder = captures_folder()
    if not folder.is_dir():
        pytest.skip(f"no captures at {folder}; set ACCELSCOPE_CAPTURES to their folder")
    return folder


@pytest.fixture(scope="session")
def native_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where simulated nodes keep what they compile: it is compiled once for all tests, also where several
    processes run them (each has a folder of its own in that of the run)."""
    if not any(map(shutil.which, ("cc", "gcc", "clang"))):
        pytest.skip("no C compiler: simulated libraries and tools cannot be built")
    folder = tmp_path_factory.getbasetemp()
    return (folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) / "cache"


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """One that other users may enter, unlike tmp_path, for tests that look with their eyes."""
    folder = Path(tempfile.mkdtemp(prefix="accelscope-test-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def ordinary_user() -> Callable[[], AbstractContextManager[None]]:
    """Within it this process is not root: rights count."""

    @contextmanager
    def within() -> Iterator[None]:
        if os.geteuid() != 0:
            yield
            return
        os.seteuid(NOBODY)
        try:
            yield
        finally:
            os.seteuid(0)

    return within
