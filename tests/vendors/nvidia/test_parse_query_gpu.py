"""Parsing of `--query-gpu` CSV, with short examples."""

import pytest

from accelscope.model import Device, EccCount, Fan, Sensor
from accelscope.parsing import ParseResult
from accelscope.vendors.nvidia.parse_csv import QUERY_GPU_FIELDS, parse_query_gpu

MIB = 2**20
ZEROS = "GPU-00000000-0000-0000-0000-000000000000"
ROW = "0, GPU-a, NVIDIA X, 50, 10, 5, 1000, 400, 600, 70.50, 300.00, 4, 16"
OTHER = ROW.replace("0, GPU-a", "1, GPU-b", 1)


def only(parsed: ParseResult) -> Device:
    assert parsed.error is None
    [device] = parsed.devices
    return device


def absences(device: Device) -> dict[str, str]:
    return {absence.field: absence.reason.value for absence in device.absent}


@pytest.mark.parametrize(
    "text",
    [
        ROW,
        f"{ROW}\n",
        f"\ufeff{ROW}\r\n",
        f"{ROW}   \n\n",
        ROW.replace(", ", ","),
        "0, GPU-a, NVIDIA X, 50, 10 %, 5 %, 1000 MiB, 400 MiB, 600 MiB, 70.50 W, 300.00 W, 4, 16",
        "Warning: something, somewhere\nindex, uuid, name, temperature.gpu, utilization.gpu [%], "
        "utilization.memory [%], memory.total [MiB], memory.used [MiB], memory.free [MiB], power.draw [W], "
        f"power.limit [W], pcie.link.gen.current, pcie.link.width.current\n{ROW}\n",
        "pcie.link.width.current, gpu_name, brand_new.field, memory.free, memory.used, memory.total, "
        "utilization.memory, utilization.gpu, temperature.gpu, power.limit, power.draw, uuid, index, "
        "pcie.link.gen.current\n"
        "16, NVIDIA X, [N/A], 600, 400, 1000, 5, 10, 50, 300.00 W, 70.50 W, GPU-a, 0, 4\n",
        "index, uuid, name, temperature.gpu, utilization.gpu [%], utilization.memory [%], "
        "memory.total [KiB], memory.used [KiB], memory.free [KiB], power.draw [mW], power.limit [kW], "
        "pcie.link.gen.current, pcie.link.width.current\n"
        "0, GPU-a, NVIDIA X, 50, 10, 5, 1024000, 409600, 614400, 70500, 0.3, 4, 16",
    ],
)
def test_all_output_formats_give_the_same_values(text: str) -> None:
    parsed = parse_query_gpu(text)
    device = only(parsed)
    assert parsed.rejected == ()
    assert device.id == "nvidia:GPU-a"
    assert (device.index, device.uuid, device.model) == (0, "GPU-a", "NVIDIA X")
    assert (device.temperature_celsius, device.sensors) == (50.0, (Sensor("gpu", 50.0),))
    assert (device.utilization_ratio, device.memory_utilization_ratio) == (0.1, 0.05)
    assert device.memory_total_bytes == 1000 * MIB
    assert device.memory_used_bytes == 400 * MIB
    assert device.memory_free_bytes == 600 * MIB
    assert (device.power_watts, device.power_limit_watts) == (70.5, 300.0)
    assert device.pcie is not None
    assert (device.pcie.generation, device.pcie.width) == (4, 16)
    assert device.absent == ()


def test_the_header_takes_precedence_over_the_queried_columns() -> None:
    device = only(parse_query_gpu("uuid, index\nGPU-a, 3\n", ["index", "uuid"]))
    assert (device.index, device.uuid) == (3, "GPU-a")


@pytest.mark.parametrize(
    "header",
    [
        "index, uuid, serial, power.draw [W], nam\ufffd",
        "index, \ufffduid, serial, power.dr\ufffdw [W], name",
        "\ufffdndex, uuid, serial, power.draw [W], name",
        "index, uuid, \ufffd, \ufffd, \ufffd",
    ],
)
def test_a_damaged_header_does_not_lose_values(header: str) -> None:
    fields = ["index", "uuid", "serial", "power.draw", "name"]
    device = only(parse_query_gpu(f"{header}\n0, GPU-a, 12, 5, X\n", fields))
    assert (device.index, device.uuid, device.serial) == (0, "GPU-a", "12")
    assert (device.power_watts, device.model) == (5.0, "X")


