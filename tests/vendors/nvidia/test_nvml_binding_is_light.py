"""Loading the NVML binding imports no modules that the agent does not need."""

import subprocess
import sys

import pytest

LOAD = """
import sys
from accelscope.vendors.nvidia.nvml_library import _copy_binding
binding = _copy_binding()
print(*(name for name in ("subprocess", "tempfile", "shutil", "ctypes.util") if name in sys.modules))
import ctypes.util
assert ctypes.util.find_library.__module__ == "ctypes.util"  # later imports get the real one
"""


def test_the_binding_does_not_import_subprocess_or_ctypes_util() -> None:
    pytest.importorskip("pynvml")
    done = subprocess.run(
        [sys.executable, "-c", LOAD], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout.split()) == (0, []), done.stderr
