"""Mutation testing for a moment: that it works, and what it says. `make prove` takes its time."""

import re
import sys

from tests.e2e.proofs import printed_with


def test_faults_are_put_in_and_noticed() -> None:
    printed = printed_with(
        "mutmut", sys.executable, "scripts/mutate", "--short", "--seed=1", "--seconds=40", seconds=900
    )
    found = re.findall(r"^(\w+): (\d+) of (\d+) tried: .*?\b(\d+) killed", printed, re.MULTILINE)
    assert [name for name, *_ in found] == ["cgroup", "checkpoint"], printed
    for _, tried, known, killed in found:
        assert 0 < int(tried) <= int(known)
        assert int(killed) > int(tried) / 2, printed
