"""`npu-smi info` in variants that are not among the captures."""

from dataclasses import replace

import pytest

from accelscope.model import Absence, AbsenceReason, Device, HealthState, ProcessType
from accelscope.vendors.ascend.parse_info import has_process_table, is_complete, parse

MIB = 2**20

PAIR = """\
+-----------------------------------------------------------------------+
| npu-smi 24.9.1              Version: 24.9.2                           |
+---------------------+---------------+---------------------------------+
| NPU   Name          | Health        | Power(W)  Temp(C)  Hugepages-Usage(page) |
| Chip  Phy-ID        | Bus-Id        | AICore(%) Memory-Usage(MB) HBM-Usage(MB) |
+=====================+===============+=================================+
| 4     Ascend910     | OK            | 150.5     41       3    / 7     |
| 0     8             | 0000:AB:00.0  | 12        0    / 0  4000 / 65536 |
+-----------------------------------------------------------------------+
| 4     Ascend910     | Warning       | -         43       0    / 0     |
| 1     9             | 0000:AD:00.0  | 99        0    / 0  61000/ 65536 |
+=====================+===============+=================================+
+---------------------+---------------+---------------------------------+
| NPU     Chip        | Process id    | Process name | Process memory(MB) |
+=====================+===============+=================================+
| 4       1           | 4711          | trainer      | 57000           |
+=====================+===============+=================================+
"""


def only(text: str) -> Device:
    parsed = parse(text)
    assert parsed.error is None
    [device] = parsed.devices
    return device


def one_chip(upper: str, lower: str, *, columns: str = "AICore(%) Memory-Usage(MB) HBM-Usage(MB)") -> str:
    return (
        "| NPU   Name | Health | Power(W)  Temp(C)  Hugepages-Usage(page) |\n"
        f"| Chip       | Bus-Id | {columns} |\n"
        f"| {upper} |\n| {lower} |\n+==+\n"
    )


def test_two_chips_of_an_npu_are_parsed() -> None:
    parsed = parse(PAIR)
    first, second = parsed.devices
    assert parsed.error is None
    assert parsed.rejected == ()
    assert (first.board_id, first.chip_id, first.physical_id) == (4, 0, 8)
    assert (second.board_id, second.chip_id, second.physical_id) == (4, 1, 9)
    assert first.driver_version == "24.9.2"
    assert (first.power_watts, second.power_watts) == (150.5, None)
    assert second.absent == (Absence("power_watts", AbsenceReason.SHARED),)
    assert first.memory_used_bytes == 4000 * MIB
    assert second.memory_used_bytes == 61000 * MIB
    assert [first.health.state, second.health.state] == [HealthState.OK, HealthState.WARNING]
    assert second.health.vendor_word == "Warning"
    [process] = parsed.processes
    assert (process.pid, process.device, process.name) == (4711, second.id, "trainer")
    assert (process.type, process.memory_bytes) == (ProcessType.COMPUTE, 57000 * MIB)


def test_the_logic_id_is_the_index() -> None:
    parsed = parse(PAIR.replace("| Chip  Phy-ID ", "| Chip  Device "))
    assert [(d.chip_id, d.index, d.physical_id) for d in parsed.devices] == [(0, 8, None), (1, 9, None)]
    assert [process.device_index for process in parsed.processes] == [9]
    assert [device.index for device in parse(PAIR).devices] == [None, None]


@pytest.mark.parametrize(
    ("old", "new"),
    [("| 0     8 ", "| x     8 "), ("| 4     Ascend910     | OK", "| x     Ascend910     | OK")],
)
def test_a_chip_without_its_number_is_rejected(old: str, new: str) -> None:
    parsed = parse(PAIR.replace(old, new))
    assert [(d.board_id, d.chip_id) for d in parsed.devices] == [(4, 1)]
    [rejection] = parsed.rejected
    assert rejection.reason == "unidentified"
    assert "0000:AB:00.0" in rejection.line


