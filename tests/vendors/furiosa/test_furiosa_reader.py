"""The reader on small trees and scripted tools: what it joins, and what each failure costs."""

import errno
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.programs import program
from tests.vendors.furiosa.furiosa_tree import ATR_ERROR, hwmon, options, rngd, script, warboy, write

from accelscope.model import AbsenceReason, Device, HealthState, ProcessType, Rail
from accelscope.vendors.common.contract import DeviceLost, DriverAbsent, ReaderError
from accelscope.vendors.common.files import read_text
from accelscope.vendors.furiosa.reader import FuriosaReader
from accelscope.vendors.furiosa.sysfs import Attributes, WarboyCores

WARBOY_AT, RNGD_AT = "0000:01:00.0", "0000:44:00.0"
WARBOY_SENSORS = {
    "temp1": ("AMBIENT", 31000),
    "temp2": ("Peak", 47500),
    "temp3": ("NE", 45000),
    "power1": ("NE Core RMS PWR", 990000),
    "power2": ("PCI Total RMS PWR", 12920000),
    "in0": ("NE Core Volt", 720),
    "curr1": ("NE Current", 1375),
}
RNGD_SENSORS = {
    "temp1": ("AMBIENT", 33000),
    "temp2": ("PEAK", 59650),
    "temp3": ("NPU_PE0", 58000),
    "power1": ("RMS_TOTAL", 151000000),
}
NO_JSON = "error: unexpected argument '--format' found"


def status_document(*names: str, used: int = 3 << 30) -> str:
    cores = [
        {"pe_core": core, "pe_occupancy": core < 2, "pe_utilization": 80.0 if core < 2 else 0}
        for core in range(8)
    ]
    return json.dumps(
        [
            {
                "arch": "rngd",
                "device": name,
                "liveness": "alive",
                "memory": {"DRAM": {"used_size": used, "total_size": 51002736640, "used_ratio": 0.06}},
                "pe_utilizations": cores,
            }
            for name in names
        ]
    )


def info_document(*cards: tuple[str, str, str]) -> str:
    """Cards by name, uuid and address."""
    return json.dumps(
        [
            {
                "arch": "rngd",
                "dev_name": name,
                "device_uuid": uuid,
                "device_sn": f"SN-{name}",
                "firmware": "2026.3.0, 2d3f72a",
                "temperature": "40.25°C",
                "power": "42.00 W",
                "core_clock": "2000 MHz",
                "pci_bdf": address,
            }
            for name, uuid, address in cards
        ]
    )


PS = """+------+-------------+-----------------------------------+
| PID  | NPU core    | CMD                               |
+------+-------------+-----------------------------------+
| 4242 | npu0:[0, 1] | /usr/bin/python3 serve --token=s3 |
+------+-------------+-----------------------------------+
"""
SMI_2026 = {
    "status --format json": status_document("npu0"),
    "info --format json": info_document(("npu0", "B0000000-1111-2222-3333-444444444444", RNGD_AT)),
    "ps": PS,
}
CTL_LIST = """+------+------------------------------+-----------------------------------+
| NPU  | Cores                        | DEVFILES                          |
+------+------------------------------+-----------------------------------+
| npu0 | 0 (occupied), 1 (available)  | npu0, npu0pe0, npu0pe1, npu0pe0-1 |
+------+------------------------------+-----------------------------------+
"""
CTL_PS = """+---------+------+---------+
| NPU     | PID  | CMD     |
+---------+------+---------+
| npu0pe0 | 4343 | ./infer |
+---------+------+---------+
"""
CTL_INFO = """+------+--------+----------------+-------+--------+--------------+
| NPU  | Name   | Firmware       | Temp. | Power  | PCI-BDF      |
+------+--------+----------------+-------+--------+--------------+
| npu0 | warboy | 1.6.0, 3c10fd3 |  54°C | 0.99 W | 0000:01:00.0 |
+------+--------+----------------+-------+--------+--------------+
"""


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def only(reader: FuriosaReader) -> Device:
    [key] = reader.survey().keys
    return reader.read(key).device


