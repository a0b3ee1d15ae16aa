"""Outputs as they also come: other versions, moved columns, damage, messages."""

import json

import pytest
from tests.vendors.furiosa.furiosa_tree import drawn

from accelscope.model import Device, HealthState
from accelscope.parsing import ParseResult, sources
from accelscope.vendors.furiosa.parse_tools import program_name

FULL = "Arch  Device  UUID  S/N  Firmware  Temp.  Power  Core Clock  Governor  PCI-BDF  PCI-DEV"
UUIDS = ("D0000000-0000-4000-8000-000000000001", "D0000000-0000-4000-8000-000000000002")


def with_another_column(text: str) -> str:
    return "\n".join(
        f"{line} Mood |" if "Arch" in line else f"{line} good |" if line.startswith("|") else line
        for line in text.splitlines()
    )


INFO = drawn(
    FULL,
    f"rngd  npu0  {UUIDS[0]}  RNGD900001  2026.2.2, 0a1b2c3  36.25°C  41.00 W  2000 MHz  Performance  "
    "0000:8a:00.0  236:0",
    f"rngd  npu3  {UUIDS[1]}  RNGD900002  2026.2.2, 0a1b2c3  37.50°C  43.00 W  N/A  PowerSave  "
    "0001:0b:00.0  236:20",
)
STATUS = """+------+--------+----------+----------------+------------------+
| Arch | Device | Liveness | Memory         | Core Utilization |
+------+--------+----------+----------------+------------------+
|      |        |          |                | Core 0: 12.50%   |
| rngd | npu0   | alive    | 12.25/47.50 GiB | Core 1: 0.00%    |
|      |        |          |    (25.79%)    | Core 2: -        |
+------+--------+----------+----------------+------------------+
|      |        |          |                | Core 0: -        |
| rngd | npu1   | dead     | 0.00/47.50 GiB | Core 1: -        |
|      |        |          |     (0.00%)    | Core 2: -        |
+------+--------+----------+----------------+------------------+
"""
PS = """+-------+----------------------+---------------------------+
| PID   | NPU core             | CMD                       |
+-------+----------------------+---------------------------+
| 31337 | npu0:[0, 3], npu2:5  | /opt/bin/serve --key=s3cr |
+-------+----------------------+---------------------------+
"""


def parse(source: str, text: str) -> ParseResult:
    return sources()[source].parse(text, None)


def reordered(table: str, order: list[int]) -> str:
    lines = []
    for line in table.splitlines():
        mark = "+" if line.startswith("+") else "|"
        parts = line.strip(mark).split(mark)
        lines.append(mark + mark.join(parts[index] for index in order) + mark)
    return "\n".join(lines) + "\n"


PLAIN = parse("furiosa-smi-info", INFO)


def test_a_full_table_of_2026() -> None:
    first, second = PLAIN.devices
    assert (first.id, first.serial) == ("furiosa:D0000000-0000-4000-8000-000000000001", "RNGD900001")
    assert (first.index, second.index) == (0, 3)  # the number in the name, not the row's
    assert [(clock.domain, clock.hertz) for clock in first.clocks] == [("npu", 2e9)]
    assert [(absence.field, absence.reason.value) for absence in second.absent] == [
        ("clocks.npu", "not_supported")
    ]
    assert second.pci_address == "0001:0b:00.0"
    assert PLAIN.rejected == ()


@pytest.mark.parametrize(
    "text",
    [
        INFO.replace("\n", "\r\n"),
        "\ufeff" + INFO,
        INFO.rstrip("\n"),
        "WARN the driver is newer than this tool\n[INFO] 2026-01-01 starting\n\n" + INFO,
        "\n".join(line for line in INFO.splitlines() if not line.startswith("+")),
        "\n".join(line for number, line in enumerate(INFO.splitlines()) if number not in (4,)),
        "  " + INFO.replace("\n", "\n  "),
        reordered(INFO, [9, 1, 5, 6, 0, 2, 3, 4, 7, 8, 10]),
        with_another_column(INFO),
        INFO.replace("+", "┼").replace("|", "│").replace("-----", "─────"),
        INFO.replace("|  ", "| ").replace("Temp.", "TEMP"),
    ],
    ids=[
        *("crlf", "byte order mark", "no newline", "noise", "no rules", "a rule missing", "indented"),
        *("moved columns", "an unknown column", "other frame", "other blanks"),
    ],
)
def test_the_same_table_in_another_dress(text: str) -> None:
    parsed = parse("furiosa-smi-info", text)
    assert parsed.error is None
    assert parsed.devices == PLAIN.devices


