"""Parsers accept any text, in linear time, and return only values of the text."""

import math
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.hostile import in_linear_time
from tests.vendors.common.parsed_numbers import numbers

from accelscope.model.wire import plain
from accelscope.parsing import ParseResult, sources
from accelscope.vendors.nvidia.parse_csv import FIELDS, QUERY_GPU_FIELDS

NUMBERS = st.one_of(
    st.integers(-5, 10**21).map(str),
    st.floats(allow_nan=True, allow_infinity=True).map(str),
    st.sampled_from(["0", "-", "4294967295", "18446744073709551615", "1e999", "0x1FF", "٣", "²", "1_000"]),
)
MARKERS = st.sampled_from(
    [
        "[N/A]",
        "N/A",
        "[Not Supported]",
        "[Unknown Error]",
        "[GPU is lost]",
        "[GPU requires reset]",
        "ERR!",
        "",
    ]
)
CELLS = st.one_of(
    MARKERS,
    st.tuples(NUMBERS, st.sampled_from(["", " MiB", " %", " W", " MHz", " C", "x", " KB/s", " mV"])).map(
        "".join
    ),
    st.sampled_from(
        ["GPU-a", "MIG-b", "P0", "Enabled", "Active", "00000000:0C:00.0", "C+G", "M", "name, more"]
    ),
    st.text(max_size=20),
)
SENTENCES = st.sampled_from(
    [
        "No devices were found",
        "Unable to determine the device handle for GPU0000:02:00.0: GPU is lost",
        'Field "x" is not a valid field to query.',
        "WARNING: infoROM is corrupted at gpu 0000:02:00.0",
        "No running processes found",
    ]
)
NAMES = st.lists(
    st.sampled_from([*QUERY_GPU_FIELDS, *(name for name, _, _ in FIELDS), "pid", "gpu_uuid"]), max_size=8
)
CSV = st.lists(
    st.one_of(
        st.lists(CELLS, max_size=15).map(", ".join), NAMES.map(", ".join), SENTENCES, st.text(max_size=40)
    ),
    max_size=12,
).map("\n".join)
PMON_HEADERS = st.sampled_from(
    [
        "# gpu pid type sm mem enc dec jpg ofa fb ccpm command",
        "# gpu pid type sm mem command",
        "# Idx # C/G % %",
        "#",
    ]
)
PMON = st.lists(
    st.one_of(
        PMON_HEADERS,
        st.lists(st.one_of(CELLS, st.sampled_from("0123-")), max_size=13).map(" ".join),
        SENTENCES,
    ),
    max_size=12,
).map("\n".join)
TAGS = st.sampled_from(
    [
        *(
            "gpu",
            "uuid",
            "product_name",
            "fan_speed",
            "mig_devices",
            "mig_device",
            "index",
            "gpu_instance_id",
        ),
        *("compute_instance_id", "processes", "process_info", "pid", "type", "process_name", "used_memory"),
        *("remapped_rows", "utilization", "gpu_util", "fb_memory_usage", "total", "used", "power_readings"),
        *("power_draw", "pci", "replay_counter", "clocks", "sm_clock", "attached_gpus", "driver_version"),
    ]
)
ELEMENTS = st.recursive(
    CELLS,
    lambda inner: st.tuples(TAGS, st.lists(inner, max_size=4)).map(
        lambda e: (
            f"<{e[0]}>{''.join(e[1])}</{e[0]}>" if e[0] != "gpu" else f'<gpu id="x">{"".join(e[1])}</gpu>'
        )
    ),
    max_leaves=20,
)
XML = st.tuples(
    st.lists(ELEMENTS, max_size=4), st.sampled_from(["</nvidia_smi_log>", "", "</gpu>", "&x;"])
).map(lambda parts: f"<nvidia_smi_log>{''.join(parts[0])}{parts[1]}")
LIST = st.lists(
    st.one_of(
        st.tuples(NUMBERS, CELLS, CELLS).map(lambda c: f"GPU {c[0]}: {c[1]} (UUID: {c[2]})"),
        st.tuples(CELLS, NUMBERS, CELLS).map(lambda c: f"  MIG {c[0]} Device {c[1]}: (UUID: {c[2]})"),
        SENTENCES,
    ),
    max_size=10,
).map("\n".join)
TEXTS = st.one_of(st.text(), CSV, PMON, XML, LIST)