def test_a_warboy_from_sysfs_alone(tmp_path: Path) -> None:
    write(tmp_path, warboy(0, WARBOY_AT) | hwmon(WARBOY_AT, WARBOY_SENSORS))
    card = only(FuriosaReader(replace(options(tmp_path), clock=lambda: 5.0)))
    assert card.id == "furiosa:A0000000-1111-2222-3333-444444444444"
    assert (card.model, card.device_name, card.serial) == ("warboy", "npu0", "WBYB0000000000")
    assert (card.health.state, card.uptime_seconds, card.read_at) == (HealthState.OK, 4711.0, 5.0)
    assert (card.temperature_celsius, card.power_watts) == (47.5, 12.92)
    assert card.rails == (
        Rail("NE Current", amperes=1.375),
        Rail("NE Core Volt", volts=0.72),
        Rail("NE Core RMS PWR", watts=0.99),
    )
    assert [(clock.domain, clock.hertz) for clock in card.clocks] == [("ne_tensor", 2e9), ("ne_memory", 1e9)]
    assert {error.code: error.count for error in card.errors} == {
        **dict.fromkeys(("axi_post_error", "axi_fetch_error", "axi_discard_error"), 0),
        **dict.fromkeys(("pcie_post_error", "pcie_fetch_error", "pcie_discard_error", "device_error"), 0),
        "axi_doorbell_done": 12,
        "pcie_doorbell_done": 7,
    }
    assert {error.kind for error in card.errors} == {"axi", "pcie", "device"}
    assert card.pcie is not None
    assert (card.pcie.generation, card.pcie.width, card.numa_node) == (4, 8, 1)
    assert {a.field: a.reason for a in card.absent} == {
        "utilization_ratio": AbsenceReason.NOT_KNOWN,
        "memory_total_bytes": AbsenceReason.NOT_KNOWN,
        "memory_used_bytes": AbsenceReason.NOT_KNOWN,
    }


def test_an_rngd_with_what_its_tool_adds(tmp_path: Path) -> None:
    write(tmp_path, rngd(0, RNGD_AT) | hwmon(RNGD_AT, RNGD_SENSORS))
    script(tmp_path, "furiosa-smi", SMI_2026, otherwise=NO_JSON)
    reader = FuriosaReader(options(tmp_path))
    survey = reader.survey()
    assert (survey.keys, survey.warnings, survey.rejected) == (("rngd-npu0",), (), ())
    reading = reader.read("rngd-npu0")
    card = reading.device
    assert card.id == "furiosa:B0000000-1111-2222-3333-444444444444"
    assert (card.temperature_celsius, card.power_watts) == (59.65, 151.0)  # the driver's, not the tool's
    assert (card.memory_used_bytes, card.memory_total_bytes) == (3 << 30, 51002736640)
    assert [core.utilization_ratio for core in card.cores] == [0.8, 0.8] + [0.0] * 6
    assert [core.occupied for core in card.cores] == [True, True] + [False] * 6
    assert {core.clock_hertz for core in card.cores} == {2e9}
    assert card.utilization_ratio == 0.2  # of eight cores two run at 80 %
    assert card.health.vendor_word == "alive"
    assert card.absent == ()
    [process] = reading.processes
    assert (process.pid, process.name, process.cores) == (4242, "python3", (0, 1))
    assert (process.device, process.device_index, process.type) == (card.id, 0, ProcessType.COMPUTE)


def test_what_the_drivers_sensors_do_not_measure_the_tool_tells_at_every_pass(tmp_path: Path) -> None:
    write(tmp_path, rngd(0, RNGD_AT) | hwmon(RNGD_AT, {"temp1": ("PEAK", 41000)}))
    script(tmp_path, "furiosa-smi", SMI_2026, otherwise=NO_JSON)
    reader = FuriosaReader(options(tmp_path))
    cards = [only(reader) for _ in range(4)]
    assert [(card.temperature_celsius, card.power_watts) for card in cards] == [(41.0, 42.0)] * 4


def test_a_warboy_and_an_rngd_that_are_both_npu0(tmp_path: Path) -> None:
    write(tmp_path, warboy(0, WARBOY_AT) | hwmon(WARBOY_AT, WARBOY_SENSORS))
    write(tmp_path, rngd(0, RNGD_AT) | hwmon(RNGD_AT, RNGD_SENSORS))
    script(tmp_path, "furiosa-smi", SMI_2026, otherwise=NO_JSON)
    script(tmp_path, "furiosactl", {"list": CTL_LIST, "ps": CTL_PS, "info": CTL_INFO}, otherwise=NO_JSON)
    reader = FuriosaReader(options(tmp_path))
    survey = reader.survey()
    assert survey.keys == ("warboy-npu0", "rngd-npu0")
    old, new = (reader.read(key) for key in survey.keys)
    assert (old.device.index, new.device.index) == (0, 0)
    assert old.device.id != new.device.id
    assert [process.pid for process in old.processes] == [4343]
    assert [process.pid for process in new.processes] == [4242]
    assert old.device.memory_total_bytes is None
    assert new.device.memory_total_bytes == 51002736640
    assert [core.occupied for core in old.device.cores] == [True, False]


