"""Whatever text comes, a parser answers, soon, and with nothing that is not in the text."""

import json
import math
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.hostile import in_linear_time
from tests.vendors.common.parsed_numbers import numbers

from accelscope.model.wire import plain
from accelscope.parsing import ParseResult
from accelscope.vendors.furiosa import sysfs
from accelscope.vendors.furiosa.capture import SOURCES
from accelscope.vendors.furiosa.draft import PLACES
from accelscope.vendors.furiosa.parse_tools import driver_version

BY_NAME = {source.name: source for source in SOURCES}
PARSERS = (
    "furiosa-smi-info",
    "furiosa-smi-status",
    "furiosa-smi-ps",
    "furiosactl-list",
)  # one source of each

NUMBERS = st.one_of(
    st.integers(-5, 10**21).map(str),
    st.floats(allow_nan=True, allow_infinity=True).map(str),
    st.sampled_from(["0", "-", "4294967295", "18446744073709551615", "1e999", "0x1FF", "٣", "²", "1_000"]),
)
CELLS = st.one_of(
    st.sampled_from(
        ["N/A", "-", "", "Unknown", "rngd", "FuriosaAI Warboy", "alive", "dead", "Ready", "Single PE"]
    ),
    st.tuples(NUMBERS, st.sampled_from(["", "°C", " W", " MHz", "%", " GiB", " (occupied),"])).map("".join),
    st.tuples(st.sampled_from(["npu", "npu0:", "npu0:[0, ", "npu0pe", "Core ", "rngd/npu"]), NUMBERS).map(
        "".join
    ),
    st.sampled_from(
        [
            *(
                "npu0",
                "npu1pe0-1",
                "0000:17:00.0",
                "12.25/47.50 GiB",
                "(25.79%)",
                "Core 3: 99.47%,",
                "Core 2: -",
            ),
            *("0 (available), 1 (occupied)", "npu0:[0, 7], npu1:3", "/bin/x --y | z"),
        ]
    ),
    st.text(max_size=15),
)
COLUMNS = st.sampled_from(
    [
        *(
            "Index",
            "Arch",
            "Device",
            "NPU",
            "Name",
            "UUID",
            "S/N",
            "Firmware",
            "PERT",
            "Temp.",
            "Power",
            "Clock",
        ),
        *("Core Clock", "PCI-BDF", "Liveness", "Memory", "Cores", "Core Utilization", "DEVNAME", "Type"),
        *("Status", "DEVFILES", "PID", "NPU core", "CMD", "Surprise"),
    ]
)
LINES = st.one_of(
    st.lists(COLUMNS, max_size=7).map(lambda cells: f"| {' | '.join(cells)} |"),
    st.lists(CELLS, max_size=7).map(lambda cells: f"| {' | '.join(cells)} |"),
    st.lists(CELLS, max_size=7).map(" | ".join),
    st.sampled_from(["+------+-----+", "+", "|", "||", "Error: device not found error", "[WARN] x"]),
    st.text(max_size=30),
)
TABLES = st.lists(LINES, max_size=14).map("\n".join)
KEYS = st.sampled_from(
    [
        *PLACES,
        *(
            "liveness",
            "memory",
            "DRAM",
            "used_size",
            "total_size",
            "pe_utilizations",
            "pe_core",
            "pe_occupancy",
        ),
        *("pe_utilization", "cores", "idx", "status", "pid", "cmd", "command", "npu_core", "error"),
    ]
)
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), CELLS),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=5)),
    max_leaves=12,
)
DOCUMENTS = st.tuples(
    st.sampled_from(["", "[WARN] x\n", "{\n", "\ufeff"]),
    st.lists(st.dictionaries(KEYS, VALUES, max_size=8), max_size=3).map(json.dumps),
    st.integers(0, 12),
).map(lambda parts: parts[0] + parts[1][: len(parts[1]) - parts[2]])
TEXTS = st.one_of(st.text(), TABLES, DOCUMENTS)