def test_a_serial_number_identifies_a_device_if_no_better_column_was_queried() -> None:
    assert only(parse_query_gpu("12, X", ["serial", "name"])).id == "nvidia:12"
    parsed = parse_query_gpu("[Unknown Error], 12, X\n0, 13, Y\n", ["index", "serial", "name"])
    assert [device.serial for device in parsed.devices] == ["13"]
    assert [rejection.reason for rejection in parsed.rejected] == ["driver_error"]


def test_columns_may_have_aliases() -> None:
    fields = [
        "GPU_UUID",
        "clocks.sm [MHz]",
        " clocks.mem",
        "clocks.max.gr",
        "clocks_throttle_reasons.hw_slowdown",
    ]
    device = only(parse_query_gpu("GPU-a, 1000, 2000, 3000, Active", fields))
    assert {clock.domain: (clock.hertz, clock.max_hertz) for clock in device.clocks} == {
        "graphics": (None, 3e9),
        "sm": (1e9, None),
        "memory": (2e9, None),
    }
    assert [(throttle.reason, throttle.active) for throttle in device.throttles] == [("hw_slowdown", True)]


@pytest.mark.parametrize(
    ("fields", "cells", "watts"),
    [
        ("power.draw.instant,power.draw", "5 W, 6 W", 6.0),
        ("power.draw.instant,power.draw", "5 W, [N/A]", 5.0),
        ("power.draw.average,power.draw.instant", "4 W, 5 W", 5.0),
        ("power.draw.average", "4 W", 4.0),
    ],
)
def test_the_preferred_power_column_is_used(fields: str, cells: str, watts: float) -> None:
    device = only(parse_query_gpu(f"0, {cells}", ["index", *fields.split(",")]))
    assert device.power_watts == watts
    assert absences(device) == {}


def test_a_column_that_was_not_queried_is_not_listed_as_absent() -> None:
    device = only(parse_query_gpu("0, GPU-a", ["index", "uuid"]))
    assert device == Device(vendor=device.vendor, id="nvidia:GPU-a", index=0, uuid="GPU-a")


@pytest.mark.parametrize(
    ("cell", "reason"),
    [
        ("[N/A]", "not_supported"),
        ("[Unknown Error]", "driver_error"),
        ("[Insufficient Permissions]", "no_permission"),
        ("[Requested functionality has been deprecated]", "deprecated"),
        ("", "no_sample"),
    ],
)
def test_an_absent_value_is_not_zero(cell: str, reason: str) -> None:
    fields = ["index", "utilization.gpu", "memory.used", "power.draw", "temperature.memory", "pstate", "name"]
    device = only(parse_query_gpu(f"0, {cell}, {cell}, {cell}, {cell}, P0, X", fields))
    assert absences(device) == dict.fromkeys(
        ("utilization_ratio", "memory_used_bytes", "power_watts", "sensors.memory"), reason
    )
    assert device.utilization_ratio is device.memory_used_bytes is device.power_watts is None
    assert device.sensors == ()


def test_a_bad_cell_is_rejected_alone() -> None:
    parsed = parse_query_gpu("0, ?!, 40", ["index", "power.draw", "temperature.gpu"])
    device = only(parsed)
    assert device.temperature_celsius == 40.0
    assert absences(device) == {"power_watts": "unreadable"}
    assert [(rejection.line, rejection.reason) for rejection in parsed.rejected] == [
        ("power.draw: ?!", "unreadable")
    ]


def test_a_missing_group_is_one_absence() -> None:
    names = [f"ecc.errors.{s}.volatile.{b}" for s in ("corrected", "uncorrected") for b in ("total", "dram")]
    device = only(parse_query_gpu("0, [N/A], [N/A], [N/A], [N/A], [N/A]", ["index", *names, "fan.speed"]))
    assert absences(device) == {"ecc": "not_supported", "fans": "not_supported"}


def test_ecc_blocks_are_not_counted_twice() -> None:
    names = ["total", "device_memory", "dram", "sram", "sram.parity", "sram.secded", "sram.l2"]
    fields = ["index", *(f"ecc.errors.uncorrected.aggregate.{name}" for name in names)]
    device = only(parse_query_gpu("0, 7, 3, 3, 4, 1, 3, 4", fields))
    assert device.ecc == (
        EccCount("uncorrected", lifetime=True, count=7),
        EccCount("uncorrected", lifetime=True, count=3, block="dram"),
        EccCount("uncorrected", lifetime=True, count=4, block="sram"),
    )