def test_a_tool_of_both_families_gives_a_process_to_the_card_it_fits_on(tmp_path: Path) -> None:
    """Its `ps` names cards by number only."""
    write(tmp_path, warboy(0, WARBOY_AT) | rngd(0, RNGD_AT))
    both = json.loads(status_document("npu0"))
    both.append({"arch": "warboy", "device": "npu0", "liveness": "alive", "pe_utilizations": []})
    ps = PS.replace("npu0:[0, 1]", "npu0:[0, 7]") + "| 4300 | npu0:[0, 1] | ./other |\n"
    script(tmp_path, "furiosa-smi", {"status --format json": json.dumps(both), "ps": ps}, otherwise=NO_JSON)
    reader = FuriosaReader(options(tmp_path))
    survey = reader.survey()
    old, new = (reader.read(key) for key in survey.keys)
    assert [process.pid for process in new.processes] == [4242]
    assert old.processes == ()
    assert [rejection.reason for rejection in survey.rejected] == ["ambiguous_card"]  # 4300 fits on both


def test_rows_of_a_tool_that_numbers_cards_otherwise_are_not_mixed_up(tmp_path: Path) -> None:
    """Between the survey and the reading a card may have dropped out: uuid and address decide, not names."""
    write(tmp_path, rngd(0, RNGD_AT) | rngd(1, "0000:45:00.0"))
    swapped = info_document(
        ("npu1", "B0000000-1111-2222-3333-444444444444", RNGD_AT),
        ("npu0", "B0000001-1111-2222-3333-444444444444", "0000:45:00.0"),
    )
    script(
        tmp_path,
        "furiosa-smi",
        {"info --format json": swapped, "status --format json": status_document("npu0"), "ps": PS},
        otherwise=NO_JSON,
    )
    reader = FuriosaReader(options(tmp_path))
    first, second = (reader.read(key) for key in reader.survey().keys)
    assert first.device.memory_used_bytes is None
    assert second.device.memory_used_bytes == 3 << 30
    assert [process.pid for process in second.processes] == [4242]


def test_without_sysfs_the_tool_alone_does(tmp_path: Path) -> None:
    script(
        tmp_path,
        "furiosa-smi",
        {**SMI_2026, "version": "- furiosa-smi:     2026.1.0\n- device driver:   2026.1.0, 96977d5\n"},
        otherwise=NO_JSON,
    )
    reader = FuriosaReader(options(tmp_path))
    survey = reader.survey()
    assert (survey.source, survey.driver_version) == ("furiosa-smi", "2026.1.0, 96977d5")
    [key] = survey.keys
    reading = reader.read(key)
    card = reading.device
    assert card.id == key == "furiosa:B0000000-1111-2222-3333-444444444444"
    assert (card.temperature_celsius, card.power_watts) == (40.25, 42.0)
    assert (card.memory_total_bytes, card.utilization_ratio) == (51002736640, 0.2)
    assert (card.health.state, card.driver_version) == (HealthState.OK, "2026.1.0, 96977d5")
    assert [process.device for process in reading.processes] == [card.id]


def test_an_old_furiosactl_alone(tmp_path: Path) -> None:
    """Its power is that of the cores, so it is not shown as the card's."""
    script(tmp_path, "furiosactl", {"list": CTL_LIST, "ps": CTL_PS, "info": CTL_INFO}, otherwise=NO_JSON)
    reader = FuriosaReader(options(tmp_path))
    survey = reader.survey()
    assert (survey.source, survey.warnings) == ("furiosactl", ())
    reading = reader.read(survey.keys[0])
    card = reading.device
    assert (card.id, card.model, card.temperature_celsius) == ("furiosa:0000:01:00.0", "warboy", 54.0)
    assert (card.power_watts, card.rails) == (None, (Rail("core", watts=0.99),))
    assert AbsenceReason.NOT_KNOWN in {a.reason for a in card.absent if a.field == "power_watts"}
    assert card.health.state is HealthState.OK
    assert [process.pid for process in reading.processes] == [4343]


def test_the_form_that_worked_is_kept(tmp_path: Path) -> None:
    write(tmp_path, rngd(0, RNGD_AT) | hwmon(RNGD_AT, RNGD_SENSORS))
    script(tmp_path, "furiosa-smi", SMI_2026, otherwise=NO_JSON)
    runs = tmp_path / "runs"
    tool = tmp_path / "bin/furiosa-smi"
    program(tool, tool.read_text().replace("#!/bin/sh\n", f'#!/bin/sh\necho "$*" >> {runs}\n'))
    reader = FuriosaReader(options(tmp_path))
    for _ in range(2):
        for key in reader.survey().keys:
            reader.read(key)
    assert runs.read_text().splitlines() == [
        *("info --format json", "status --format json", "ps --format json", "ps"),
        *("status --format json", "ps"),  # /sys has the temperature and the power: no info any more
    ]