HEADERS = (
    "| Arch | Device | Firmware | Temp. | Power | PCI-BDF |\n"
    "| Arch | Device | Liveness | Memory | Cores | Core Utilization |\n"
    "| NPU | Cores | DEVFILES |\n| PID | NPU core | CMD |\n"
)
HOSTILE = {
    "bars": "|" * 2_000_000,
    "lines of bars": ("|" * 30 + "\n") * 30_000,
    "bars below a header": HEADERS + "|" * 1_000_000,
    "a command of bars": "| PID | NPU core | CMD |\n| 1 | npu0:0 | " + "|" * 90_000 + " |\n",
    "frames": "+-----" * 300_000,
    "headers": HEADERS * 3_000,
    "lines": "x\n" * 150_000,
    "rows": "| PID | NPU core | CMD |\n" + "| 1 | npu0:0 | x |\n" * 15_000,
    "a block without rules": HEADERS + "| rngd | npu0 | alive | | | Core 0: 1% |\n" * 8_000,
    "one device of many lines": (
        "| Device | Core Utilization |\n" + "".join(f"| | Core {n % 1000}: 1% |\n" for n in range(20_000))
    ),
    "cores in a cell": "| Device | Cores | Core Utilization |\n| npu0 | " + "0 (x), " * 12_000 + " | |\n",
    "holds in a cell": "| PID | NPU core | CMD |\n| 1 | " + "npu0:[0, 7], " * 1_500 + " | x |\n",
    "blanks": " " * 1_000_000,
    "digits": "9" * 1_000_000,
    "brackets": "[" * 1_000_000 + "]" * 1_000_000,
    "lines of brackets": "[\n" * 60_000,
    "lines of braces": "{\n" * 60_000,
    "deep objects": '{"a":' * 300_000,
    "deep lists in an object": '[{"memory":' + "[" * 500_000,
    "a number of digits": '[{"dev_name": "npu0", "power": ' + "9" * 1_000_000 + "}]",
    "objects": "[" + '{"dev_name": "npu0", "pid": 1},' * 8_000 + "]",
    "quotes": '[{"' + '\\"' * 500_000,
    "errors": "Error: device not found error " * 50_000,
}


@pytest.mark.parametrize("source", PARSERS)
@given(text=TEXTS)
@example(text="[{}]")
@example(text='[{"dev_name": "npu0", "temperature": NaN, "power": Infinity}]')
@example(text='{"pid": 1e400, "npu": "npu0"}')
def test_any_text_gets_an_answer_out_of_itself(source: str, text: str) -> None:
    assert_from_the_text(BY_NAME[source].parse(text, None), text)


@pytest.mark.parametrize("source", PARSERS)
@pytest.mark.parametrize("kind", HOSTILE)
def test_much_is_read_in_linear_time(source: str, kind: str) -> None:
    with in_linear_time():
        parsed = BY_NAME[source].parse(HOSTILE[kind], None)
    assert len(parsed.rejected) <= 101
    assert all(len(rejection.line) <= 500 for rejection in parsed.rejected)


@given(text=st.one_of(st.text(), st.lists(st.one_of(CELLS, NUMBERS), max_size=10).map("\n".join)))
def test_files_of_the_driver_give_values_or_nothing(text: str) -> None:
    sysfs.error_counts(text)
    sysfs.core_flags(text)
    sysfs.throttles(text, text)
    sysfs.warboy_counters(text)
    driver_version(text)
    for hertz in sysfs.core_clocks(text) or ():
        assert 0 <= hertz <= 1e18
    for clock in sysfs.clocks(text) or ():
        assert clock.hertz is not None
        assert math.isfinite(clock.hertz)


@pytest.mark.parametrize("kind", HOSTILE)
def test_much_in_a_file_of_the_driver(kind: str) -> None:
    text = HOSTILE[kind]
    with in_linear_time():
        for read in (
            sysfs.error_counts,
            sysfs.clocks,
            sysfs.core_clocks,
            sysfs.core_flags,
            sysfs.warboy_counters,
            driver_version,
            lambda text: sysfs.throttles("0x0", text),
        ):
            read(text)


def assert_from_the_text(parsed: ParseResult, text: str) -> None:
    """No number out of nowhere: every value is finite and not negative, save temperatures; a pid or index is
    digits of the text; and all of it can be written as JSON values."""
    json.dumps(plain(parsed), allow_nan=False)
    assert parsed.error is None or not (parsed.devices or parsed.processes)
    digits = {run.lstrip("0") or "0" for run in re.findall(r"[0-9]+", text)}
    for name, value in numbers(parsed):
        assert math.isfinite(value)
        assert value >= 0 or "celsius" in name
        if name in ("pid", "device_index"):
            assert str(value) in digits
    if not digits:
        assert not list(numbers(parsed))
