"""Names of processes, without the arguments, which hold secrets."""

from collections.abc import Callable

import pytest

from accelscope.vendors.amd import quantities as amd_quantities
from accelscope.vendors.ascend import quantities as ascend_quantities
from accelscope.vendors.common.values import program_name


@pytest.mark.parametrize(
    "absence", [amd_quantities.absence, ascend_quantities.absence], ids=["amd", "ascend"]
)
@pytest.mark.parametrize(
    ("told", "name"),
    [
        ("python3", "python3"),
        ("/usr/bin/python3 --token=abc", "python3"),
        ("./train --token=abc", "train"),
        ("python3 train.py --token=abc", "python3"),
        ("tmux: server", "tmux: server"),
        ("sglang::schedul", "sglang::schedul"),
        ("a --secret", "a"),
        ("caf\ufffd", None),
        ("/", None),
        ("NA", None),
        ("N/A", None),
        ("-", None),
        ("", None),
    ],
)
def test_a_name_without_its_arguments(told: str, name: str | None, absence: Callable[[str], object]) -> None:
    assert program_name(told, absence) == name
