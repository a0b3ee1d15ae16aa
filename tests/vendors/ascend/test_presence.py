"""A node without Ascend chips does not load the code that reads them."""

import subprocess
import sys
from pathlib import Path

import pytest

from accelscope.model import Vendor
from accelscope.vendors.common.contract import DriverAbsent, Paths, ReaderError, ReaderOptions, open_reader

ABSENT = """
import sys
from pathlib import Path
from accelscope.model import Vendor
from accelscope.vendors.common.contract import DriverAbsent, Paths, ReaderOptions
from accelscope.vendors.common.contract import open_reader
folder = Path(sys.argv[1])
try:
    options = ReaderOptions(Paths(dev=folder), {"npu_smi_path": f"{folder}/npu-smi"})
    open_reader(Vendor("ascend"), options).survey()
except DriverAbsent:
    print("absent", "accelscope.vendors.ascend.driver_source" in sys.modules)
"""


def test_without_a_driver_the_source_module_is_not_imported(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", ABSENT, str(tmp_path)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout.split() == ["absent", "False"], done.stderr


def test_device_files_without_npu_smi_raise_tool_missing(tmp_path: Path) -> None:
    reader = open_reader(
        Vendor("ascend"), ReaderOptions(Paths(dev=tmp_path), {"npu_smi_path": str(tmp_path / "npu-smi")})
    )
    with pytest.raises(DriverAbsent):
        reader.survey()
    (tmp_path / "davinci0").touch()
    with pytest.raises(ReaderError, match="is not installed") as raised:
        reader.survey()
    assert raised.value.reason == "tool_missing"
    reader.close()