@pytest.mark.parametrize(
    "change",
    [
        lambda text: "\ufeff" + text,
        lambda text: text.replace("\n", "\r\n"),
        lambda text: text.rstrip("\n"),
        lambda text: "DrvMngGetConsoleLogLevel failed. (g_conLogLevel=3)\n" * 3 + text,
        lambda text: "root@node:~# npu-smi info\n\n" + text + "\nroot@node:~#\n",
        lambda text: "\n".join(f"        {line}   " for line in text.splitlines()),
        lambda text: "\n".join(line for line in text.splitlines() if not line.startswith("+")),
        lambda text: text.replace("+====", "+----"),
        lambda text: text + "[WARNING]The driver package may not be completely installed, reinstall it.\n",
        lambda text: text + text,
    ],
    ids=[
        *("byte order mark", "CRLF", "no last newline", "noise before", "a shell around it", "indented"),
        *("no borders", "other borders", "a warning after it", "printed twice"),
    ],
)
def test_text_around_the_table_does_not_change_the_result(change: object) -> None:
    assert callable(change)
    parsed, plain = parse(change(PAIR)), parse(PAIR)
    assert parsed.devices == plain.devices
    assert dict.fromkeys(parsed.processes) == dict.fromkeys(plain.processes)
    assert parsed.rejected == ()


def test_the_banner_may_be_missing() -> None:
    text = "\n".join(PAIR.splitlines()[3:])
    assert parse(text).devices == tuple(replace(d, driver_version=None) for d in parse(PAIR).devices)


def test_columns_are_found_by_their_names() -> None:
    moved = (
        "| Health | NPU ID | Fan(%) | Name | Hugepages-Usage(page) Temp(C) Volt(V) Power(W) |\n"
        "| Bus-Id |        |        |      | HBM-Usage(MB) NPU Util(%) Memory-Usage(MB) |\n"
        "| Alarm  | 12     | 33     | AscendX | 1 / 2  55  0.8  301.5 |\n"
        "| NA     |        |        |         | 10 / 20  7  5 / 6 |\n"
    )
    device = only(moved)
    assert (device.board_id, device.chip_id, device.model) == (12, None, "AscendX")
    assert (device.power_watts, device.temperature_celsius) == (301.5, 55.0)
    assert device.utilization_ratio == 0.07
    assert (device.memory_used_bytes, device.memory_total_bytes) == (10 * MIB, 20 * MIB)
    assert device.health.state is HealthState.CRITICAL


@pytest.mark.parametrize(
    ("word", "state"),
    [
        ("OK", HealthState.OK),
        ("Warning", HealthState.WARNING),
        ("Alarm", HealthState.CRITICAL),
        ("Critical", HealthState.CRITICAL),
        ("UNKNOWN", HealthState.UNKNOWN),
        ("Offline", HealthState.UNKNOWN),
        ("", HealthState.UNKNOWN),
    ],
)
def test_the_drivers_word_for_health_is_kept(word: str, state: HealthState) -> None:
    health = only(one_chip(f"0 910X | {word} | 1.0 2 0 / 0", "0 | 0000:01:00.0 | 3 0 / 0 4 / 5")).health
    assert health.state is state
    assert health.vendor_word == (word or None)
    assert (health.reason is None) == (state is HealthState.OK)


