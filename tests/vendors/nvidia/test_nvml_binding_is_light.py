"""The binding brings nothing along that an agent would keep for no use."""

import subprocess
import sys

import pytest

LOAD = """
import sys
from accelscope.vendors.nvidia.nvml_binding import _own_module
binding = _own_module()
print(*(name for name in ("subprocess", "tempfile", "shutil", "ctypes.util") if name in sys.modules))
import ctypes.util
assert ctypes.util.find_library.__module__ == "ctypes.util"  # others get the real one
"""


def test_what_the_binding_never_calls_is_not_loaded() -> None:
    pytest.importorskip("pynvml")
    done = subprocess.run(
        [sys.executable, "-c", LOAD], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout.split()) == (0, []), done.stderr
