"""For any text, the parsers return in time, with only values that the text contains."""

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
from accelscope.vendors.amd import parse_amd_smi
from accelscope.vendors.amd.capture import SOURCES
from accelscope.vendors.amd.processes import parse_fdinfo

PARSERS = {source.name: source.parse for source in SOURCES}

NUMBERS = st.one_of(
    st.integers(-5, 10**21),
    st.floats(allow_nan=True, allow_infinity=True),
    st.sampled_from([0, 65535, 4294967295, 18446744073709551615]),
)
UNITS = st.sampled_from(["W", "%", "MB", "MHz", "C", "°C", "mV", "GT/s", "J", "B", "KB", "Mb/s", "", "x"])
WORDS = st.one_of(
    st.sampled_from(
        [
            *("N/A", "N/A (Secondary die)", "ENABLED", "THROTTLED", "NOT ACTIVE", "gfx942", "CPX", "0x1002"),
            *("0000:83:00.0", "0x6F1F0A2B3C4D5E6F", "No running processes detected", "(1626Mhz)", "42%"),
            *("python3, 1, 2, 3, 4", "3.1/191.7 GB", "0 (16.0GT/s x16)", "UNKNOWN", "", "PCB-1"),
        ]
    ),
    st.tuples(NUMBERS, UNITS).map(lambda pair: f"{pair[0]} {pair[1]}"),
    st.text(max_size=20),
)
LEAVES = st.one_of(
    NUMBERS,
    WORDS,
    st.none(),
    st.booleans(),
    st.fixed_dictionaries({"value": st.one_of(NUMBERS, WORDS), "unit": UNITS}),
)
NAMES = st.sampled_from(
    [
        *("gpu", "gpu_data", "usage", "gfx_activity", "vcn_activity", "power", "socket_power", "temperature"),
        *("edge", "hotspot", "clock", "gfx_0", "clk", "max_clk", "mem_usage", "total_vram", "throttle"),
        *("ppt_violation_status", "ecc", "ecc_blocks", "UMC", "correctable_count", "fan", "speed", "max"),
        *("pcie", "width", "asic", "market_name", "asic_serial", "bus", "bdf", "limit", "max_power", "ppt0"),
        *("driver", "version", "numa", "node", "process_list", "process_info", "pid", "name", "mem_usage"),
        *("memory_usage", "vram_mem", "card0", "card1", "system", "GPU use (%)", "Unique ID", "PID12"),
        *("Average Graphics Package Power (W)", "Temperature (Sensor edge) (C)", "sclk clock speed:"),
        *("Serial Number", "Card Series", "value", "unit", "error", "frequency_levels", "Level 0", "xcp_0"),
        *("gfx_busy_inst", "link_metrics", "links", "link_status", "read", "write", "xgmi_err"),
    ]
)
TREES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(NAMES, inner, max_size=5)),
    max_leaves=25,
)
GPUS = st.lists(
    st.tuples(NUMBERS, st.dictionaries(NAMES, TREES, max_size=5)).map(lambda p: {"gpu": p[0], **p[1]}),
    max_size=3,
)
DOCUMENTS = st.one_of(TREES, GPUS, GPUS.map(lambda gpus: {"gpu_data": gpus})).map(json.dumps)
CUT = st.tuples(DOCUMENTS, st.integers(0, 400)).map(lambda pair: pair[0][: pair[1]])
TABLES = st.lists(
    st.one_of(
        st.sampled_from(
            [
                "GPU  POWER  GPU_T  MEM_T  GFX%  VRAM_USAGE",
                "GPU  NAME  PID  VRAM_MEM  MEM_USAGE",
                "TIMESTAMP GPU XCP POWER PCIE_BW",
                "device,GPU use (%),Unique ID,Serial Number",
                "device,Driver version",
                "PROCESS INFO:",
                "GPU  Temp (DieEdge)  AvgPwr  SCLK  MCLK  Fan  Perf  PwrCap  VRAM%  GPU%",
                "Device  Node  IDs  Temp  Power  Partitions  SCLK  MCLK  Fan  Perf  PwrCap  VRAM%  GPU%",
                "0 1 0x74a1, 40211 48.0°C 253.0W NPS4, CPX, 0 2100Mhz 1300Mhz 0% n/a 750.0W 14% 19%",
                "GPU  DID  GFX RAS  VBIOS  BUS",
            ]
        ),
        st.lists(WORDS, max_size=8).map(" ".join),
        st.lists(WORDS, max_size=6).map(lambda cells: ",".join(["card0", *cells])),
    ),
    max_size=10,
).map("\n".join)
INDENTED = st.lists(
    st.tuples(st.integers(0, 4), NAMES, WORDS).map(
        lambda line: f"{' ' * 4 * line[0]}{line[1].upper()}: {line[2]}"
    ),
    max_size=15,
).map(lambda lines: "GPU: 0\n" + "\n".join(lines))
MESSAGES = st.sampled_from(
    [
        "ERROR: Driver not loaded (amdgpu not found in modules)",
        "WARNING: No JSON data to report",
        '{"error": "no", "code": -3}',
        "[WARNING] something",
    ]
)
TEXTS = st.one_of(
    st.text(),
    DOCUMENTS,
    CUT,
    TABLES,
    INDENTED,
    st.tuples(MESSAGES, DOCUMENTS).map("\n".join),
)