@pytest.mark.parametrize(
    ("upper", "lower", "field", "reason"),
    [
        ("NA 40 0 / 0", "5 0 / 0 1 / 2", "power_watts", AbsenceReason.NOT_SUPPORTED),
        ("0.0 40 0 / 0", "5 0 / 0 1 / 2", "power_watts", AbsenceReason.NOT_SUPPORTED),
        ("- 40 0 / 0", "5 0 / 0 1 / 2", "power_watts", AbsenceReason.NO_SAMPLE),
        ("99.0 NA 0 / 0", "5 0 / 0 1 / 2", "temperature_celsius", AbsenceReason.NOT_SUPPORTED),
        ("99.0 40 0 / 0", "NA 0 / 0 1 / 2", "utilization_ratio", AbsenceReason.NOT_SUPPORTED),
        ("99.0 40 0 / 0", "5 0 / 0 NA / 2", "memory_used_bytes", AbsenceReason.NOT_SUPPORTED),
        ("99.0 40 0 / 0", "5 0 / 0 0 / 0", "memory_total_bytes", AbsenceReason.NOT_SUPPORTED),
        ("99.0 40 0 / 0", "5 0 / 0 0 / 0", "memory_used_bytes", AbsenceReason.NOT_SUPPORTED),
    ],
)
def test_missing_values_are_absent_with_a_reason(
    upper: str, lower: str, field: str, reason: AbsenceReason
) -> None:
    parsed = parse(one_chip(f"0 910X | OK | {upper}", f"0 | 0000:01:00.0 | {lower}"))
    [device] = parsed.devices
    assert getattr(device, field) is None
    assert Absence(field, reason) in device.absent
    assert parsed.rejected == ()


@pytest.mark.parametrize(
    ("upper", "lower", "fields"),
    [
        ("hot 40 0 / 0", "5 0 / 0 1 / 2", ["power_watts"]),
        ("-5.0 40 0 / 0", "5 0 / 0 1 / 2", ["power_watts"]),
        ("99.0 40 0 / 0", "5 0 / 0 x / 2", ["memory_used_bytes"]),
        ("99.0 40 0 / 0", "5 0 / 0", ["memory_used_bytes", "memory_total_bytes"]),
        ("99.0 0 / 0", "5 0 / 0 1 / 2", ["power_watts", "temperature_celsius"]),
        ("99.0 40 0 / 0", "9999999 0 / 0 1 / 2", ["utilization_ratio"]),
        ("99.0 40 0 / 0", "5 6 0 / 0 1 / 2", ["utilization_ratio"]),
    ],
)
def test_an_unreadable_cell_affects_only_itself(upper: str, lower: str, fields: list[str]) -> None:
    parsed = parse(one_chip(f"0 910X | OK | {upper}", f"0 | 0000:01:00.0 | {lower}"))
    [device] = parsed.devices
    assert [a.field for a in device.absent if a.reason is AbsenceReason.UNREADABLE] == fields
    assert [getattr(device, field) for field in fields] == [None] * len(fields)
    assert {r.reason for r in parsed.rejected} == {"unreadable"}
    columns = ("Power(W)", "Temp(C)", "AICore(%)", "hbm-usage", "memory-usage")
    assert all(r.line.partition(":")[0] in columns for r in parsed.rejected)
    assert device.pci_address == "0000:01:00.0"


def test_ddr_is_the_memory_of_chips_without_hbm() -> None:
    """Also where the tool has a column for HBM that is empty. Hugepages are not memory."""
    text = one_chip("0 910X | OK | 9.0 40 15 / 16", "0 | 0000:01:00.0 | 5 70 / 80 0 / 0")
    assert only(text).memory_total_bytes == 80 * MIB
    text = one_chip(
        "0 310X | OK | 9.0 40 15 / 16",
        "0 | 0000:01:00.0 | 5 70 / 80",
        columns="AICore(%) Memory-Usage(MB)",
    )
    assert only(text).memory_used_bytes == 70 * MIB


def test_a_truncated_table_gives_only_values_that_it_contains() -> None:
    whole = {(d.board_id, d.chip_id): d for d in parse(PAIR).devices}
    for end in range(len(PAIR)):
        parsed = parse(PAIR[:end])
        assert all(device == whole[device.board_id, device.chip_id] for device in parsed.devices)
        assert {p.pid for p in parsed.processes} <= {4711}
        assert bool(parsed.devices) == (parsed.error is None)


def test_a_chip_with_only_one_line_is_rejected() -> None:
    lines = PAIR.splitlines(keepends=True)
    for missing in (6, 7):
        parsed = parse("".join(line for n, line in enumerate(lines) if n != missing))
        assert [(d.board_id, d.chip_id) for d in parsed.devices] == [(4, 1)]
        assert [r.reason for r in parsed.rejected] == ["incomplete"]


