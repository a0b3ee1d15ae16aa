"""Collections in a test's own process, of a node whose simulated kubelet runs there too."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tests.waiting import PATIENCE_SECONDS

from accelscope.attribution import attributor


@contextmanager
def patient_kubelet() -> Iterator[None]:
    """What it says is waited for: a busy machine must not decide what a collection knows."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("_KUBELET_SECONDS", "_KUBELET_WAIT_SECONDS"):
            patch.setattr(attributor, name, PATIENCE_SECONDS)
        yield