def test_a_column_too_many_and_the_index() -> None:
    """2025.7 had an index in front, and PERT."""
    rows = [
        "| Index | Arch | Device | Firmware | PERT   | Temp.   | Power   | PCI-BDF      |",
        "| 4     | rngd | npu0   | 2025.7.0 | 2025.7 | 30.00°C | 35.00 W | 0000:30:00.0 |",
    ]
    [device] = parse("furiosa-smi-info", "\n".join(rows)).devices
    assert (device.index, device.firmware_version, device.power_watts) == (0, "2025.7.0", 35.0)


def test_a_bad_cell_costs_itself_and_a_bad_row_too() -> None:
    text = INFO.replace("36.25°C", "warm   ") + "| rngd | npu4   | cut off\n"
    parsed = parse("furiosa-smi-info", text)
    assert [device.temperature_celsius for device in parsed.devices] == [None, 37.5]
    assert parsed.devices[0].power_watts == 41.0
    assert [(r.line, r.reason) for r in parsed.rejected] == [
        ("| rngd | npu4   | cut off", "not_a_row"),
        ("temp: warm", "unreadable"),
    ]


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("furiosa-smi-status", STATUS),
        ("furiosactl-list", "| NPU  | DEVNAME |\n| npu1 | npu1pe0 |\n"),
        ("furiosa-smi-ps", PS),
    ],
)
def test_a_row_of_another_width_costs_itself(source: str, text: str) -> None:
    parsed = parse(source, f"{text}| cut off\n")
    plain = parse(source, text)
    assert (parsed.devices, parsed.processes) == (plain.devices, plain.processes)
    assert [(r.line, r.reason) for r in parsed.rejected] == [("| cut off", "not_a_row")]


def test_a_card_of_which_nothing_tells_which_it_is_is_rejected() -> None:
    text = "| Arch | Device | Temp. |\n| rngd | npu0 | 30.00°C |\n| rngd |  | 31.00°C |\n"
    parsed = parse("furiosa-smi-info", text)
    assert [device.temperature_celsius for device in parsed.devices] == [30.0]
    assert [rejection.reason for rejection in parsed.rejected] == ["no_identity"]


def test_a_command_with_bars_may_stand_in_the_middle() -> None:
    text = "| PID | CMD | NPU core |\n| 7 | sh -c 'a | b' | npu0:1 |\n"
    [process] = parse("furiosa-smi-ps", text).processes
    assert (process.name, process.device_index, process.cores) == ("sh", 0, (1,))


def test_a_table_that_ends_within_a_row() -> None:
    parsed = parse("furiosa-smi-info", INFO[: INFO.index("37.50")])
    assert [device.device_name for device in parsed.devices] == ["npu0"]
    assert [rejection.reason for rejection in parsed.rejected] == ["truncated"]


def test_a_table_with_a_header_only_is_a_node_without_cards() -> None:
    header = "".join(line + "\n" for line in INFO.splitlines()[:3])
    assert parse("furiosa-smi-info", header) == ParseResult()
    assert parse("furiosa-smi-ps", "".join(line + "\n" for line in PS.splitlines()[:3])) == ParseResult()


def test_another_table_is_not_this_one() -> None:
    assert parse("furiosa-smi-info", STATUS).error is not None
    assert parse("furiosa-smi-status", INFO).error is not None
    assert parse("furiosa-smi-ps", INFO).error is not None
    both = parse("furiosa-smi-info", STATUS + "\n$ furiosa-smi info\n" + INFO)
    assert [device.id for device in both.devices] == [device.id for device in PLAIN.devices]


def test_a_document_of_info() -> None:
    document = [
        {
            "arch": "rngd",
            "dev_name": "npu2",
            "device_uuid": "D0000000-0000-4000-8000-000000000003",
            "device_sn": "RNGD900003",
            "firmware": "2026.2.2, 0a1b2c3",
            "temperature": "67.28°C",
            "power": 151.0,
            "core_clock": None,
            "pci_bdf": "0000:8A:00.0",
            "surprise": {"deep": [1]},
        }
    ]
    for text in (json.dumps(document), json.dumps(document, indent=2), json.dumps({"devices": document})):
        noisy = f"[WARN] old firmware\nstarting\n{text}\nbye\n"
        [device] = parse("furiosa-smi-info", noisy).devices
        assert (device.temperature_celsius, device.power_watts, device.pci_address) == (
            67.28,
            151.0,
            "0000:8a:00.0",
        )
        assert [(a.field, a.reason.value) for a in device.absent] == [("clocks.npu", "no_sample")]


