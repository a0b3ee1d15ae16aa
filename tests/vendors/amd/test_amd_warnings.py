"""Warnings of AMD's tools before output in another format than the parser expects."""

import pytest

from accelscope.parsing import sources

WARNING = "WARNING: AMD GPU device(s) is/are in a low-power state. Check power control/runtime_status\n"
TITLE = "\n======== ROCm System Management Interface ========\n============ Concise Info ============\n"
TABLE = "Device  Node  Temp    Power  SCLK     MCLK    Fan  Perf  PwrCap  VRAM%  GPU%\n"
ROW = "0       1     49.0°C  64.0W  1372Mhz  456Mhz  0%   auto  236.0W  95%    29%\n"
END = "============ End of ROCm SMI Log ============\n"

JSON_SOURCES = [name for name in sources() if name in ("rocm-smi-json", "amd-smi-metric", "amd-smi-static")]


@pytest.mark.parametrize("source", JSON_SOURCES)
@pytest.mark.parametrize("printed", [TITLE + TABLE + ROW + END, "device,GPU use (%)\ncard0,29\n"])
def test_a_table_after_a_warning_is_not_reported_as_suspended(source: str, printed: str) -> None:
    error = sources()[source].parse(WARNING + printed, None).error
    assert error is not None
    assert error.reason == "unrecognized"
    assert printed.removeprefix(TITLE).split("\n")[0][:20] in error.text
    assert "low-power" in error.text


@pytest.mark.parametrize("source", JSON_SOURCES)
@pytest.mark.parametrize("printed", ["", TITLE + END])
def test_a_warning_without_output_is_the_reason(source: str, printed: str) -> None:
    error = sources()[source].parse(WARNING + printed, None).error
    assert error is not None
    assert error.reason == "suspended"
