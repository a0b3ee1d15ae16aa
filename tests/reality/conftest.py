"""Fixtures of the tests with the vendors' own programs, and the table of what was compared."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.e2e.kubernetes.errors import ClusterError
from tests.reality.comparison import Comparison, Field, Outcome, Report, Value, overlooked, table, unused
from tests.reality.debian import NotInArchive, Tree
from tests.reality.differences import DIFFERENCES
from tests.reality.namespace import why_not

_OUTCOMES: pytest.StashKey[list[Outcome]] = pytest.StashKey()

Compare = Callable[..., Outcome]


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_OUTCOMES] = []


@pytest.fixture(scope="session")
def namespaces() -> None:
    """For tests that run programs in namespaces."""
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)


@pytest.fixture(scope="session")
def compare(pytestconfig: pytest.Config) -> Compare:
    """Compares, adds a row to the table, and fails on an unexplained difference, and on one that would not
    be found."""

    def run(
        program: str,
        version: str,
        node: str,
        fields: tuple[Field, ...],
        reports: list[Report],
        ours: dict[str, dict[str, Value]],
    ) -> Outcome:
        comparison = Comparison(
            program=program, version=version, node=node, table=fields, differences=DIFFERENCES
        )
        outcome = comparison.run(reports, ours)
        pytestconfig.stash[_OUTCOMES].append(outcome)
        assert not outcome.unexplained, "\n".join(map(str, outcome.unexplained))
        missed = overlooked(comparison, reports, ours)
        assert not missed, "no difference would be found:\n" + "\n".join(missed)
        return outcome

    return run


def required_tree(tree: Tree) -> Path:
    """A tree that a test cannot do without."""
    return tree.root()


def available_tree(tree: Tree) -> Path:
    """A tree of a moving suite: the test is skipped if the archive does not have it."""
    try:
        return tree.root()
    except NotInArchive as error:
        pytest.skip(str(error))
    except ClusterError as error:
        pytest.skip(f"Debian {tree.suite} cannot be fetched: {error}")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    outcomes = config.stash[_OUTCOMES]
    if not outcomes:
        return
    terminalreporter.section("values of the vendors' own programs beside the snapshot")
    for line in table(outcomes):
        terminalreporter.line(line)
    reasons = {d: None for o in outcomes for _, d in o.explained}
    for difference in reasons:
        terminalreporter.line(
            f"{difference.program} {difference.field}: {difference.right} right: {difference.reason}"
        )
    if config.option.keyword or any(".py" in argument for argument in config.args):
        return  # a part of the tests does not need every difference
    for stale in unused(DIFFERENCES, outcomes):
        where = f"{stale.program} {stale.versions} {stale.nodes} {stale.field}"
        terminalreporter.line(f"STALE: {where} explained nothing: {stale.reason}")
