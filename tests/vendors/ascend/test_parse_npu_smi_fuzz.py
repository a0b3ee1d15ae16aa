"""For any text, the parsers of npu-smi return in time, with only values that the text contains."""

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.hostile import in_linear_time
from tests.vendors.common.parsed_numbers import numbers

from accelscope.model.wire import plain
from accelscope.parsing import ParseResult, sources

SOURCES = [name for name in sources() if name.startswith("npu-smi")]

NUMBERS = st.one_of(
    st.integers(-5, 10**21).map(str),
    st.floats(allow_nan=True, allow_infinity=True).map(str),
    st.sampled_from(["0", "1", "-", "NA", "4294967295", "1e999", "0x1F", "٣", "²", "1_000", "0.0"]),
)
PAIRS = st.tuples(NUMBERS, st.sampled_from([" / ", "/ ", "/", " /", "//"]), NUMBERS).map("".join)
CELLS = st.one_of(
    NUMBERS,
    PAIRS,
    st.lists(st.one_of(NUMBERS, PAIRS), max_size=4).map("  ".join),
    st.tuples(NUMBERS, st.sampled_from(["910B3", "Ascend910", "310"])).map("     ".join),
    st.sampled_from(
        ["OK", "Alarm", "UNKNOWN", "0000:C1:00.0", "NA", "", "No running processes found in NPU 0"]
    ),
    st.text(max_size=15),
)
HEADERS = st.sampled_from(
    [
        "| NPU   Name | Health | Power(W)  Temp(C)  Hugepages-Usage(page)|",
        "| Chip  Phy-ID | Bus-Id | AICore(%)  Memory-Usage(MB)  HBM-Usage(MB) |",
        "| Chip  Device | Bus-Id | AICore(%)  Memory-Usage(MB) |",
        "| NPU ID | Name | Health | Power(W)  Temp(C)  Hugepages-Usage(page) |",
        "|        |      | Bus-Id | NPU Util(%)  Memory-Usage(MB)  HBM-Usage(MB) |",
        "| NPU     Chip | Process id | Process name | Process memory(MB) |",
        "| npu-smi 1 Version: 2 |",
        "+===+",
    ]
)
MESSAGES = st.sampled_from(
    [
        "DrvMngGetConsoleLogLevel failed. (g_conLogLevel=3)",
        "dcmi module initialize failed. ret is -8005",
        "This device does not support querying ecc.",
        "Get pid name failed.",
        "No process in device.",
    ]
)
TABLES = st.lists(
    st.one_of(HEADERS, st.lists(CELLS, max_size=5).map(lambda cells: f"| {' | '.join(cells)} |"), MESSAGES),
    max_size=14,
).map("\n".join)
KEYS = st.sampled_from(
    [
        *("NPU ID", "Chip ID", "Chip Count", "Chip Name", "Serial Number", "VDie ID", "PCIe Bus Info"),
        *("HBM Capacity(MB)", "HBM Usage Rate(%)", "DDR Capacity(MB)", "DDR Usage Rate(%)"),
        *("Aicore Usage Rate(%)", "NPU Utilization(%)", "Aicore curFreq(MHZ)", "Temperature(C)"),
        *("NPU Real-time Power(W)", "Health Status", "Error Code", "Error Information"),
        *("HBM Single Bit Error Count", "DDR Double Bit Isolated Pages Count", "Software Version"),
    ]
)
KEY_VALUES = st.lists(
    st.one_of(
        st.tuples(KEYS, st.one_of(CELLS, st.sampled_from(["mcu", "80E01801 81078603"]))).map(" : ".join),
        st.tuples(NUMBERS, CELLS, NUMBERS).map(
            lambda c: f"Process id:{c[0]} Process name:{c[1]}   Process memory(MB):{c[2]}"
        ),
        MESSAGES,
    ),
    max_size=16,
).map("\n".join)
MAPS = st.lists(
    st.one_of(
        st.just("NPU ID   Chip ID   Chip Logic ID   Chip Phy-ID   Chip Name"),
        st.lists(st.one_of(NUMBERS, st.sampled_from(["Mcu", "Ascend 910B"])), max_size=6).map("   ".join),
    ),
    max_size=10,
).map("\n".join)
TEXTS = st.one_of(st.text(), TABLES, KEY_VALUES, MAPS)