def remove_tool(root: Path) -> None:
    (root / "bin/furiosa-smi").unlink()


def hanging_tool(root: Path) -> None:
    program(root / "bin/furiosa-smi", "#!/bin/sh\nexec sleep 60\n")


def failing_tool(text: str) -> Callable[[Path], None]:
    return lambda root: script(root, "furiosa-smi", {}, otherwise=text)


@pytest.mark.parametrize(
    ("break_tool", "warning", "reason"),
    [
        (remove_tool, None, AbsenceReason.NOT_KNOWN),
        (hanging_tool, "tool_timeout", AbsenceReason.TIMEOUT),
        (failing_tool("Error: permission denied error"), "no_permission", AbsenceReason.DRIVER_ERROR),
        (failing_tool("Error: incompatible driver error"), "version_mismatch", AbsenceReason.DRIVER_ERROR),
        (
            failing_tool("error while loading shared libraries: libfuriosa_smi.so: cannot open"),
            "library_missing",
            AbsenceReason.DRIVER_ERROR,
        ),
        (failing_tool("gibberish"), "empty", AbsenceReason.DRIVER_ERROR),
    ],
)
def test_a_failing_tool_costs_what_it_adds(
    tmp_path: Path,
    break_tool: Callable[[Path], None],
    warning: str | None,
    reason: AbsenceReason,
) -> None:
    write(tmp_path, rngd(0, RNGD_AT) | hwmon(RNGD_AT, RNGD_SENSORS))
    script(tmp_path, "furiosa-smi", SMI_2026, otherwise=NO_JSON)
    break_tool(tmp_path)
    seconds = 0.5 if break_tool is hanging_tool else 60.0
    reader = FuriosaReader(options(tmp_path, tool_timeout_seconds=seconds))
    survey = reader.survey()
    assert set(survey.warnings) == ({warning} if warning else set())
    card = reader.read("rngd-npu0").device
    assert (card.temperature_celsius, card.power_watts) == (59.65, 151.0)
    assert (card.health.state, card.uptime_seconds) == (HealthState.OK, 86400.0)
    assert [core.occupied for core in card.cores] == [True, True] + [False] * 6
    assert (card.memory_total_bytes, card.utilization_ratio) == (None, None)
    assert {a.field: a.reason for a in card.absent} == dict.fromkeys(
        ("utilization_ratio", "memory_total_bytes", "memory_used_bytes"), reason
    )


def test_a_tool_that_hangs_is_left_alone_for_a_while(tmp_path: Path) -> None:
    write(tmp_path, rngd(0, RNGD_AT))
    script(tmp_path, "furiosa-smi", {})
    hanging_tool(tmp_path)
    reader = FuriosaReader(options(tmp_path, tool_timeout_seconds=0.5))
    assert reader.survey().warnings == ("tool_timeout",)  # the other runs are not even tried
    script(tmp_path, "furiosa-smi", SMI_2026, otherwise=NO_JSON)
    assert reader.survey().warnings == ()  # it rests
    reader = FuriosaReader(options(tmp_path, tool_timeout_seconds=60.0, tool_interval_seconds=0.0))
    reader.survey()
    assert reader.read("rngd-npu0").device.memory_total_bytes == 51002736640


def test_errors_are_dated_when_they_grow(tmp_path: Path) -> None:
    write(tmp_path, rngd(0, RNGD_AT, atr_error=ATR_ERROR.format(axi_post=3)))
    clock = Clock()
    reader = FuriosaReader(replace(options(tmp_path), clock=clock))
    assert seen(only(reader)) == (3, None)  # nobody knows when
    assert only(reader).health.state is HealthState.OK
    clock.now = 1010.0
    write(tmp_path, rngd(0, RNGD_AT, atr_error=ATR_ERROR.format(axi_post=5)))
    card = only(reader)
    assert seen(card) == (5, 1010.0)
    clock.now = 1020.0
    assert seen(only(reader)) == (5, 1010.0)
    clock.now = 1700.0
    write(tmp_path, rngd(0, RNGD_AT, atr_error=ATR_ERROR.format(axi_post=1)))
    assert seen(only(reader)) == (1, 1700.0)  # counted anew since the driver was reloaded


def seen(card: Device) -> tuple[int, float | None]:
    [error] = [error for error in card.errors if error.code == "axi_post_error"]
    return error.count, error.last_seen