def test_fans_retired_pages_and_remapped_rows_are_read() -> None:
    text = (
        "index, fan.speed [%], retired_pages.sbe, retired_pages.dbe, remapped_rows.correctable, "
        "remapped_rows.uncorrectable, remapped_rows.pending, remapped_rows.failure\n"
        "0, 0 %, 2, 1, 3, 4, Yes, No\n"
    )
    device = only(parse_query_gpu(text))
    assert device.fans == (Fan(0, speed_ratio=0.0),)
    assert [(pages.severity, pages.count) for pages in device.retired_pages] == [
        ("corrected", 2),
        ("uncorrected", 1),
    ]
    rows = device.remapped_rows
    assert rows is not None
    assert (rows.correctable, rows.uncorrectable, rows.pending, rows.failed) == (3, 4, True, False)


@pytest.mark.parametrize(
    ("supported", "active", "known", "at_work"),
    [
        ("0x00000000000001FF", "0x0000000000000044", 9, {"sw_power_cap", "hw_thermal_slowdown"}),
        ("0x0000000000000005", "0x0000000000000004", 2, {"sw_power_cap"}),
        ("[N/A]", "0x0000000000000000", 9, set()),
    ],
)
def test_throttle_reasons_are_read_from_masks(
    supported: str, active: str, known: int, at_work: set[str]
) -> None:
    fields = ["index", "clocks_event_reasons.supported", "clocks_event_reasons.active"]
    device = only(parse_query_gpu(f"0, {supported}, {active}", fields))
    assert len(device.throttles) == known
    assert {throttle.reason for throttle in device.throttles if throttle.active} == at_work


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("NVIDIA X, Founders", QUERY_GPU_FIELDS),
        ("a, b, c", ("index", "name", "memory.total")),
        ("a, b", ("index", "name")),
    ],
)
def test_a_name_may_contain_commas(name: str, fields: tuple[str, ...]) -> None:
    values = dict(zip(QUERY_GPU_FIELDS, ROW.split(", "), strict=True)) | {"name": name}
    device = only(parse_query_gpu(", ".join(values[field] for field in fields), fields))
    assert device.model == name
    assert device.memory_total_bytes in (1000 * MIB, None)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (ROW[:40], "not_a_row"),
        (ROW + ", 7, 8", "not_a_row"),
        (", ".join(["[Unknown Error]"] * 13), "driver_error"),
        (", ".join(["[GPU is lost]"] * 13), "lost"),
        (", ".join(["x"] * 13), "unreadable"),
        ("Terminated", "not_a_row"),
    ],
)
def test_a_bad_line_is_rejected_alone(line: str, reason: str) -> None:
    parsed = parse_query_gpu(f"{ROW}\n{line}\n{OTHER}\n")
    assert parsed.error is None
    assert [device.index for device in parsed.devices] == [0, 1]
    assert [(rejection.line, rejection.reason) for rejection in parsed.rejected] == [(line, reason)]


def test_a_lost_gpu_between_rows_is_listed() -> None:
    sentence = "Unable to determine the device handle for GPU 0000:02:00.0: GPU is lost.  Reboot …"
    parsed = parse_query_gpu(f"{ROW}\n{sentence}\n{OTHER}\n")
    assert parsed.error is None
    assert [(device.index, device.pci_address, device.health.state) for device in parsed.devices] == [
        (0, None, "unknown"),
        (1, None, "unknown"),
        (None, "0000:02:00.0", "lost"),
    ]
    assert parsed.devices[2].health.reason == sentence
    assert parsed.devices[2].id == "nvidia:0000:02:00.0"
    assert [rejection.reason for rejection in parsed.rejected] == ["device_lost"]


def test_a_message_sets_the_health_of_its_device() -> None:
    fields = ["index", "pci.bus_id", "power.draw"]
    text = (
        "0, 00000000:01:00.0, 5\n1, 00000000:02:00.0, [Unknown Error]\n"
        "Unable to determine the device handle for GPU0000:02:00.0: Unknown Error\n"
        "WARNING: infoROM is corrupted at gpu 0000:01:00.0\n"
    )
    assert [
        (device.pci_address, device.health.state.value) for device in parse_query_gpu(text, fields).devices
    ] == [
        ("0000:01:00.0", "warning"),
        ("0000:02:00.0", "critical"),
    ]