HOSTILE = {
    "commas": "," * 1_000_000,
    "lines of commas": ("," * 12 + "\n") * 20_000,
    "markers": "[N/A], " * 150_000,
    "hashes": "#" * 1_000_000,
    "lines of headers": "# gpu pid\n" * 40_000,
    "lines": "x\n" * 150_000,
    "blanks": " " * 1_000_000,
    "digits": "9" * 1_000_000,
    "brackets": "[" * 1_000_000 + "]" * 1_000_000,
    "deep": "<nvidia_smi_log>" + "<a>" * 500_000,
    "flat": "<nvidia_smi_log>" + "<a/>" * 1_000_001 + "</nvidia_smi_log>",
    "openings": "<nvidia_smi_log" * 100_000,
    "ampersands": "<nvidia_smi_log>" + "&" * 1_000_000,
    "uuids": "GPU 0: " + "(UUID: " * 200_000,
    "partitions": "GPU 0: x (UUID: GPU-a)\n" + "  MIG 1g.5gb Device 0: (UUID: MIG-b)\n" * 10_000,
    "lost devices": "".join(
        f"Unable to determine the device handle for GPU {n:04x}:02:00.0: GPU is lost\n" for n in range(8_000)
    ),
    "processes": "# gpu pid type sm mem command\n" + "".join(f"0 {n} C 1 1 x\n" for n in range(1, 10_000)),
    "devices": "".join(f"{n}, GPU-{n}, X, 1, 2, 3, 4, 5, 6, 7, 8, 4, 16\n" for n in range(4_000)),
    "entities": "<!DOCTYPE x [<!ENTITY a0 'aaaaaaaaaa'>"
    + "".join(f"<!ENTITY a{n} '&a{n - 1};&a{n - 1};'>" for n in range(1, 40))
    + "]><nvidia_smi_log><gpu id='0000:01:00.0'><product_name>&a39;</product_name></gpu></nvidia_smi_log>",
}


NVIDIA_SOURCES = [name for name in sources() if name.startswith("nvidia-smi-")]


@pytest.mark.parametrize("source", NVIDIA_SOURCES)
@given(text=TEXTS)
@example(text="\ufeff# gpu pid\n0")
@example(text="<nvidia_smi_log/>")
@example(text="<nvidia_smi_log><gpu></gpu></nvidia_smi_log>")
def test_any_text_is_parsed_without_invented_values(source: str, text: str) -> None:
    assert_values_are_in_the_text(sources()[source].parse(text, None), text)


@given(text=CSV, names=NAMES)
@pytest.mark.parametrize("source", [name for name, source in sources().items() if source.takes_fields])
def test_any_column_names_are_accepted(source: str, text: str, names: list[str]) -> None:
    assert_values_are_in_the_text(sources()[source].parse(text, names), text)


@pytest.mark.parametrize("source", NVIDIA_SOURCES)
@pytest.mark.parametrize("kind", HOSTILE)
def test_large_outputs_are_parsed_in_linear_time(source: str, kind: str) -> None:
    with in_linear_time():
        parsed = sources()[source].parse(HOSTILE[kind], None)
    assert len(parsed.rejected) <= 101
    assert all(len(rejection.line) <= 500 for rejection in parsed.rejected)


def test_xml_entities_are_not_expanded() -> None:
    [device] = sources()["nvidia-smi-xml"].parse(HOSTILE["entities"], None).devices
    assert device.model == "&a39;"


def assert_values_are_in_the_text(parsed: ParseResult, text: str) -> None:
    """All numbers are finite and, except temperatures, not negative. Pids and instances are in the text. The
    result can be written as JSON."""
    plain(parsed)
    digits = set(re.findall(r"[0-9]+", text))
    stripped = {d.lstrip("0") or "0" for d in digits}
    for name, value in numbers(parsed):
        assert math.isfinite(value)
        assert value >= 0 or "celsius" in name
        if name in ("pid", "gpu_instance_id", "compute_instance_id"):
            assert str(value) in stripped
    if not digits:
        assert not [n for n in numbers(parsed) if n[0] != "index" and n[1] != 0]
