"""The `-t` commands and the map in variants that are not among the captures."""

import pytest

from accelscope.model import Clock, EccCount, HealthState, ProcessType, Rail, Sensor
from accelscope.parsing import ParseResult, sources
from accelscope.vendors.ascend.parse_values import board_power_watts, boards_in, parse_memory, parse_volt

MIB = 2**20


def parsed(kind: str, text: str) -> ParseResult:
    return sources()[f"npu-smi-{kind}"].parse(text, None)


USAGES_CHIP_LAST = """\
NPU ID                         : 7
Chip Count                     : 2

HBM Capacity(MB)               : 65536
HBM Usage Rate(%)              : 50
Aicore Usage Rate(%)           : 88
Chip ID                        : 0

Aicore Usage Rate(%)           : 21
HBM Usage Rate(%)              : 25
HBM Capacity(MB)               : 65536
Chip ID                        : 1
"""
USAGES_CHIP_FIRST = """\
NPU ID : 7
Chip Count : 2
Chip ID : 0
HBM Capacity(MB) : 65536
HBM Usage Rate(%) : 50
Aicore Usage Rate(%) : 88
Chip ID : 1
Aicore Usage Rate(%) : 21
HBM Usage Rate(%) : 25
HBM Capacity(MB) : 65536
"""


@pytest.mark.parametrize("text", [USAGES_CHIP_LAST, USAGES_CHIP_FIRST])
@pytest.mark.parametrize(
    "around",
    ["{}", "\ufeff{}", "DrvMngGetConsoleLogLevel failed. (ret=4)\n{}", "# npu-smi info -t usages\n\n{}\n# "],
)
def test_values_are_assigned_to_their_chip(text: str, around: str) -> None:
    for variant in (text, text.replace("\n", "\r\n"), text.replace("NPU ID", "\tNPU ID"), text.strip()):
        found = parsed("usages", around.format(variant))
        assert found.error is None
        assert [(d.board_id, d.chip_id, d.utilization_ratio) for d in found.devices] == [
            (7, 0, 0.88),
            (7, 1, 0.21),
        ]
        assert [d.memory_used_bytes for d in found.devices] == [32768 * MIB, 16384 * MIB]


def test_several_npus_in_one_output_are_parsed() -> None:
    text = USAGES_CHIP_LAST + USAGES_CHIP_FIRST.replace("NPU ID : 7", "NPU ID : 8")
    found = parsed("usages", text)
    assert [(d.board_id, d.chip_id) for d in found.devices] == [(7, 0), (7, 1), (8, 0), (8, 1)]


def test_without_a_chip_id_the_values_belong_to_the_npu() -> None:
    found = parsed("usages", "NPU ID : 3\nHBM Capacity(MB) : 131072\nNPU Utilization(%) : 12\n")
    [device] = found.devices
    assert (device.board_id, device.chip_id) == (3, None)
    assert device.utilization_ratio == 0.12
    assert device.memory_used_bytes is None


def test_values_without_their_truncated_chip_id_are_ignored() -> None:
    cut = USAGES_CHIP_LAST[: USAGES_CHIP_LAST.rindex("Chip ID")]
    assert [d.chip_id for d in parsed("usages", cut).devices] == [0]
    assert parsed("usages", cut[: cut.index("Chip ID")]).error is not None


def test_a_chip_without_memory_capacity_has_no_memory() -> None:
    text = "NPU ID : 0\nDDR Capacity(MB) : 0\nDDR Usage Rate(%) : 0\nAicore Usage Rate(%) : 5\nChip ID : 0\n"
    [device] = parsed("usages", text).devices
    assert device.memory_total_bytes is None
    assert [a.field for a in device.absent] == ["memory_total_bytes"]


@pytest.mark.parametrize(
    ("lines", "ratio"),
    [
        ("DDR Bandwidth Usage Rate(%) : 0\nHBM Bandwidth Usage Rate(%) : 7", 0.07),
        ("DDR Bandwidth Usage Rate(%) : 51", 0.51),
        ("Memory Bandwidth Usage Rate(%) : 3", 0.03),
        ("DDR Capacity(MB) : 0\nDDR Bandwidth Usage Rate(%) : 0\nHBM Bandwidth Usage Rate(%) : 7", 0.07),
        ("HBM Capacity(MB) : NA\nHBM Bandwidth Usage Rate(%) : 0", 0.0),
    ],
)
def test_bandwidth_is_read_without_a_line_for_the_capacity(lines: str, ratio: float) -> None:
    [device] = parsed("usages", f"NPU ID : 0\nAicore Usage Rate(%) : 5\n{lines}\nChip ID : 0\n").devices
    assert (device.memory_utilization_ratio, device.utilization_ratio) == (ratio, 0.05)
    assert device.memory_used_bytes is None