def test_doorbells_are_no_errors(tmp_path: Path) -> None:
    write(tmp_path, rngd(0, RNGD_AT))
    reader = FuriosaReader(options(tmp_path))
    only(reader)
    write(tmp_path, rngd(0, RNGD_AT, atr_error=ATR_ERROR.format(axi_post=0).replace("12", "13")))
    card = only(reader)
    assert {error.code for error in card.errors if error.last_seen} == {"axi_doorbell_done"}
    assert card.health.state is HealthState.OK


@pytest.mark.parametrize(
    ("word", "liveness", "state"),
    [
        ("0", "alive", HealthState.OK),
        ("0", "dead", HealthState.OK),  # the driver's own word counts
        ("1", "alive", HealthState.CRITICAL),
        ("2", "alive", HealthState.CRITICAL),
        ("", "dead", HealthState.CRITICAL),
        ("", "", HealthState.UNKNOWN),
        ("", "sleeping", HealthState.UNKNOWN),
    ],
)
def test_health_by_the_drivers_word_and_the_tools(
    tmp_path: Path, word: str, liveness: str, state: HealthState
) -> None:
    write(tmp_path, rngd(0, RNGD_AT, device_state=f"{word}\n"))
    document = status_document("npu0").replace('"alive"', json.dumps(liveness))
    script(tmp_path, "furiosa-smi", {"status --format json": document, "ps": PS}, otherwise=NO_JSON)
    card = only(FuriosaReader(options(tmp_path)))
    assert card.health.state is state
    if state is not HealthState.OK:
        assert card.health.reason


def test_a_card_recovers_when_the_driver_says_so(tmp_path: Path) -> None:
    write(tmp_path, warboy(0, WARBOY_AT, alive="0\n"))
    reader = FuriosaReader(options(tmp_path))
    assert only(reader).health.state is HealthState.CRITICAL
    write(tmp_path, warboy(0, WARBOY_AT))
    assert only(reader).health.state is HealthState.OK


def test_reasons_to_slow_down(tmp_path: Path) -> None:
    listed = (
        "0x00000001 THROTTLE_IDLE\n0x00000002 THROTTLE_THERMAL_SLOWDOWN\n0x00000004 THROTTLE_APP_POWER_CAP\n"
    )
    write(tmp_path, rngd(0, RNGD_AT, throttle_reason="0x00000004\n", throttle_reason_list=listed))
    reader = FuriosaReader(options(tmp_path))
    card = only(reader)
    assert {t.reason: t.active for t in card.throttles} == {
        "idle": False,
        "thermal_slowdown": False,
        "app_power_cap": True,
    }
    assert card.health.state is HealthState.OK  # somebody set that cap
    write(tmp_path, rngd(0, RNGD_AT, throttle_reason="0x00000002\n", throttle_reason_list=listed))
    card = only(reader)
    assert card.health.state is HealthState.WARNING
    assert "thermal_slowdown" in (card.health.reason or "")


def test_power_limits_of_a_node_that_shows_its_debugfs(tmp_path: Path) -> None:
    debugfs = "sys/kernel/debug/rngd/mgmt0"
    write(tmp_path, rngd(0, RNGD_AT))
    reader = FuriosaReader(options(tmp_path))
    assert only(reader).power_limit_watts is None
    limits = {"power_limit_mw": "225000\n", "power_limit_default_mw": "300000\n", "power_max_mw": "675000\n"}
    write(tmp_path, {f"{debugfs}/{name}": text for name, text in limits.items()})
    card = only(reader)
    assert (card.power_limit_watts, card.power_limit_default_watts) == (225.0, 300.0)
    assert card.power_limit_max_watts is None  # power_max_mw is not a limit


def perf_regs(task: int, cycles: int) -> str:
    high, low = divmod(cycles, 1 << 32)
    return (
        f"ProgramCounter: 0x10\nTaskExecutionTime: {task % (1 << 32):#x}\nTensorExecutionTime: 0x1\n"
        f"CycleCount: {low:#x}\nCycleCountHigh: {high:#x}\n"
    )


def test_utilisation_of_a_warboys_cores_from_its_counters(tmp_path: Path) -> None:
    fused = "sys/class/npu_mgmt/npu0pe0-1/perf_regs"
    write(tmp_path, warboy(0, WARBOY_AT))
    # Both counters pass 32 bits in between.
    write(tmp_path, {fused: perf_regs((1 << 32) - 100, (1 << 32) - 500)})
    reader = FuriosaReader(options(tmp_path))
    card = only(reader)
    assert [(core.occupied, core.utilization_ratio) for core in card.cores] == [(True, None), (True, None)]
    assert card.utilization_ratio is None  # held and not measured yet: nobody knows
    write(tmp_path, {fused: perf_regs((1 << 32) + 150, (1 << 32) + 500)})
    card = only(reader)
    assert [core.utilization_ratio for core in card.cores] == [0.25, 0.25]
    assert card.utilization_ratio == 0.25
    write(tmp_path, {fused: perf_regs(10, 20)})  # somebody else's counters
    assert [core.utilization_ratio for core in only(reader).cores] == [None, None]