def test_processes_of_a_chip_without_a_row_are_kept() -> None:
    lines = PAIR.splitlines(keepends=True)
    parsed = parse("".join(line for n, line in enumerate(lines) if n != 10))
    assert [p.device for p in parsed.processes] == ["ascend:npu-4-1"]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("| 4       1 | zero | trainer | 57000 |", "not_a_row"),
        ("| 4       1 | 0    | trainer | 57000 |", "not_a_row"),
        ("| x       1 | 4711 | trainer | 57000 |", "not_a_row"),
        ("| 4       1 | 4711 | 57000 |", "not_a_row"),
        ("| 4       1 | 4711 | trainer | much |", "unreadable"),
    ],
)
def test_an_unreadable_process_line_is_rejected(row: str, reason: str) -> None:
    old = "| 4       1           | 4711          | trainer      | 57000           |"
    parsed = parse(PAIR.replace(old, row))
    assert [r.reason for r in parsed.rejected] == [reason]
    assert [p.memory_bytes for p in parsed.processes] == ([None] if reason == "unreadable" else [])


@pytest.mark.parametrize(
    ("name", "shown"),
    [("python3", "python3"), ("", None), ("NA", None), ("/opt/run --token=x", "run"), ("a b", "a b")],
)
def test_process_names_are_parsed(name: str, shown: str | None) -> None:
    [process] = parse(PAIR.replace("trainer", name)).processes
    assert process.name == shown


SHARED_ADDRESS = PAIR.replace("0000:AD:00.0", "0000:AB:00.0")


def test_the_id_of_a_chip_does_not_depend_on_other_chips() -> None:
    first, second = parse(SHARED_ADDRESS).devices
    assert first.id == "ascend:0000:ab:00.0-npu-4-0"
    assert second.id == "ascend:0000:ab:00.0-npu-4-1"
    lines = SHARED_ADDRESS.splitlines(keepends=True)
    heading, rows, rest = lines[:6], lines[6:11], lines[11:]
    without_first = "".join([*heading, *rows[3:], *rest])
    without_second = "".join([*heading, *rows[:2], *rest])
    swapped = "".join([*heading, *rows[3:], *rows[:3], *rest])
    assert [device.id for device in parse(without_first).devices] == [second.id]
    assert [device.id for device in parse(without_second).devices] == [first.id]
    assert [device.id for device in parse(swapped).devices] == [second.id, first.id]


def test_npus_with_the_same_bus_address_have_different_ids() -> None:
    """As in a saved output with masked addresses."""
    rows = "".join(
        f"| {n}  910X | OK | 90.0 40 0 / 0 |\n| 0 | 0000:00:00.0 | 5 0 / 0 1 / 2 |\n" for n in range(3)
    )
    heading = "".join(PAIR.replace("Phy-ID", "").splitlines(keepends=True)[3:5])
    ids = [device.id for device in parse(heading + rows).devices]
    assert ids == [f"ascend:0000:00:00.0-npu-{n}-0" for n in range(3)]


def test_a_table_without_its_last_line_is_incomplete() -> None:
    assert is_complete(PAIR)
    assert is_complete(PAIR + "[WARNING]The driver package may not be completely installed\n")
    assert not is_complete("".join(PAIR.splitlines(keepends=True)[:-1]))
    assert not is_complete("")
    assert has_process_table(PAIR)
    assert not has_process_table("".join(PAIR.splitlines(keepends=True)[:12]))


@pytest.mark.parametrize(
    "name", ["python3 -m x --token=abc", "/usr/bin/python3 serve.py --token=abc", "a|--token=abc"]
)
def test_arguments_of_processes_are_never_published(name: str) -> None:
    row = f"| 0       0                 | 4242          | {name} | 10 |"
    parsed = parse(
        one_chip("0 910B3 | OK | 90.0 40 0 / 0", "0 | 0000:C1:00.0 | 5 0 / 0 100 / 65536")
        + "| NPU     Chip              | Process id    | Process name | Process memory(MB) |\n"
        + row
        + "\n"
    )
    assert "token" not in repr(parsed)