def test_a_document_that_is_cut_off_keeps_its_whole_objects() -> None:
    text = json.dumps([{"dev_name": f"npu{n}", "pci_bdf": f"0000:0{n}:00.0"} for n in range(3)])
    parsed = parse("furiosa-smi-info", text[:-20])
    assert [device.index for device in parsed.devices] == [0, 1]
    assert [rejection.reason for rejection in parsed.rejected] == ["truncated"]


def test_an_empty_document_is_a_node_without_cards() -> None:
    for source in ("furiosa-smi-info", "furiosa-smi-status", "furiosa-smi-ps", "furiosactl-list"):
        assert parse(source, "[]\n") == ParseResult()


def test_status_of_2026_with_memory() -> None:
    first, second = parse("furiosa-smi-status", STATUS).devices
    assert (first.memory_used_bytes, first.memory_total_bytes) == (round(12.25 * 2**30), 51_002_736_640)
    assert [core.utilization_ratio for core in first.cores] == [0.125, 0.0, None]
    assert [core.occupied for core in first.cores] == [None, None, None]
    assert (first.architecture, second.architecture) == ("rngd", "rngd")
    assert (first.health.state, first.health.vendor_word) == (HealthState.OK, "alive")
    assert (second.health.state, second.health.vendor_word) == (HealthState.CRITICAL, "dead")
    assert [(a.field, a.reason.value) for a in second.absent] == [("cores.utilization_ratio", "no_sample")]


@pytest.mark.parametrize(
    ("word", "state", "kept"),
    [
        ("Alive", HealthState.OK, "Alive"),
        ("true", HealthState.OK, "true"),
        ("1", HealthState.OK, "1"),
        ("not alive", HealthState.CRITICAL, "not alive"),
        ("false", HealthState.CRITICAL, "false"),
        ("0", HealthState.CRITICAL, "0"),
        ("N/A", HealthState.UNKNOWN, None),
        ("asleep", HealthState.UNKNOWN, "asleep"),
    ],
)
def test_a_card_is_as_well_as_the_tool_says(word: str, state: HealthState, kept: str | None) -> None:
    [device] = parse("furiosa-smi-status", f"| Device | Liveness |\n| npu0 | {word} |\n").devices
    assert (device.health.state, device.health.vendor_word) == (state, kept)
    assert (device.health.reason is None) == (state is HealthState.OK)
    assert device.cores == ()


@pytest.mark.parametrize(
    ("text", "cores"),
    [
        ("| Device | Cores |\n| npu0 | 0 (available), 1 (occupied) |\n", [(0, None, False), (1, None, True)]),
        ("| Device | Core Utilization |\n| npu0 | Core 0: 5.00% |\n", [(0, 0.05, None)]),
        (
            "| Device | Cores | Core Utilization |\n| npu0 | 0 (occupied) | Core 0: 5.00% |\n",
            [(0, 0.05, True)],
        ),
    ],
)
def test_status_has_the_columns_that_it_has(
    text: str, cores: list[tuple[int, float | None, bool | None]]
) -> None:
    [device] = parse("furiosa-smi-status", text).devices
    assert [(core.index, core.utilization_ratio, core.occupied) for core in device.cores] == cores


def test_status_of_cards_of_one_line_each_without_rules() -> None:
    text = "| Device | Liveness |\n| npu0 | alive |\n| npu1 | dead |\n"
    found = parse("furiosa-smi-status", text).devices
    assert [(device.device_name, device.health.vendor_word) for device in found] == [
        ("npu0", "alive"),
        ("npu1", "dead"),
    ]


@pytest.mark.parametrize(
    ("cell", "reason", "lines"), [("N/A", "not_supported", []), ("some", "unreadable", ["memory: some"])]
)
def test_memory_that_a_status_does_not_tell_is_absent(cell: str, reason: str, lines: list[str]) -> None:
    parsed = parse("furiosa-smi-status", f"| Device | Liveness | Memory |\n| npu0 | alive | {cell} |\n")
    [device] = parsed.devices
    assert [(a.field, a.reason.value) for a in device.absent] == [("memory_used_bytes", reason)]
    assert [rejection.line for rejection in parsed.rejected] == lines