def test_a_memory_usage_above_100_percent_is_rejected() -> None:
    text = "NPU ID : 0\nHBM Capacity(MB) : 65536\nHBM Usage Rate(%) : {}\nChip ID : 0\n"
    [full] = parsed("usages", text.format(100)).devices
    assert full.memory_used_bytes == 65536 * MIB
    [device] = parsed("usages", text.format(101)).devices
    assert (device.memory_used_bytes, device.memory_total_bytes) == (None, 65536 * MIB)


def test_the_memory_keys_of_the_310_are_read() -> None:
    text = (
        "NPU ID : 1\nChip Count : 1\n\nMemory Capacity(MB) : 8192\nMemory Usage Rate(%) : 25\n"
        "Hugepages Total(page) : 15\nHugepages Usage Rate(%) : 100\nAicore Usage Rate(%) : 4\n"
        "Memory Bandwidth Usage Rate(%) : 7\nChip ID : 0\n"
    )
    [device] = parsed("usages", text).devices
    assert device.memory_used_bytes == 2048 * MIB
    assert device.memory_utilization_ratio == 0.07


COMMON_WITH_CONTROLLER = """\
NPU ID : 1
Chip Count : 2

Chip ID : 0
Aicore Freq(MHZ) : 1200
Aicore curFreq(MHZ) : 700
Temperature(C) : 60

Chip ID : 1
Aicore Usage Rate(%) : 4
Temperature(C) : NA

Chip Name : mcu
Temperature(C) : 48
NPU Real-time Power(W) : 45.2
"""


def test_the_controller_of_a_board_is_not_a_chip() -> None:
    found = parsed("common", COMMON_WITH_CONTROLLER)
    first, second = found.devices
    assert first.clocks == (Clock("aicore", hertz=7e8, max_hertz=1.2e9),)
    assert (first.temperature_celsius, second.temperature_celsius) == (60.0, None)
    assert (first.power_watts, second.power_watts) == (None, None)
    assert [a.field for a in second.absent] == ["temperature_celsius"]


def test_the_power_of_a_board_comes_from_its_controller() -> None:
    assert board_power_watts(COMMON_WITH_CONTROLLER) == 45.2
    assert board_power_watts(COMMON_WITH_CONTROLLER.replace("45.2", "0.0")) is None
    assert board_power_watts(USAGES_CHIP_LAST) is None


def test_the_power_of_an_npu_is_published_once() -> None:
    text = (
        "NPU ID : 1\nChip Count : 2\n\nChip ID : 0\nNPU Real-time Power(W) : 160.5\n"
        "\nChip ID : 1\nNPU Real-time Power(W) : 160.5\n"
    )
    first, second = parsed("common", text).devices
    assert (first.power_watts, second.power_watts) == (160.5, None)
    assert [(a.field, a.reason.value) for a in second.absent] == [("power_watts", "shared")]


def test_a_power_of_zero_is_not_measured() -> None:
    """No running chip draws 0.0 W: the 310B prints that where it does not measure."""
    text = "NPU ID : 1\nChip Count : 1\n\nChip ID : 0\nTemperature(C) : 50\nNPU Real-time Power(W) : 0.0\n"
    [device] = parsed("common", text).devices
    assert device.power_watts is None
    assert [(a.field, a.reason.value) for a in device.absent] == [("power_watts", "not_supported")]


@pytest.mark.parametrize("name", ["mcu", "MCU", "Mcu", "3559"])
def test_output_about_a_controller_is_rejected(name: str) -> None:
    text = f"NPU ID : 0\nChip ID : 1\nChip Name : {name}\nFirmware Version : 24.15.15\n"
    assert parsed("board", text).error is not None


def test_a_board_is_parsed_with_its_serial_number() -> None:
    text = (
        "NPU ID : 6\nProduct Name : IT21\nModel : NA\nManufacturer : NA\nSerial Number : 0123ABC\n"
        "Software Version : 25.1.2\nFirmware Version : 7.7.0.1\nCompatibility : NOT SUPPORT\n"
        "PCIe Bus Info : 0000:C1:00.0\nSlot ID : 0\nChip Count : 2\nChip Fault : 0\n"
    )
    [device] = parsed("board", text).devices
    assert device.id == "ascend:0123ABC"
    assert (device.board_id, device.chip_id) == (6, None)
    assert (device.driver_version, device.firmware_version) == ("25.1.2", "7.7.0.1")