def test_counters_that_wrap_between_passes_are_read_twice_in_one(tmp_path: Path) -> None:
    """At the clock of a core 32 bits last a few seconds, and passes are ten seconds apart."""
    file = tmp_path / "sys/class/npu_mgmt/npu0pe1/perf_regs"
    write(tmp_path, {f"{file}": perf_regs(0, 0)})
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        file.write_text(perf_regs(750, 20_000_001_000))

    cores = WarboyCores(sleep)
    folder = str(file.parent.parent)
    cores.read(folder, "npu0", Attributes())
    file.write_text(perf_regs(0, 20_000_000_000))
    found = cores.read(folder, "npu0", Attributes())
    assert [(core.occupied, core.utilization_ratio) for core in found] == [(None, None), (True, 0.75)]
    assert len(slept) == 2


@pytest.mark.parametrize(
    ("code", "cores", "used", "absent"),
    [
        (errno.EPERM, [(0, False), (1, False)], 0.0, None),  # nobody uses the card
        (errno.EACCES, [], None, AbsenceReason.NO_PERMISSION),
        (errno.EIO, [], None, None),
    ],
)
def test_counters_that_cannot_be_read(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    code: int,
    cores: list[tuple[int, bool]],
    used: float | None,
    absent: AbsenceReason | None,
) -> None:
    """No plain file refuses to be read by root, so the reading itself fails here."""

    def read(path: str) -> str:
        if path.endswith("perf_regs"):
            raise OSError(code, os.strerror(code))
        return read_text(path)

    monkeypatch.setattr("accelscope.vendors.furiosa.sysfs.read_text", read)
    write(tmp_path, warboy(0, WARBOY_AT))
    card = only(FuriosaReader(options(tmp_path)))
    assert [(core.index, core.occupied) for core in card.cores] == cores
    assert card.utilization_ratio == used
    assert {a.field: a.reason for a in card.absent}.get("cores.utilization_ratio") == absent


def test_a_card_whose_pci_device_is_gone_is_lost(tmp_path: Path) -> None:
    write(tmp_path, rngd(0, RNGD_AT) | rngd(1, "0000:45:00.0"))
    reader = FuriosaReader(options(tmp_path))
    assert reader.survey().keys == ("rngd-npu0", "rngd-npu1")
    shutil.rmtree(tmp_path / "sys/bus/pci/devices" / RNGD_AT)
    with pytest.raises(DeviceLost, match="gone"):
        reader.read("rngd-npu0")
    assert reader.read("rngd-npu1").device.health.state is HealthState.OK
    shutil.rmtree(tmp_path / "sys/class/rngd_mgmt/rngd!npu1mgmt")
    with pytest.raises(DeviceLost, match="does not exist any more"):
        reader.read("rngd-npu1")


def test_a_bus_that_shows_nothing_loses_no_card(tmp_path: Path) -> None:
    """As in a container to which only the driver's own folders were given."""
    write(tmp_path, rngd(0, RNGD_AT))
    shutil.rmtree(tmp_path / "sys/bus/pci/devices" / RNGD_AT)
    assert only(FuriosaReader(options(tmp_path))).health.state is HealthState.OK


def test_cards_move_up_but_keep_their_ids(tmp_path: Path) -> None:
    write(tmp_path, rngd(0, RNGD_AT) | rngd(1, "0000:45:00.0", atr_error=ATR_ERROR.format(axi_post=2)))
    reader = FuriosaReader(replace(options(tmp_path), clock=lambda: 7.0))
    before = [reader.read(key).device for key in reader.survey().keys]
    shutil.rmtree(tmp_path / "sys/class/rngd_mgmt")
    moved = rngd(
        0,
        "0000:45:00.0",
        device_uuid="B0000001-1111-2222-3333-444444444444\n",
        atr_error=ATR_ERROR.format(axi_post=2),
    )
    write(tmp_path, moved)
    card = only(reader)
    assert (card.id, card.index) == (before[1].id, 0)
    assert seen(card) == (2, None)  # its own counts, not those of the card that was npu0