def test_a_core_whose_use_makes_no_sense_is_named() -> None:
    parsed = parse("furiosa-smi-status", STATUS.replace("12.50%", "a lot "))
    assert [rejection.line for rejection in parsed.rejected] == ["core 0: a"]
    assert parsed.devices[0].cores[0].utilization_ratio is None


def test_a_row_of_status_without_a_card_is_rejected() -> None:
    parsed = parse("furiosa-smi-status", STATUS.replace("npu0", "    "))
    assert [device.device_name for device in parsed.devices] == ["npu1"]
    assert [rejection.reason for rejection in parsed.rejected] == ["no_identity"]


def test_status_without_rules_between_devices() -> None:
    bare = "\n".join(line for line in STATUS.splitlines() if not line.startswith("+"))
    assert parse("furiosa-smi-status", bare).devices == parse("furiosa-smi-status", STATUS).devices


def test_status_documents_of_several_versions() -> None:
    [device] = parse(
        "furiosa-smi-status",
        json.dumps(
            [
                {
                    "index": "0",
                    "arch": "warboy",
                    "device": "npu1",
                    "liveness": "alive",
                    "cores": [{"idx": 0, "status": "occupied"}, {"idx": 1, "status": "available"}],
                    "pe_utilizations": [
                        {"pe_core": 0, "utilization": 99.5},
                        {"pe_core": 1, "utilization": 0.0},
                        {"pe_core": "x", "utilization": 1.0},
                    ],
                    "memory": {"DRAM": {"used_size": -1, "total_size": 17179869184}},
                }
            ]
        ),
    ).devices
    assert [(core.index, core.utilization_ratio, core.occupied) for core in device.cores] == [
        (0, 0.995, True),
        (1, 0.0, False),
    ]
    assert (device.index, device.memory_total_bytes, device.memory_used_bytes) == (1, 17179869184, None)
    assert device.architecture == "warboy"


def test_status_document_with_the_other_names() -> None:
    cores = [
        {"utilization": 1.0},
        {"core": 0, "pe_utilization": 25, "pe_occupancy": True},
        {"core": 1, "pe_utilization": 0, "pe_occupancy": False},
    ]
    memory = {"HBM": {"used_size": 0, "total_size": 5}}
    for name in ("device", "dev_name"):
        document = [{name: "npu1", "pe_utilizations": cores, "memory": memory}]
        parsed = parse("furiosa-smi-status", json.dumps(document))
        [device] = parsed.devices
        assert [(core.index, core.utilization_ratio, core.occupied) for core in device.cores] == [
            (0, 0.25, True),
            (1, 0.0, False),
        ]
        assert (device.memory_used_bytes, device.memory_total_bytes) == (0, 5)
        assert [rejection.reason for rejection in parsed.rejected] == ["unreadable"]


@pytest.mark.parametrize("memory", [None, 5, {}, {"SRAM": {"used_size": 1}}, {"DRAM": 5}])
def test_status_document_without_memory(memory: object) -> None:
    [device] = parse("furiosa-smi-status", json.dumps([{"device": "npu1", "memory": memory}])).devices
    assert (device.memory_used_bytes, device.memory_total_bytes) == (None, None)


@pytest.mark.parametrize(
    ("cell", "held"),
    [
        ("npu0:[0, 7], npu1:[0, 7]", [(0, tuple(range(8))), (1, tuple(range(8)))]),
        ("npu2:0", [(2, (0,))]),
        ("npu2:0, npu2:3", [(2, (0, 3))]),
        ("npu0:[3, 3]", [(0, (3,))]),
        ("npu0:[0,1]", [(0, (0, 1))]),
        ("npu0pe0-1", [(0, (0, 1))]),
        ("rngd/npu10pe4-7", [(10, (4, 5, 6, 7))]),
        ("/dev/npu0pe1", [(0, (1,))]),
        ("npu0", [(0, ())]),  # all of its cores, however many
        ("npu0pe3-1", []),
        ("npu33333", []),  # not card 3333
        ("npu0pe1234", []),  # neither core 123 nor all cores
        ("npu0pe0-1234", []),
        ("npu0:1234", []),
        ("npu0mgmt", []),
        ("gpu0", []),
        ("", []),
    ],
)
def test_what_a_process_holds(cell: str, held: list[tuple[int, tuple[int, ...]]]) -> None:
    text = f"| PID | NPU core | CMD |\n| 7 | {cell} | ./x |\n"
    parsed = parse("furiosa-smi-ps", text)
    assert [(p.device_index, p.cores) for p in parsed.processes] == held
    assert (parsed.error is None) == bool(held)
    assert [rejection.reason for rejection in parsed.rejected] == ([] if held else ["not_a_row"])