@pytest.mark.parametrize(
    ("line", "uuid"),
    [
        ("VDie ID : 0A000001 0B000002 0C000003", "0A000001-0B000002-0C000003"),
        ("Die ID : 0a000001 0b000002", "0A000001-0B000002"),
        ("Die ID : V1, 0A000001 0B000002", "0A000001-0B000002"),
        ("VDie ID : 00000000 00000000 00000000", None),
        ("VDie ID : NA", None),
        ("VDie ID : something else", None),
    ],
)
def test_the_die_id_is_the_uuid(line: str, uuid: str | None) -> None:
    found = parsed("board", f"NPU ID : 0\nChip ID : 1\n{line}\nNDie ID : 0F000001 0F000002\nChip Name : X\n")
    [device] = found.devices
    assert device.uuid == uuid
    assert device.id == ("ascend:npu-0-1" if uuid is None else f"ascend:{uuid}")


@pytest.mark.parametrize(
    ("die", "serial", "identity"),
    [
        ("FFFFFFFF FFFFFFFF", "S1", "S1-1"),
        ("FFFFFFFF FFFFFFFF", "1023xxxx", "0000:c1:00.0-npu-6-1"),
        ("NA", "**********", "0000:c1:00.0-npu-6-1"),
        ("0A000001 0B000002", "**********", "0A000001-0B000002"),
    ],
)
def test_a_masked_die_or_serial_number_is_not_used_as_an_id(die: str, serial: str, identity: str) -> None:
    text = (
        f"NPU ID : 6\nChip ID : 1\nVDie ID : {die}\nSerial Number : {serial}\nPCIe Bus Info : 0000:C1:00.0\n"
    )
    [device] = parsed("board", text).devices
    assert device.id == f"ascend:{identity}"


@pytest.mark.parametrize(
    ("text", "state", "codes"),
    [
        ("Health Status : OK\nError Code : NA\nError Information : NA\n", HealthState.OK, []),
        ("NPU ID : 0\nHealth : OK\nError Code : NA\nError Information : NA\n", HealthState.OK, []),
        (
            "\tHealth Status : Warning\n\tError Code : 80E01801\n\tError Information : node type=SoC\n",
            HealthState.WARNING,
            ["80E01801"],
        ),
        (
            "Health Status : Alarm\nError Code : 80e01801 0x81078603\nError Information : hot\n\n\t : link\n",
            HealthState.CRITICAL,
            ["80E01801", "81078603"],
        ),
        ("Health Status : NA\n", HealthState.UNKNOWN, []),
    ],
)
def test_health_is_parsed_with_error_codes(text: str, state: HealthState, codes: list[str]) -> None:
    [device] = parsed("health", text).devices
    assert device.health.state is state
    assert [(e.kind, e.code, e.count) for e in device.errors] == [("npu", code, 1) for code in codes]


def test_the_drivers_text_for_error_codes_is_the_reason() -> None:
    text = "Health Status : Alarm\nError Code : A0 80E01801\nError Information : hot\n\n : link down\n"
    found = parsed("health", text)
    [device] = found.devices
    assert device.health.reason == "the driver reports Alarm: hot; link down"
    assert [r.line for r in found.rejected] == ["error code: A0"]


def test_memory_errors_are_counted_by_memory_and_in_total() -> None:
    text = (
        "NPU ID : 0\nChip Count : 1\n\nDDR Single Bit Error Count : 1\nDDR Double Bit Error Count : 2\n"
        "HBM Single Bit Error Count : 10\nHBM Double Bit Error Count : 20\n"
        "HBM Single Bit Aggregate Total Err Cnt : 100\nHBM Double Bit Aggregate Total Err Cnt : 200\n"
        "HBM Single Bit Isolated Pages Count : 5\nDDR Single Bit Isolated Pages Count : 6\n"
        "HBM Double Bit Next-Isolated Pages Count : 7\nChip ID : 0\n"
    )
    [device] = parsed("ecc", text).devices
    assert EccCount("corrected", lifetime=False, count=11) in device.ecc
    assert EccCount("uncorrected", lifetime=False, count=22) in device.ecc
    assert EccCount("corrected", lifetime=True, count=100) in device.ecc
    assert EccCount("uncorrected", lifetime=False, count=20, block="hbm") in device.ecc
    assert EccCount("uncorrected", lifetime=False, count=2, block="ddr") in device.ecc
    assert device.retired_pages == (EccCount("corrected", lifetime=True, count=11),)