def test_cards_with_the_same_uuid_are_told_apart_by_their_place(tmp_path: Path) -> None:
    nil = "00000000-0000-0000-0000-000000000000\n"
    same = "C0000000-1111-2222-3333-444444444444\n"
    write(tmp_path, rngd(0, RNGD_AT, device_uuid=nil, device_sn="\n"))
    write(tmp_path, rngd(1, "0000:45:00.0", device_uuid=same) | rngd(2, "0000:46:00.0", device_uuid=same))
    reader = FuriosaReader(options(tmp_path))
    script(
        tmp_path,
        "furiosa-smi",
        {
            "info --format json": info_document(
                ("npu0", nil.strip(), RNGD_AT),
                ("npu1", same.strip(), "0000:45:00.0"),
                ("npu2", same.strip(), "0000:46:00.0"),
            ),
            "status --format json": status_document("npu2"),
            "ps": PS,
        },
        otherwise=NO_JSON,
    )
    for _ in range(2):
        cards = [reader.read(key).device for key in reader.survey().keys]
        assert [card.id for card in cards] == [
            f"furiosa:{RNGD_AT}",
            "furiosa:0000:45:00.0",
            "furiosa:0000:46:00.0",
        ]
        assert [card.memory_total_bytes is not None for card in cards] == [False, False, True]


def test_cards_with_the_same_uuid_are_told_apart_also_where_only_a_tool_shows_them(tmp_path: Path) -> None:
    same = "C0000000-1111-2222-3333-444444444444"
    info = info_document(("npu0", same, RNGD_AT), ("npu1", same, "0000:45:00.0"))
    script(tmp_path, "furiosa-smi", {**SMI_2026, "info --format json": info}, otherwise=NO_JSON)
    reader = FuriosaReader(options(tmp_path))
    for _ in range(2):
        cards = [reader.read(key).device for key in reader.survey().keys]
        assert [(card.id, card.index) for card in cards] == [
            (f"furiosa:{RNGD_AT}", 0),
            ("furiosa:0000:45:00.0", 1),
        ]


def test_cards_with_one_serial_and_no_address_are_not_shown_where_only_a_tool_shows_them(
    tmp_path: Path,
) -> None:
    cards = json.loads(info_document(("npu0", "", ""), ("npu1", "", ""), ("npu2", "", "")))
    cards[1]["device_sn"] = cards[0]["device_sn"]
    script(tmp_path, "furiosa-smi", {**SMI_2026, "info --format json": json.dumps(cards)}, otherwise=NO_JSON)
    survey = FuriosaReader(options(tmp_path)).survey()
    assert survey.keys == ("furiosa:SN-npu2",)
    assert [each.reason for each in survey.rejected].count("unidentified") == 2


def test_where_the_counters_of_the_cores_stand_still_the_tool_says_the_utilisation(tmp_path: Path) -> None:
    metrics = "CycleCount: 0x1388\nTaskCycleCount: 0x2bc\n"
    cores = {f"sys/class/rngd_mgmt/rngd!npu0pe{core}/metrics": metrics for core in range(8)}
    write(tmp_path, rngd(0, RNGD_AT) | hwmon(RNGD_AT, RNGD_SENSORS) | cores)
    script(tmp_path, "furiosa-smi", SMI_2026, otherwise=NO_JSON)
    now = iter(range(1000, 2000, 5))
    reader = FuriosaReader(replace(options(tmp_path), clock=lambda: float(next(now))))
    for _ in range(3):
        [card] = [reader.read(key).device for key in reader.survey().keys]
        assert [core.utilization_ratio for core in card.cores] == [0.8] * 2 + [0.0] * 6
        assert card.utilization_ratio == pytest.approx(0.2)


def test_a_card_does_not_take_over_the_id_of_another_that_had_the_same_uuid(tmp_path: Path) -> None:
    same = "C0000000-1111-2222-3333-444444444444\n"
    write(tmp_path, rngd(0, RNGD_AT, device_uuid=same) | rngd(1, "0000:45:00.0", device_uuid=same))
    reader = FuriosaReader(options(tmp_path))
    both = [reader.read(key).device.id for key in reader.survey().keys]
    shutil.rmtree(tmp_path / "sys/class/rngd_mgmt/rngd!npu0mgmt")
    assert [reader.read(key).device.id for key in reader.survey().keys] == both[1:]


def test_cards_with_masked_uuids_have_ids_of_their_own(tmp_path: Path) -> None:
    masked = "XXXXXXXX-XXXX-XXXX-XXXX-XXXXXXXXXXXX\n"
    write(tmp_path, rngd(0, RNGD_AT, device_uuid=masked) | rngd(1, "0000:45:00.0", device_uuid=masked))
    reader = FuriosaReader(options(tmp_path))
    ids = [f"furiosa:{RNGD_AT}", "furiosa:0000:45:00.0"]
    assert [reader.read(key).device.id for key in reader.survey().keys] == ids