def test_a_command_is_its_program_only_and_may_hold_bars() -> None:
    text = PS.replace("/opt/bin/serve --key=s3cr", "sh -c 'a | b' --key=s3cr ")
    parsed = parse("furiosa-smi-ps", text)
    assert {(p.pid, p.name) for p in parsed.processes} == {(31337, "sh")}
    assert "s3cr" not in repr(parsed)
    broken = parse("furiosa-smi-ps", text.replace("31337", "pid"))
    assert broken.processes == ()
    assert [rejection.line for rejection in broken.rejected] == ["pid: pid, npu: npu0:[0, 3], npu2:5"]
    assert "s3cr" not in repr(broken)


def test_a_document_of_processes() -> None:
    document = [
        {"pid": 10, "npu": "npu1pe0-1", "cmd": "/usr/bin/python3 -m x", "memory": "512 MB"},
        {"pid": 11, "device": "npu0:[0, 1]", "command": "y"},
        {"pid": "x", "device": "npu0"},
    ]
    parsed = parse("furiosa-smi-ps", json.dumps(document))
    assert [(p.pid, p.device_index, p.cores, p.name, p.memory_bytes) for p in parsed.processes] == [
        (10, 1, (0, 1), "python3", 512 * 2**20),
        (11, 0, (0, 1), "y", None),
    ]
    assert [rejection.reason for rejection in parsed.rejected] == ["not_a_row"]


def test_half_a_character_in_a_name_costs_that_character() -> None:
    [process] = parse("furiosactl-ps", r'[{"npu": "npu1", "pid": 7, "cmd": "ser\ud800ve"}]').processes
    assert process.name == "ser\ufffdve"


@pytest.mark.parametrize(
    "text",
    [
        "| NPU  | Cores                        | DEVFILES      |\n"
        "| npu1 | 0 (available), 1 (occupied)  | npu1, npu1pe0 |\n",
        json.dumps(
            [
                {
                    "npu": "npu1",
                    "cores": [{"idx": 0, "status": "available"}, {"idx": 1, "status": "occupied"}],
                    "devfiles": ["npu1", "npu1pe0"],
                }
            ]
        ),
        "| NPU  | DEVNAME   | Type      | Status   |\n"
        "| npu1 | npu1      | All PE(s) | Ready    |\n"
        "|      | npu1pe0   | Single PE | Ready    |\n"
        "|      | npu1pe1   | Single PE | Occupied |\n"
        "|      | npu1pe0-1 | PE Fusion | Occupied |\n",
    ],
    ids=["0.9", "0.10 json", "0.5"],
)
def test_which_cores_of_a_warboy_are_held(text: str) -> None:
    [device] = parse("furiosactl-list", text).devices
    assert device.device_name == "npu1"
    assert [(core.index, core.occupied) for core in device.cores] == [(0, False), (1, True)]
    assert parse("furiosactl-list", f"\ufeff{text}").devices == (device,)


def test_what_is_no_core_of_a_list_costs_itself() -> None:
    document = [{"device": "npu1", "cores": [5, {"idx": "x"}, {"idx": 1, "status": "occupied"}, {"idx": 2}]}]
    [device] = parse("furiosactl-list", json.dumps(document)).devices
    assert [(core.index, core.occupied) for core in device.cores] == [(1, True), (2, None)]
    parsed = parse("furiosactl-list", "| NPU  | DEVNAME |\n| npu1 | npu1pe0 |\n| npu1 | what |\n")
    assert [[(core.index, core.occupied) for core in device.cores] for device in parsed.devices] == [
        [(0, None)]
    ]
    assert [(rejection.line, rejection.reason) for rejection in parsed.rejected] == [
        ("devname: what", "unreadable")
    ]


@pytest.mark.parametrize(
    ("source", "text"),
    [("furiosa-smi-info", INFO), ("furiosa-smi-status", STATUS), ("furiosa-smi-ps", PS)],
)
def test_a_byte_order_mark_before_the_header_changes_nothing(source: str, text: str) -> None:
    bare = text.split("\n", 1)[1]  # from the header on
    assert parse(source, f"\ufeff{bare}") == parse(source, text)