@pytest.mark.parametrize(
    ("word", "reason", "rejected"),
    [("NA", "not_supported", []), ("many", "unreadable", ["hbm double bit error count: many"])],
)
def test_an_unreadable_error_count_is_absent(word: str, reason: str, rejected: list[str]) -> None:
    text = f"NPU ID : 0\nHBM Double Bit Error Count : {word}\nHBM Single Bit Error Count : 3\nChip ID : 0\n"
    found = parsed("ecc", text)
    [device] = found.devices
    assert [count.severity for count in device.ecc] == ["corrected", "corrected"]
    assert [(a.field, a.reason.value) for a in device.absent] == [("ecc", reason)]
    assert [r.line for r in found.rejected] == rejected


def test_the_error_counts_of_the_310_have_no_memory_kind() -> None:
    text = "NPU ID : 0\nSingle-bit Error Count : 3\nDouble-bit Error Count : 4\nChip ID : 2\n"
    [device] = parsed("ecc", text).devices
    assert device.ecc == (
        EccCount("corrected", lifetime=False, count=3),
        EccCount("uncorrected", lifetime=False, count=4),
    )


@pytest.mark.parametrize(
    ("text", "chips"),
    [
        ("NPU ID  Chip ID  Chip Logic ID  Chip Name\n3 0 5 Ascend 910X\n3 1 - Mcu\n", [(3, 0, 5, None)]),
        (
            "NPU ID  Chip ID  Chip Logic ID  Chip Name\n3 0 5 Ascend\n3 1 - New controller\n",
            [(3, 0, 5, None)],
        ),
        ("NPU ID  Chip Logic ID  Chip Name\n3 5 Ascend\n", [(3, None, 5, None)]),
        (
            " NPU ID Chip ID Chip Logic ID Chip Phy-ID Chip Name\n 0 0 0 8 Ascend910\n 0 1 1 9 Ascend910\n"
            " 0 2 - - Mcu\n 0 3 - - 3559\n",
            [(0, 0, 0, 8), (0, 1, 1, 9)],
        ),
        (
            "NPU ID   Slot ID   Chip ID   Chip Phy-ID   Chip Name\n5   22   0   7   Ascend950PR\n",
            [(5, 0, None, 7)],
        ),
    ],
)
def test_the_map_is_parsed_by_its_column_names(text: str, chips: list[tuple[int, ...]]) -> None:
    found = parsed("map", f"DrvMngGetConsoleLogLevel failed. (g_conLogLevel=3)\n{text}")
    assert [(d.board_id, d.chip_id, d.index, d.physical_id) for d in found.devices] == chips
    assert found.rejected == ()


def test_an_unreadable_line_of_the_map_is_rejected() -> None:
    found = parsed("map", "NPU ID  Chip ID  Chip Logic ID  Chip Name\n0 0\nx 0 0 Ascend\n1 0 1 Ascend\n")
    assert [d.board_id for d in found.devices] == [1]
    assert [r.reason for r in found.rejected] == ["not_a_row", "not_a_row"]


def test_an_unreadable_cell_of_the_map_affects_only_itself() -> None:
    found = parsed("map", "NPU ID  Chip ID  Chip Logic ID  Chip Name\n1 0 ? Ascend\n")
    assert [(d.board_id, d.chip_id, d.index) for d in found.devices] == [(1, 0, None)]
    assert [(r.line, r.reason) for r in found.rejected] == [("Chip Logic ID: ?", "unreadable")]


def test_a_map_without_a_chip_is_an_error() -> None:
    assert parsed("map", "NPU ID  Chip ID  Chip Logic ID  Chip Name\n1 0 - Mcu\n").error is not None


def test_processes_are_assigned_to_their_chip() -> None:
    text = (
        "NPU ID : 2\nChip Count : 2\n\nNo process in device.\nChip ID : 0\n\nGet pid name failed.\n"
        "Process id:77 Process name:                  Process memory(MB):48\n"
        "Process id:78 Process name:a b c             Process memory(MB):NA\nChip ID : 1\n"
    )
    found = parsed("proc-mem", text)
    assert [d.chip_id for d in found.devices] == [0, 1]
    assert [(p.pid, p.device, p.name, p.memory_bytes) for p in found.processes] == [
        (77, "ascend:npu-2-1", None, 48 * MIB),
        (78, "ascend:npu-2-1", "a b c", None),
    ]
    assert found.rejected == ()