HEAD = (
    "| NPU   Name | Health | Power(W)  Temp(C)  Hugepages-Usage(page)|\n"
    "| Chip       | Bus-Id | AICore(%)  Memory-Usage(MB)  HBM-Usage(MB) |\n"
)
HOSTILE = {
    "bars": "|" * 4_000_000,
    "a line of bars in a table": HEAD + "|" * 3000,
    "lines of bars": HEAD + ("|" * 60 + "\n") * 5_000,
    "blanks in a cell": HEAD + "| " + " " * 3900 + "|\n" * 200,
    "slashes": HEAD + "| 0 x | OK | " + "/ " * 1900 + "|\n" + "| 0 | 0000:01:00.0 | " + "1/" * 1900 + "|\n",
    "headers": HEAD * 3_000,
    "lines": "x\n" * 150_000,
    "keys": "Aicore Usage Rate(%) : 1\n" * 30_000,
    "chips": "Aicore Usage Rate(%) : 1\nChip ID : 0\n" * 8_000,
    "rows": HEAD
    + "".join(f"| {n} x | OK | 1 2 0 / 0 |\n| 0 | 0000:01:00.0 | 1 0 / 0 1 / 2 |\n" for n in range(6_000)),
    "colons": ":" * 1_000_000,
    "lines of colons": " : \n" * 60_000,
    "digits": "9" * 1_000_000,
    "a value of digits": "NPU ID : " + "9" * 1_000_000 + "\nError Code : " + "F" * 1_000_000,
    "codes": "Health Status : Alarm\nError Code : " + "80E01801 " * 200,
    "processes": "NPU ID : 0\n" + "Process id:1 Process name:" * 200_000,
    "messages": "dcmi module initialize failed. ret is -8005\n" * 20_000,
    "almost messages": "fail " * 1_000_000,
    "map": "NPU ID  Chip ID  Chip Logic ID  Chip Name\n" + "0 0 0 x\n" * 10_000,
    "wide map": "NPU ID " * 100_000 + "\n" + "0 " * 100_000,
    "no lines": "|" + "a" * 1_000_000 + "|",
}


@pytest.mark.parametrize("source", SOURCES)
@given(text=TEXTS)
def test_any_text_gives_only_values_that_it_contains(source: str, text: str) -> None:
    assert_from_the_text(sources()[source].parse(text, None), text)


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("kind", HOSTILE)
def test_long_input_is_parsed_in_linear_time(source: str, kind: str) -> None:
    with in_linear_time():
        parsed = sources()[source].parse(HOSTILE[kind], None)
    assert len(parsed.devices) <= 4096
    assert len(parsed.processes) <= 100_000
    assert len(parsed.rejected) <= 101
    assert all(len(rejection.line) <= 500 for rejection in parsed.rejected)


def assert_from_the_text(parsed: ParseResult, text: str) -> None:
    """Every value is finite and not negative, save temperatures; numbers of devices
    and processes are digits of the text; and all of it can be written as JSON values."""
    plain(parsed)
    assert (parsed.error is not None) or parsed.devices or parsed.processes or "process" in text.casefold()
    digits = {d.lstrip("0") or "0" for d in re.findall(r"[0-9]+", text)}
    for name, value in numbers(parsed):
        assert math.isfinite(value)
        assert value >= 0 or "celsius" in name
        if name in ("pid", "board_id", "chip_id", "physical_id", "index", "device_index"):
            assert str(value) in digits
    if not digits:
        assert not list(numbers(parsed))