@pytest.mark.parametrize("serial", ["0", "00000000", "RNGD000000"])
@pytest.mark.parametrize(
    "uuid", ["00000000-0000-0000-0000-000000000000", "C0000000-1111-2222-3333-444444444444"]
)
def test_cards_with_one_uuid_and_one_serial_have_ids_of_their_own(
    tmp_path: Path, uuid: str, serial: str
) -> None:
    same = {"device_uuid": f"{uuid}\n", "device_sn": f"{serial}\n"}
    write(tmp_path, rngd(0, RNGD_AT, **same) | rngd(1, "0000:45:00.0", **same))
    reader = FuriosaReader(options(tmp_path))
    ids = [reader.read(key).device.id for key in reader.survey().keys]
    assert ids == [f"furiosa:{RNGD_AT}", "furiosa:0000:45:00.0"]


def test_a_masked_card_has_the_same_id_alone_and_beside_another(tmp_path: Path) -> None:
    same = {"device_uuid": "00000000-0000-0000-0000-000000000000\n", "device_sn": "7\n"}
    write(tmp_path, rngd(0, RNGD_AT, **same))
    alone = FuriosaReader(options(tmp_path))
    [before] = [alone.read(key).device.id for key in alone.survey().keys]
    write(tmp_path, rngd(1, "0000:45:00.0", **same))
    both = FuriosaReader(options(tmp_path))
    assert next(both.read(key).device.id for key in both.survey().keys) == before


def test_a_foreign_npu_is_not_ours(tmp_path: Path) -> None:
    write(tmp_path, warboy(0, WARBOY_AT, platform_type="SomebodyElse\n") | warboy(1, "0000:02:00.0"))
    assert FuriosaReader(options(tmp_path)).survey().keys == ("warboy-npu1",)


def test_a_file_of_nonsense_costs_itself(tmp_path: Path) -> None:
    write(tmp_path, rngd(0, RNGD_AT, heartbeat="soon\n", npu_clocks="2000\nfast\n", pe_occupancy="1\n7\n"))
    write(tmp_path, hwmon(RNGD_AT, RNGD_SENSORS))
    write(tmp_path, {f"sys/bus/pci/devices/{RNGD_AT}/hwmon/hwmon3/temp3_input": "N/A\n"})
    reader = FuriosaReader(options(tmp_path))
    reading = reader.read(reader.survey().keys[0])
    assert len(reading.rejected) == 4
    assert {rejection.reason for rejection in reading.rejected} == {"unreadable"}
    card = reading.device
    assert (card.temperature_celsius, card.uptime_seconds, card.cores) == (59.65, None, ())
    unreadable = {a.field for a in card.absent if a.reason is AbsenceReason.UNREADABLE}
    assert unreadable == {"uptime_seconds", "clocks", "cores.occupied", "sensors.NPU_PE0"}


def test_a_node_without_anything_of_the_vendor(tmp_path: Path) -> None:
    with pytest.raises(DriverAbsent, match="rngd_mgmt"):
        FuriosaReader(options(tmp_path)).survey()


def test_a_driver_without_cards(tmp_path: Path) -> None:
    (tmp_path / "sys/class/rngd_mgmt").mkdir(parents=True)
    survey = FuriosaReader(options(tmp_path)).survey()
    assert (survey.source, survey.keys) == ("sysfs", ())


NO_DEVICE = "Error: device not found error"


@pytest.mark.parametrize(
    ("on_bus", "says", "error", "reason"),
    [
        (False, NO_DEVICE, DriverAbsent, "driver_absent"),
        (True, NO_DEVICE, ReaderError, "driver_not_loaded"),
        (True, "Error: permission denied error", ReaderError, "no_permission"),
    ],
)
def test_a_tool_that_shows_no_card(
    tmp_path: Path, on_bus: bool, says: str, error: type[ReaderError], reason: str
) -> None:
    (tmp_path / "sys/bus/pci/devices").mkdir(parents=True)
    if on_bus:
        codes = {"vendor": "0x1ed2\n", "device": "0x0001\n", "class": "0x120000\n"}
        write(tmp_path, {f"sys/bus/pci/devices/{RNGD_AT}/{name}": text for name, text in codes.items()})
    script(tmp_path, "furiosa-smi", {}, otherwise=says)
    with pytest.raises(error) as raised:
        FuriosaReader(options(tmp_path)).survey()
    assert raised.value.reason == reason