@pytest.mark.parametrize(
    ("cells", "state"),
    [
        ("5 W, 40, 10 %", "unknown"),
        ("[N/A], [N/A], [N/A]", "unknown"),
        ("[Unknown Error], 40, 10 %", "unknown"),
        ("[Unknown Error], [Unknown Error], 10 %", "critical"),
        ("[GPU requires reset], 40, 10 %", "critical"),
        ("[GPU is lost], [GPU is lost], [GPU is lost]", "lost"),
    ],
)
def test_the_health_follows_from_the_markers_of_a_row(cells: str, state: str) -> None:
    device = only(
        parse_query_gpu(f"0, X, {cells}", ["index", "name", "power.draw", "temperature.gpu", "fan.speed"])
    )
    assert device.health.state == state
    assert (device.health.reason is None) == (state == "unknown")


@pytest.mark.parametrize(
    ("action", "state"),
    [("None", "unknown"), ("[N/A]", "unknown"), ("Reset", "critical"), ("Drain P2P", "critical")],
)
def test_the_health_follows_from_the_recovery_action(action: str, state: str) -> None:
    device = only(parse_query_gpu(f"0, {action}", ["index", "gpu_recovery_action"]))
    assert device.health.state == state
    assert device.health.vendor_word == (None if state == "unknown" else action)


@pytest.mark.parametrize(
    ("driver", "kmd", "version"),
    [
        ("590.1", "[N/A]", "590.1"),
        ('Deprecated, see "KMD version" instead', "610.2", "610.2"),
        ("[N/A]", "[N/A]", None),
    ],
)
def test_the_driver_version_may_be_that_of_the_kernel_module(
    driver: str, kmd: str, version: str | None
) -> None:
    parsed = parse_query_gpu(
        f"index, driver_version, kmd_version\n0, {driver}, {kmd}\n".replace("Deprecated, ", "Deprecated; ")
    )
    assert only(parsed).driver_version == version


def test_a_looping_tool_gives_each_gpu_once_with_its_last_values() -> None:
    parsed = parse_query_gpu(
        "0, GPU-x, 10\n1, GPU-x, 20\n0, GPU-x, 30\n1, GPU-x, 40\n", ["index", "uuid", "temperature.gpu"]
    )
    assert [(device.index, device.temperature_celsius) for device in parsed.devices] == [(0, 30.0), (1, 40.0)]


@pytest.mark.parametrize(
    ("address", "spelled"),
    [
        ("00000000:0C:00.0", "0000:0c:00.0"),
        ("0000:0C:00.0", "0000:0c:00.0"),
        ("0000000F:01:00.0", "000f:01:00.0"),
    ],
)
def test_pci_addresses_are_normalised(address: str, spelled: str) -> None:
    device = only(parse_query_gpu(address, ["pci.bus_id"]))
    assert (device.pci_address, device.id) == (spelled, f"nvidia:{spelled}")


def test_rows_without_identity_are_kept_if_none_was_queried() -> None:
    text = "10, 20\n30, 40\n[Unknown Error], [Unknown Error]\n,\nx, 5\n"
    parsed = parse_query_gpu(text, ["utilization.gpu", "utilization.memory"])
    assert [device.utilization_ratio for device in parsed.devices] == [0.1, 0.3, None]
    assert [device.health.state.value for device in parsed.devices] == ["unknown", "unknown", "critical"]
    assert [rejection.line for rejection in parsed.rejected] == [",", "x, 5"]


def test_a_row_with_extra_columns_is_not_read_shifted() -> None:
    fields = ["index", "name", "pstate", "memory.total"]
    for line in ("0, X, P0, 5, 6", "0, X, 1, 5, 6", "0, X, [N/A], P0, 6"):
        parsed = parse_query_gpu(f"{line}\n1, Y, P0, 5\n", fields)
        assert [device.index for device in parsed.devices] == [1], line


def test_another_number_of_columns_is_an_error() -> None:
    parsed = parse_query_gpu("0, GPU-a\n1, GPU-b\n")
    assert parsed.error is not None
    assert parsed.error.reason == "column_mismatch"
    assert "rows of 2 columns, expected 13" in parsed.error.text


def test_a_header_without_rows_is_a_truncated_output() -> None:
    parsed = parse_query_gpu("index, uuid\n")
    assert parsed.error is not None
    assert parsed.error.reason == "truncated"