def test_processes_are_assigned_by_chip_id_without_an_npu_id() -> None:
    text = (
        "Process id:77 Process name:a Process memory(MB):48\nChip ID : 0\n\n"
        "Process id:78 Process name:b Process memory(MB):49\n"
        "Process id:77 Process name:a Process memory(MB):50\nChip ID : 1\n"
    )
    found = parsed("proc-mem", text)
    assert [(d.board_id, d.chip_id) for d in found.devices] == [(None, 0), (None, 1)]
    chips = {d.id: d.chip_id for d in found.devices}
    assert [(p.pid, chips[p.device or ""]) for p in found.processes] == [(77, 0), (78, 1), (77, 1)]


def test_chips_without_an_npu_id_have_different_ids() -> None:
    text = "Aicore Usage Rate(%) : 5\nChip ID : 0\n\nAicore Usage Rate(%) : 6\nChip ID : 1\n"
    devices = parsed("usages", text).devices
    assert [(d.chip_id, d.utilization_ratio) for d in devices] == [(0, 0.05), (1, 0.06)]
    assert len({d.id for d in devices}) == 2


def test_an_unreadable_process_line_affects_only_itself() -> None:
    good = "Process id:77 Process name:a Process memory(MB):48"
    bad = "Process id:abc Process name:b Process memory(MB):4"
    found = parsed(
        "proc-mem", f"NPU ID : 2\n{bad}\n{good}\ndcmi module initialize failed. ret is -8005\nChip ID : 1\n"
    )
    assert [(p.pid, p.type) for p in found.processes] == [(77, ProcessType.COMPUTE)]
    assert ("not_a_row", "Process id:abc") in [(r.reason, r.line) for r in found.rejected]
    assert all(r.reason for r in found.rejected)


def test_a_long_command_line_is_not_in_the_rejection() -> None:
    long = f"serve --token=s3cret {'x' * 300}"
    found = parsed(
        "proc-mem", f"NPU ID : 2\nProcess id:77 Process name:{long} Process memory(MB):48\nChip ID : 1\n"
    )
    assert [(r.line, r.reason) for r in found.rejected] == [("Process id:77", "not_a_row")]


def test_processes_without_an_npu_id_are_kept() -> None:
    found = parsed("proc-mem", "Process id:77 Process name:a Process memory(MB):48\n")
    assert [(p.pid, p.device) for p in found.processes] == [(77, None)]
    assert found.error is None


def test_output_without_processes_is_an_error() -> None:
    found = parsed("proc-mem", "NPU ID : 2\nChip Count : 2\n")
    assert found.error is not None
    assert found.rejected == ()


def test_a_chip_without_processes_is_not_an_error() -> None:
    for text in ("NPU ID : 2\nNo process in device.\n", "\tNo process in device.\n"):
        found = parsed("proc-mem", text)
        assert found.error is None
        assert found.processes == ()


def test_clock_and_temperature_of_memory_are_parsed() -> None:
    text = (
        "NPU ID : 0\nChip Count : 1\n\nDDR Capacity(MB) : 0\nDDR Clock Speed(MHz) : 0\n"
        "HBM Capacity(MB) : 65536\nHBM Clock Speed(MHz) : 1600\nHBM Temperature(C) : 44\nChip ID : 0\n"
    )
    [device] = parse_memory(text).devices
    assert device.clocks == (Clock("memory", hertz=1.6e9),)
    assert device.sensors == (Sensor("hbm", 44.0),)
    [device] = parse_memory("NPU ID : 0\nDDR Clock Speed(MHz) : 2133\nChip ID : 0\n").devices
    assert device.clocks == (Clock("memory", hertz=2.133e9),)
    assert parse_memory("NPU ID : 0\nDDR Clock Speed(MHz) : 0\nChip ID : 0\n").error is not None


def test_the_voltage_of_a_chip_is_parsed() -> None:
    [device] = parse_volt("NPU ID : 0\nChip Count : 1\n\nVoltage(V) : 0.89\nChip ID : 0\n").devices
    assert device.rails == (Rail("npu", volts=0.89),)
    assert parse_volt("NPU ID : 0\nVoltage(V) : NA\nChip ID : 0\n").error is not None


def test_the_list_has_the_number_of_chips_of_each_npu() -> None:
    text = "Total Count : 2\n\n  NPU ID : 4\nSerial Number : S\nChip Count : 2\n\nNPU ID : 32768\n"
    assert boards_in(text) == {4: 2, 32768: 1}
    assert boards_in("NPU ID : 4\nChip Count : 0\n\nNPU ID : 5\nChip Count : NA\n") == {4: 0, 5: 1}
    assert boards_in("dcmi module initialize failed. ret is -8005\n") == {}