HOSTILE = {
    "bars": "|" * 2_000_000,
    "braces": "{" * 1_000_000,
    "brackets": "[" * 1_000_000,
    "lines of brackets": "[\n" * 60_000,
    "deep": '{"gpu_data":[' + '{"a":' * 100_000,
    "deep gpu": '[{"gpu":0,"usage":' + "[" * 100_000 + "]" * 100_000 + "}]",
    "lines": "x\n" * 150_000,
    "errors": "ERROR: no\n" * 50_000,
    "digits": "9" * 1_000_000,
    "digits in a document": '[{"gpu": ' + "9" * 1_000_000 + "}]",
    "digits in a word": '{"card0": {"GPU use (%)": "' + "9" * 1_000_000 + '"}}',
    "blanks": " " * 1_000_000,
    "commas": "device" + "," * 1_000_000,
    "rows": "device,GPU use (%)\n" + "".join(f"card{n},5\n" for n in range(8_000)),
    "gpus": json.dumps([{"gpu": n, "power": {"socket_power": 5}} for n in range(5_000)]),
    "cards": json.dumps({f"card{n}": {"GPU use (%)": "5"} for n in range(8_000)}),
    "processes": json.dumps(
        [{"gpu": 0, "process_list": [{"process_info": {"pid": n}} for n in range(1, 15_000)]}]
    ),
    "pids": json.dumps({"system": {f"PID{n}": "a, 1, 2, 3, 4" for n in range(1, 15_000)}}),
    "commas in a name": json.dumps({"system": {"PID1": "a," * 500_000}}),
    "table": "GPU  POWER\n" + "".join(f"{n}  5 W\n" for n in range(8_000)),
    "rows of rocm-smi": "GPU  Temp  AvgPwr\n" + "".join(f"{n}  5c  5W\n" for n in range(8_000)),
    "cells of rocm-smi": "GPU  Temp  AvgPwr\n" + "5c " * 500_000,
    "columns of rocm-smi": "GPU  Temp" + " x" * 500_000,
    "names of rocm-smi": "Device  [Model : Revision]  Temp\n" + "        AMD Instinct MI300X\n" * 50_000,
    "headers": "GPU  POWER\n" * 50_000,
    "cells": "GPU  POWER\n" + "5 W " * 500_000,
    "open list": "GPU: 0\n    A: [" + "0 %, \n" * 60_000,
    "indented": "GPU: 0\n" + "".join(f"{' ' * (n % 60)}KEY_{n}: 5 W\n" for n in range(30_000)),
    "documents": '{"gpu": 0}\n' * 40_000,
    "leaves": json.dumps([{"gpu": 0, "throttle": {"ppt_violation_status": {"xcp_0": ["ACTIVE"] * 200_000}}}]),
}


@pytest.mark.parametrize("source", PARSERS)
@given(text=TEXTS)
@example(text='\ufeff{"gpu_data": [{"gpu": 0}]}')
@example(text="[]")
@example(text="{}")
@example(text='[{"gpu": NaN, "power": {"socket_power": Infinity}}]')
@example(text='{"card0": "N/A", "system": []}')
def test_any_text_gives_only_values_that_it_contains(source: str, text: str) -> None:
    assert_from_the_text(PARSERS[source](text, None), text)


@given(text=TEXTS)
def test_any_text_is_accepted_as_links(text: str) -> None:
    for device in parse_amd_smi.parse_links(text).devices:
        for _, value in numbers(device.links):
            assert math.isfinite(value)
            assert value >= 0


@given(text=st.one_of(st.text(), st.lists(st.text(alphabet="drm-:clientvam 0129KiB\t")).map("\n".join)))
def test_any_text_is_accepted_as_fdinfo(text: str) -> None:
    client = parse_fdinfo("drm-driver:\tamdgpu\ndrm-client-id:\t1\n" + text)
    assert client is not None
    assert (client.memory_bytes or 0) >= 0


@pytest.mark.parametrize("source", PARSERS)
@pytest.mark.parametrize("kind", HOSTILE)
def test_long_input_is_parsed_in_linear_time(source: str, kind: str) -> None:
    with in_linear_time():
        parsed = PARSERS[source](HOSTILE[kind], None)
    assert len(parsed.rejected) <= 101
    assert all(len(rejection.line) <= 500 for rejection in parsed.rejected)


@pytest.mark.parametrize("text", ["", "\n\n", "\ufeff", "  \r\n"])
@pytest.mark.parametrize("source", PARSERS)
def test_empty_input_has_its_own_error(source: str, text: str) -> None:
    error = PARSERS[source](text, None).error
    assert error is not None
    assert error.reason == "empty"


def assert_from_the_text(parsed: ParseResult, text: str) -> None:
    """Every value is finite and not negative, save temperatures; a pid or index is
    digits of the text; and all of it can be written as JSON values."""
    plain(parsed)
    assert parsed.error is None or (not parsed.devices and not parsed.processes)
    assert parsed.error is not None or parsed.devices or parsed.processes or "process" in text.casefold()
    digits = {d.lstrip("0") or "0" for d in re.findall(r"[0-9]+", text)}
    for name, value in numbers(parsed):
        assert math.isfinite(value)
        assert value >= 0 or "celsius" in name
        if name in ("pid", "device_index"):
            assert str(value) in digits
    for device in parsed.devices:
        assert str(device.index) in digits
        ratios = [value for name, value in numbers(device) if name.endswith("_ratio")]
        assert all(ratio <= 1.01 for ratio in ratios)