@pytest.mark.parametrize(
    "text",
    [
        "temperature.gpu, utilization.gpu [%]\n50, 10 %\n60, 20 %\n",
        f"uuid, temperature.gpu\n{ZEROS}, 50\n{ZEROS}, 60\n",
        f"index, uuid, temperature.gpu\n0, {ZEROS}, 50\n1, {ZEROS}, 60\n",
        f"uuid, pci.bus_id, temperature.gpu\n{ZEROS}, 00000000:01:00.0, 50\n{ZEROS}, 00000000:02:00.0, 60\n",
        f"uuid, serial, temperature.gpu\n{ZEROS}, 151, 50\n{ZEROS}, 152, 60\n",
        "uuid, serial, index, temperature.gpu\nGPU-xxxx, xxxx, 0, 50\nGPU-xxxx, xxxx, 1, 60\n",
        "uuid, serial, pci.bus_id, temperature.gpu\n"
        "N/A, 1320000000000, 00000000:0F:00.0, 50\nN/A, 1320000000000, 00000000:1F:00.0, 60\n",
        "serial, temperature.gpu\n0, 50\n0, 60\n",
        "uuid, serial, temperature.gpu\nGPU-a, 151, 50\nGPU-a, 152, 60\n",
        "uuid, pci.bus_id, temperature.gpu\nGPU-a, 00000000:01:00.0, 50\nGPU-a, 00000000:02:00.0, 60\n",
    ],
)
def test_each_row_has_a_distinct_id(text: str) -> None:
    """Even if no identity was queried, or if it is masked."""
    devices = parse_query_gpu(text).devices
    assert [device.temperature_celsius for device in devices] == [50.0, 60.0]
    assert devices[0].id != devices[1].id


def test_an_unidentified_row_has_the_id_unidentified() -> None:
    fields = ["temperature.gpu"]
    assert [device.id for device in parse_query_gpu("50\n60\n", fields).devices] == [
        "nvidia:unidentified-row-1",
        "nvidia:unidentified-row-2",
    ]
    assert only(parse_query_gpu("50\n", fields)).id == "nvidia:unidentified-row-1"
    assert only(parse_query_gpu("50\n", fields)).index is None


def test_the_address_takes_precedence_over_the_serial_number_of_the_board() -> None:
    device = only(parse_query_gpu("uuid, serial, pci.bus_id\nN/A, 1320000000000, 00000000:0F:00.0\n"))
    assert (device.serial, device.id) == ("1320000000000", "nvidia:0000:0f:00.0")


def test_a_masked_uuid_is_kept_but_does_not_identify_the_gpu() -> None:
    device = only(parse_query_gpu(f"uuid, pci.bus_id\n{ZEROS}, 00000000:01:00.0\n"))
    assert (device.uuid, device.id) == (ZEROS, "nvidia:0000:01:00.0")


UNREACHABLE = "Unable to determine the device handle for GPU 0000:02:00.0: GPU is lost.  Reboot the system"


@pytest.mark.parametrize(
    "text",
    [
        "[GPU is lost], [GPU is lost]\n[GPU is lost], [GPU is lost]\n",
        "GPU is lost, GPU is lost\nGPU is lost, GPU is lost\n",
        f"0, [GPU is lost]\n{UNREACHABLE}\n",
        f"{UNREACHABLE}\n0, 5\n",
    ],
)
def test_a_column_mismatch_is_reported_before_lost_gpus(text: str) -> None:
    parsed = parse_query_gpu(text)
    assert parsed.error is not None
    assert parsed.error.reason == "column_mismatch"
    assert "rows of 2 columns, expected 13" in parsed.error.text
    if UNREACHABLE in text:
        assert "GPU is lost" in parsed.error.text
        assert [device.id for device in parsed.devices] == ["nvidia:0000:02:00.0"]


@pytest.mark.parametrize(
    ("cell", "reason"),
    [
        ("[GPU is lost]", "device_lost"),
        ("GPU is lost", "device_lost"),
        ("[GPU requires reset]", "reset_required"),
        ("[Unknown Error]", "driver_error"),
        ("[Insufficient Permissions]", "no_permission"),
    ],
)
def test_rows_of_one_error_are_reported_as_that_error(cell: str, reason: str) -> None:
    parsed = parse_query_gpu(f"{', '.join([cell] * len(QUERY_GPU_FIELDS))}\n")
    assert parsed.error is not None
    assert parsed.error.reason == reason
    assert "identifies a GPU" in parsed.error.text
    assert cell in parsed.error.text