ALL = (
    "furiosactl-info",
    "furiosactl-list",
    "furiosactl-ps",
    "furiosa-smi-info",
    "furiosa-smi-status",
    "furiosa-smi-ps",
)


@pytest.mark.parametrize("source", ALL)
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "empty"),
        (" \r\n\n", "empty"),
        ("\ufeff", "empty"),
        ("hello\n", "unrecognized"),
        ("bash: furiosa-smi: command not found\n", "tool_missing"),
        ("sh: 1: furiosactl: not found\n", "tool_missing"),
        ('exec: "furiosa-smi": executable file not found in $PATH', "tool_missing"),
        (
            "furiosa-smi: error while loading shared libraries: libfuriosa_smi.so: cannot open shared object "
            "file: No such file or directory\n",
            "library_missing",
        ),
        ("error: unexpected argument '--format' found\n\nUsage: furiosactl info\n", "unknown_option"),
        ("error: Found argument '--format' which wasn't expected\n", "unknown_option"),
        ("error: unrecognized subcommand 'status'\n", "unknown_option"),
        ("Error: device not found error\n", "no_devices"),
        ("No devices found\n", "no_devices"),
        ("Error: permission denied error\n", "no_permission"),
        ("Error: incompatible driver error\n", "version_mismatch"),
        ("Error: the kernel driver is not loaded\n", "driver_not_loaded"),
        ("Error: io error\n", "driver_error"),
        ("thread 'main' panicked at src/main.rs:12\n", "driver_error"),
        ('{"error": "device not found error"}\n', "no_devices"),
    ],
)
def test_a_message_has_a_reason(source: str, text: str, reason: str) -> None:
    parsed = parse(source, text)
    assert parsed.error is not None
    assert (parsed.error.reason, parsed.devices, parsed.processes) == (reason, (), ())
    assert parsed.error.text


@pytest.mark.parametrize(
    "masked",
    [
        "<redacted-uuid>",
        "<device_uuid>",
        "XXXXXXXX-XXXX-XXXX-XXXX-XXXXXXXXXXXX",
        "********-****-****-****-************",
        "ffffffff-ffff-ffff-ffff-ffffffffffff",
        "00000000-0000-0000-0000-000000000000",
    ],
)
def test_cards_with_masked_uuids_have_ids_of_their_own(masked: str) -> None:
    text = INFO.replace(UUIDS[0], masked).replace(UUIDS[1], masked)
    assert ids("furiosa-smi-info", text) == BY_ADDRESS


def ids(source: str, text: str) -> list[str]:
    return [card.id for card in parse(source, text).devices]


BY_ADDRESS = ["furiosa:0000:8a:00.0", "furiosa:0001:0b:00.0"]


def test_cards_that_were_given_one_uuid_have_ids_of_their_own() -> None:
    assert ids("furiosa-smi-info", INFO.replace(UUIDS[1], UUIDS[0])) == BY_ADDRESS


@pytest.mark.parametrize("serial", ["0", "00", "0000000000", "<device_sn>", "RNGD900001"])
@pytest.mark.parametrize("uuid", ["00000000-0000-0000-0000-000000000000", UUIDS[0]])
def test_cards_with_one_uuid_and_one_serial_have_ids_of_their_own(uuid: str, serial: str) -> None:
    text = INFO
    for number, own in enumerate(UUIDS[:2], 1):
        text = text.replace(own, uuid).replace(f"RNGD90000{number}", serial)
    assert ids("furiosa-smi-info", text) == BY_ADDRESS


@pytest.mark.parametrize(
    ("serials", "expected"),
    [
        (("A1", "A2"), ["furiosa:A1", "furiosa:A2"]),
        (("A1", "A1"), ["furiosa:unidentified-0", "furiosa:unidentified-1"]),
        (("0", "0"), ["furiosa:unidentified-0", "furiosa:unidentified-1"]),
        (("0", "A2"), ["furiosa:unidentified-0", "furiosa:A2"]),
    ],
)
def test_without_an_address_a_card_goes_by_a_serial_that_is_its_own(
    serials: tuple[str, str], expected: list[str]
) -> None:
    cards = [
        {"dev_name": f"npu{index}", "arch": "rngd", "device_sn": serial, "temperature": "40.25°C"}
        for index, serial in enumerate(serials)
    ]
    assert ids("furiosa-smi-info", json.dumps(cards)) == expected


YAML_INFO = """---
- dev_name: npu7
  product_name: warboy
  device_uuid: A0000007-1111-2222-3333-444444444444
  device_sn: WBYB0012345
  firmware: "1.6.0, 7a3b908"
  temperature: 47°C
  power: 0.99 W
  pci_bdf: 0000:44:00.0
  pci_dev: 511:0
- dev_name: npu8
  product_name: warboy
  pci_bdf: "0000:45:00.0"
"""


def test_furiosactl_in_yaml() -> None:
    """YAML reads 511:0 and 0000:44:00.0 as numbers in base 60; they are texts here."""
    for text in (YAML_INFO, YAML_INFO.removeprefix("---\n"), f"WARN an old driver\n{YAML_INFO}"):
        parsed = parse("furiosactl-info", text)
        assert (parsed.error, parsed.rejected) == (None, ())
        first, second = parsed.devices
        assert (first.device_name, first.model, first.serial) == ("npu7", "warboy", "WBYB0012345")
        assert (first.temperature_celsius, first.power_watts) == (47.0, 0.99)
        assert (first.pci_address, first.device_number) == ("0000:44:00.0", "511:0")
        assert (second.device_name, second.pci_address) == ("npu8", "0000:45:00.0")


def test_processes_and_cores_of_furiosactl_in_yaml() -> None:
    [process] = parse("furiosactl-ps", "- npu: npu0pe0-1\n  pid: 4242\n  cmd: ./infer --token=x\n").processes
    assert (process.pid, process.device_index, process.cores, process.name) == (4242, 0, (0, 1), "infer")
    listed = (
        "- npu: npu0\n  cores:\n  - idx: 0\n    status: available\n  - idx: 1\n    status: occupied\n"
        "  devfiles:\n  - npu0\n  - npu0pe0\n"
    )
    [card] = parse("furiosactl-list", listed).devices
    assert [(core.index, core.occupied) for core in card.cores] == [(0, False), (1, True)]
    assert card.device_files == ("npu0", "npu0pe0")


def test_an_item_of_yaml_that_is_cut_off_costs_itself() -> None:
    parsed = parse("furiosactl-info", YAML_INFO[: YAML_INFO.index('  pci_bdf: "0000:45')] + "  pci_bd")
    assert [card.device_name for card in parsed.devices] == ["npu7"]
    assert [rejection.reason for rejection in parsed.rejected] == ["truncated"]


def test_yaml_with_references_is_not_followed() -> None:
    bomb = "- dev_name: &a [x, x, x]\n  power: [*a, *a, *a]\n"
    parsed = parse("furiosactl-info", bomb)
    assert (parsed.devices, parsed.error is not None) == ((), True)


def test_an_empty_list_in_yaml() -> None:
    assert parse("furiosactl-info", "--- []\n") == ParseResult()


@pytest.mark.parametrize(
    "text",
    [
        "| NPU  | Cores | DEVFILES |\n| npu1 | 0 (available) | npu1, npu1pe0, npu1pe0-1 |\n",
        "| NPU  | DEVNAME |\n| npu1 | npu1 |\n|      | npu1pe0 |\n|      | npu1pe0-1 |\n",
        '[{"npu": "npu1", "cores": [], "devfiles": ["npu1", "npu1pe0", "npu1pe0-1"]}]',
    ],
)
def test_device_files_of_a_list(text: str) -> None:
    [card] = parse("furiosactl-list", text).devices
    assert card.device_files == ("npu1", "npu1pe0", "npu1pe0-1")


def test_identity_of_a_card_without_a_uuid_of_its_own() -> None:
    nil = INFO.replace("D0000000-0000-4000-8000-000000000001", "00000000-0000-0000-0000-000000000000")
    first: Device = parse("furiosa-smi-info", nil).devices[0]
    assert (first.id, first.uuid) == ("furiosa:0000:8a:00.0", "00000000-0000-0000-0000-000000000000")


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("API_KEY=secret python3 serve.py", "python3"),
        ("A=1 B=2", None),
        ("/opt/run --token=x", "run"),
        ("/opt/run/ --token=x", "run"),
        ("/", None),
        ("", None),
    ],
)
def test_neither_arguments_nor_environment_are_names(command: str, name: str | None) -> None:
    assert program_name(command) == name
