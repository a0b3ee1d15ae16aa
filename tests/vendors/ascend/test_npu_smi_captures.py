"""Every capture of npu-smi, with the values that a person read from the file.

Of ids that belong to other people's machines only the beginning is written down here.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import pytest

from accelscope.model import Device, Process
from accelscope.parsing import sources
from accelscope.vendors.ascend import parse_info

MIB = 2**20
MHZ = 1e6
NOTHING = object()  # the file has neither a value nor an absence

Values = dict[str, object]


@dataclass(frozen=True)
class Expected:
    source: str
    devices: Sequence[Values] = ()
    processes: Sequence[Values] = ()


def table(*devices: Values, processes: Sequence[Values] = ()) -> Expected:
    return Expected("npu-smi-info", devices, processes)


def chip(
    npu: int,
    number: int | None,
    model: str,
    bus: str | None,
    watts: float | str,
    celsius: float,
    percent: int,
    used: int,
    total: int,
    **more: object,
) -> Values:
    """One chip of a table; `watts` may be the reason why there is no number."""
    values: Values = {
        "board_id": npu,
        "chip_id": NOTHING if number is None else number,
        "model": model,
        "pci_address": NOTHING if bus is None else bus,
        "health": ("ok", "OK"),
        "temperature_celsius": float(celsius),
        "sensors.npu": float(celsius),
        "utilization_ratio": percent / 100,
        "memory_used_bytes": used * MIB,
        "memory_total_bytes": total * MIB,
        "index": NOTHING,
        "physical_id": NOTHING,
        "uuid": NOTHING,
        "serial": NOTHING,
    }
    if bus is None:
        values["absent.pci_address"] = "not_supported"
    if isinstance(watts, str):
        values |= {"power_watts": NOTHING, "absent.power_watts": watts}
    else:
        values |= {"power_watts": watts, "absent.power_watts": NOTHING}
    return values | more


def process(pid: int, npu: int, number: int | None, name: str | None, mebibytes: int) -> Values:
    return {
        "pid": pid,
        "on": (npu, number),
        "name": NOTHING if name is None else name,
        "memory_bytes": mebibytes * MIB,
        "type": "compute",
    }


def bare(npu: int, number: int | None, **values: object) -> Values:
    """A chip in an output of `key : value` lines."""
    return {"board_id": npu, "chip_id": NOTHING if number is None else number, **values}


def clock(now: int, rated: int) -> Values:
    return {"clocks.aicore": now * MHZ, "clocks.aicore.max": rated * MHZ}


def ecc(*blocks: str) -> Values:
    """No errors at all, in these memories and together."""
    values: Values = {}
    for severity in ("corrected", "uncorrected"):
        for span in ("volatile", "lifetime"):
            values |= {f"ecc.{severity}.{span}{block}": 0 for block in ("", *(f".{name}" for name in blocks))}
        values[f"retired_pages.{severity}"] = 0
    return values


CAPTURES: dict[str, Expected] = {
    "info_310B4_23.0.rc3.txt": table(
        chip(0, 0, "310B4", None, 7.7, 54, 0, 2166, 3513, index=0, driver_version="23.0.rc3")
    ),
    "info_310P3_22.0.0.txt": table(
        chip(0, 0, "310P3", "0000:5e:00.0", 16.7, 57, 0, 932, 21534, index=0, driver_version="22.0.2")
    ),
    "info_310P3_22.0.2_npu2144.txt": table(
        chip(2144, 0, "310P3", "0000:86:00.0", "not_supported", 47, 0, 1807, 21527, index=0)
    ),
    "info_310P3_vm_22.0.4.txt": table(
        chip(7, 0, "310P3", "0000:00:07.0", "not_supported", 28, 0, 1805, 21527, index=0)
    ),
    "info_310x4_20.2.0.txt": table(
        chip(215, 0, "310", "0000:da:00.0", 12.8, 56, 0, 2703, 8192, index=0, driver_version="20.2.0"),
        chip(215, 1, "310", "0000:dc:00.0", 12.8, 57, 0, 2703, 8192, index=1),
        chip(215, 2, "310", "0000:dd:00.0", 12.8, 57, 0, 2703, 8192, index=2),
        chip(215, 3, "310", "0000:db:00.0", 12.8, 55, 0, 2703, 8192, index=3),
    ),
    "info_910A_container_23.0.rc2.txt": table(
        chip(3, 0, "910A", "0000:01:00.0", 62.2, 26, 0, 0, 32768, driver_version="23.0.rc2")
    ),
    "info_910Ax8_22.0.3.1.txt": table(
        chip(0, 0, "910A", "0000:61:00.0", 67.2, 43, 0, 0, 32768, driver_version="22.0.3.1"),
        chip(1, 0, "910A", "0000:db:00.0", 63.3, 38, 0, 0, 32768),
        chip(2, 0, "910A", "0000:b2:00.0", 64.8, 34, 0, 0, 32768),
        chip(3, 0, "910A", "0000:3e:00.0", 191.7, 42, 0, 0, 32768),
        chip(4, 0, "910A", "0000:60:00.0", 66.4, 44, 0, 0, 32768),
        chip(5, 0, "910A", "0000:da:00.0", 62.7, 33, 0, 0, 32768),
        chip(6, 0, "910A", "0000:b1:00.0", 64.5, 35, 0, 0, 32768),
        chip(7, 0, "910A", "0000:3d:00.0", 191.4, 40, 0, 0, 32768),
    ),
    "info_910B2Cx2_23.0.2.1.txt": table(
        chip(0, 0, "910B2C", "0000:5a:00.0", 88.6, 51, 0, 20701, 65536, driver_version="23.0.2.1"),
        chip(1, 0, "910B2C", "0000:19:00.0", 99.6, 50, 0, 20687, 65536),
        processes=[process(124528, 0, 0, "python3.8", 17400)],
    ),
    "info_910B3x8_24.1.rc1.txt": table(
        chip(0, 0, "910B3", "0000:c1:00.0", 101.8, 43, 0, 3318, 65536, driver_version="24.1.rc1.b030"),
        chip(1, 0, "910B3", "0000:c2:00.0", 92.0, 39, 0, 3314, 65536),
        chip(2, 0, "910B3", "0000:81:00.0", 102.0, 40, 0, 3314, 65536),
        chip(3, 0, "910B3", "0000:82:00.0", 99.8, 40, 0, 3314, 65536),
        chip(4, 0, "910B3", "0000:01:00.0", 98.6, 45, 0, 3314, 65536),
        chip(5, 0, "910B3", "0000:02:00.0", 99.7, 44, 0, 3314, 65536),
        chip(6, 0, "910B3", "0000:41:00.0", 103.8, 45, 0, 3314, 65536),
        chip(7, 0, "910B3", "0000:42:00.0", 98.2, 44, 0, 3315, 65536),
    ),
    "info_910B3x8_25.0.rc1_busy.txt": table(
        chip(0, 0, "910B3", "0000:c1:00.0", 124.9, 41, 27, 59718, 65536, driver_version="25.0.rc1.b010"),
        chip(1, 0, "910B3", "0000:c2:00.0", 122.0, 40, 29, 59715, 65536),
        chip(2, 0, "910B3", "0000:81:00.0", 124.0, 41, 29, 59714, 65536),
        chip(3, 0, "910B3", "0000:82:00.0", 127.3, 39, 29, 59716, 65536),
        chip(4, 0, "910B3", "0000:01:00.0", 128.3, 45, 30, 59714, 65536),
        chip(5, 0, "910B3", "0000:02:00.0", 122.5, 44, 29, 59715, 65536),
        chip(6, 0, "910B3", "0000:41:00.0", 127.4, 46, 29, 59714, 65536),
        chip(7, 0, "910B3", "0000:42:00.0", 128.6, 45, 29, 59715, 65536),
        processes=[
            process(1067983, 0, 0, None, 56373),
            process(1070524, 1, 0, None, 56373),
            process(1073093, 2, 0, None, 56373),
            process(1075396, 3, 0, None, 56373),
            process(1077642, 4, 0, None, 56373),
            process(1079652, 5, 0, None, 56374),
            process(1082071, 6, 0, None, 56373),
            process(1084428, 7, 0, None, 56373),
        ],
    ),
    "info_910x8_23.0.rc2.txt": table(
        chip(0, 0, "910B", "0000:c1:00.0", 69.4, 35, 0, 1, 32768, driver_version="23.0.rc2"),
        chip(1, 0, "910B", "0000:81:00.0", 66.4, 37, 0, 0, 32768),
        chip(2, 0, "910B", "0000:41:00.0", 69.9, 37, 0, 0, 32768),
        chip(3, 0, "910B", "0000:01:00.0", 66.8, 36, 0, 0, 32768),
        chip(4, 0, "910B", "0000:c2:00.0", 69.9, 35, 0, 0, 32768),
        chip(5, 0, "910B", "0000:82:00.0", 67.1, 36, 0, 0, 32768),
        chip(6, 0, "910B", "0000:42:00.0", 69.9, 36, 0, 0, 32768),
        chip(7, 0, "910B", "0000:02:00.0", 67.4, 35, 0, 0, 32768),
    ),
    "info_950DT_25.6.rc1.txt": table(
        chip(0, None, "Ascend950DT", None, 380.7, 44, 0, 6632, 86016, index=0),
        chip(1, None, "Ascend950DT", None, 380.3, 51, 5, 6711, 86016, index=1),
        chip(6, None, "Ascend950DT", None, 381.1, 50, 0, 66466, 86016, index=6),
        chip(
            *(7, None, "Ascend950DT", None, 379.5, 46, 0, 66461, 86016),
            index=7,
            driver_version="25.6.rc1.b169",
        ),
        processes=[
            process(3621066, 6, None, "worker.py", 40000),
            process(3624823, 6, None, "worker.py", 61140),
            process(3624824, 6, None, "helper.py", 20000),
        ],
    ),
    "info_950DTx8_idle.txt": table(
        chip(0, None, "Ascend950DT", None, 377.2, 48, 0, 4857, 98304, index=0, driver_version=NOTHING),
        chip(1, None, "Ascend950DT", None, 380.6, 50, 0, 4855, 98304, index=1),
        chip(2, None, "Ascend950DT", None, 373.1, 49, 0, 4855, 98304, index=2),
        chip(3, None, "Ascend950DT", None, 395.1, 48, 0, 4857, 98304, index=3),
        chip(4, None, "Ascend950DT", None, 366.6, 49, 0, 4856, 98304, index=4),
        chip(5, None, "Ascend950DT", None, 370.7, 49, 0, 4855, 98304, index=5),
        chip(6, None, "Ascend950DT", None, 373.3, 49, 0, 4856, 98304, index=6),
        chip(7, None, "Ascend950DT", None, 372.8, 49, 0, 4856, 98304, index=7),
    ),
    "info_A3_26.0.rc2_excerpt.txt": table(
        chip(0, 0, "Ascend910", "0000:9d:00.0", 162.6, 34, 0, 3419, 65536, physical_id=0),
        chip(0, 1, "Ascend910", "0000:9f:00.0", "shared", 34, 0, 2874, 65536, physical_id=1),
        processes=[process(632268, 0, 0, "python3.1", 197)],
    ),
    "info_A3_2npu_25.2.0.txt": table(
        chip(0, 0, "Ascend910", "0000:9c:00.0", 162.8, 37, 0, 3133, 65536, physical_id=0),
        chip(0, 1, "Ascend910", "0000:9e:00.0", "shared", 37, 0, 2876, 65536, physical_id=1),
        chip(1, 0, "Ascend910", "0000:37:00.0", 167.1, 38, 0, 3116, 65536, physical_id=2),
        chip(1, 1, "Ascend910", "0000:39:00.0", "shared", 38, 0, 10568, 65536, physical_id=3),
        processes=[process(990711, 1, 1, "python", 7746)],
    ),
    "info_A3_doc_container-pid-col.txt": table(
        chip(0, 0, "xxx", "0000:9d:00.0", 157.3, 32, 0, 3130, 65536, physical_id=0),
        chip(0, 1, "xxx", "0000:9d:00.0", "shared", 32, 0, 3130, 65536, physical_id=0),
    ),
    "board_chip_910.txt": Expected(
        "npu-smi-board",
        [
            bare(
                *(0, 0),
                model="xxx",
                uuid="42C711D4-",
                pci_address="0000:61:00.0",
                firmware_version="7.1.0.7.220",
                driver_version=NOTHING,
                serial=NOTHING,
            )
        ],
    ),
    "board_npu_910_23.0.5.txt": Expected(
        "npu-smi-board",
        [
            bare(
                *(0, None),
                pci_address="0000:61:00.0",
                driver_version="23.0.5",
                firmware_version="7.1.0.7.220",
                chip_count=1,
                pci_device_id="0xd801",
                uuid=NOTHING,
                serial=NOTHING,
                model=NOTHING,
            )
        ],
    ),
    "common_310Pduo.txt": Expected(
        "npu-smi-common",
        [
            bare(
                1,
                number,
                temperature_celsius=celsius,
                power_watts=NOTHING,
                utilization_ratio=0.0,
                memory_used_ratio=0.03,
                **clock(960, 1080),
            )
            for number, celsius in ((0, 60.0), (1, 59.0))
        ],
    ),
    "common_910B.txt": Expected(
        "npu-smi-common",
        [
            bare(
                0,
                0,
                temperature_celsius=46.0,
                power_watts=69.0,
                utilization_ratio=0.0,
                memory_used_ratio=0.0,
                **clock(1000, 1000),
            )
        ],
    ),
    "common_910_23.txt": Expected(
        "npu-smi-common",
        [bare(0, 0, temperature_celsius=41.0, power_watts=71.7, utilization_ratio=0.0, **clock(900, 900))],
    ),
    "ecc_910.txt": Expected("npu-smi-ecc", [bare(1, 0, **ecc("hbm", "ddr"))]),
    "health_910.txt": Expected("npu-smi-health", [{"health": ("ok", "OK"), "board_id": NOTHING}]),
    "map_310x4_20.2.0.txt": Expected(
        "npu-smi-map",
        [bare(215, n, index=n, model="MiniD", physical_id=NOTHING) for n in range(4)],
    ),
    "map_310x4_21.0.4.txt": Expected("npu-smi-map", [bare(6, n, index=n, model="MiniD") for n in range(4)]),
    "map_910Ax8_24.1.RC2.txt": Expected(
        "npu-smi-map", [bare(n, 0, index=n, model="Ascend 910A") for n in range(8)]
    ),
    "map_910Bx8_mcu.txt": Expected(
        "npu-smi-map", [bare(n, 0, index=n, model="Ascend xxx") for n in range(8)]
    ),
    "proc-mem_310P3_npu32768.txt": Expected(
        "npu-smi-proc-mem",
        [bare(32768, 0), bare(32768, 1)],
        [
            process(1976358, 32768, 0, "gunicorn", 1336),
            process(1673754, 32768, 0, "gunicorn", 460),
            process(577293, 32768, 0, "gunicorn", 1972),
            process(1654605, 32768, 1, "gunicorn", 1851),
            process(716574, 32768, 1, "gunicorn", 248),
        ],
    ),
    "proc-mem_pidname-failed.txt": Expected(
        "npu-smi-proc-mem",
        [],
        [{"pid": 123, "on": NOTHING, "name": NOTHING, "memory_bytes": 456 * MIB}],
    ),
    "usages_310Pduo.txt": Expected(
        "npu-smi-usages",
        [
            bare(
                *(1, number),
                memory_total_bytes=capacity * MIB,
                memory_used_bytes=round(capacity * MIB * 0.03),
                memory_utilization_ratio=0.51,
                utilization_ratio=0.0,
                vector_utilization_ratio=0.0,
                tensor_active_ratio=NOTHING,
                decoder_utilization_ratio=0.0,
                encoder_utilization_ratio=0.0,
                jpeg_utilization_ratio=0.0,
            )
            for number, capacity in ((0, 44280), (1, 43693))
        ],
    ),
    "usages_910B.txt": Expected(
        "npu-smi-usages",
        [
            bare(
                *(0, 0),
                memory_total_bytes=32768 * MIB,
                memory_used_bytes=0,
                memory_utilization_ratio=0.0,
                utilization_ratio=0.0,
                vector_utilization_ratio=NOTHING,
            )
        ],
    ),
    "usages_910B3_25.5.1.txt": Expected(
        "npu-smi-usages",
        [
            bare(
                *(0, 0),
                memory_total_bytes=65536 * MIB,
                memory_used_bytes=round(65536 * MIB * 0.05),
                memory_used_ratio=0.05,
                control_cpu_utilization_ratio=0.06,
                overall_utilization_ratio=0.0,
                memory_utilization_ratio=0.0,
                utilization_ratio=0.0,
                vector_utilization_ratio=0.0,
                tensor_active_ratio=0.0,
            )
        ],
    ),
    "usages_910_23.0.5.txt": Expected(
        "npu-smi-usages",
        [bare(0, 0, memory_total_bytes=32768 * MIB, memory_used_bytes=0, utilization_ratio=0.0)],
    ),
}

OF_OTHER_KINDS = {
    "list_910Bx8.txt": "npu-smi info -l: only counts NPUs; the reader takes their ids",
    "power_910B_25.5.1.txt": "npu-smi info -t power: the table has it",
    "temp_910B_25.5.1.txt": "npu-smi info -t temp: the table has it",
    "topo_910B3x8.txt": "npu-smi info -t topo: how NPUs are connected, no state of them",
    "watch_310B.txt": "npu-smi info watch: an endless form of the table",
}


def test_every_capture_has_expected_values(captures: Path) -> None:
    found = {path.name for path in (captures / "ascend").iterdir()}
    assert found == CAPTURES.keys() | OF_OTHER_KINDS.keys()


@pytest.mark.parametrize("name", CAPTURES)
def test_a_capture_is_parsed_to_the_expected_values(captures: Path, name: str) -> None:
    expected = CAPTURES[name]
    text = (captures / "ascend" / name).read_text()
    parsed = sources()[expected.source].parse(text, None)
    assert parsed.error is None
    assert parsed.rejected == ()
    assert len(parsed.devices) == len(expected.devices)
    for device, values in zip(parsed.devices, expected.devices, strict=True):
        assert_values(dict(device_facts(device)), values)
    assert len({device.id for device in parsed.devices}) == len(parsed.devices)
    places = {device.id: (device.board_id, device.chip_id) for device in parsed.devices}
    assert len(parsed.processes) == len(expected.processes)
    for found, values in zip(parsed.processes, expected.processes, strict=True):
        assert_values(dict(process_facts(found, places)), values)


def test_chips_of_a_capture_that_share_a_bus_address_keep_their_ids(captures: Path) -> None:
    text = (captures / "ascend/info_A3_doc_container-pid-col.txt").read_text()
    first, second = parse_info.parse(text).devices[:2]
    assert first.pci_address == second.pci_address
    row = next(n for n, line in enumerate(text.splitlines()) if "0000:9D:00.0" in line)
    lines = text.splitlines(keepends=True)
    without_first = "".join(lines[: row - 1] + lines[row + 1 :])
    assert parse_info.parse(without_first).devices[0].id == second.id != first.id


@pytest.mark.parametrize("name", CAPTURES)
@pytest.mark.parametrize("source", [name for name in sources() if name.startswith("npu-smi")])
def test_other_parsers_take_no_wrong_values_from_a_capture(captures: Path, name: str, source: str) -> None:
    """The wrong parser rejects a capture, or returns values that the capture contains."""
    expected = CAPTURES[name]
    if source == expected.source:
        return
    parsed = sources()[source].parse((captures / "ascend" / name).read_text(), None)
    assert parsed.error is not None or {source, expected.source} <= {
        "npu-smi-usages",
        "npu-smi-common",
        "npu-smi-board",
    }


@pytest.mark.parametrize("name", OF_OTHER_KINDS)
def test_a_capture_of_another_format_is_rejected(captures: Path, name: str) -> None:
    for source in (name for name in sources() if name.startswith("npu-smi")):
        parsed = sources()[source].parse((captures / "ascend" / name).read_text(), None)
        if name.startswith("power") and source == "npu-smi-common":
            continue  # its one value is of the common ones too
        assert parsed.error is not None, source
        assert parsed.error.reason == "unrecognized"


def assert_values(facts: dict[str, Any], values: Values) -> None:
    wrong = {}
    for place, value in values.items():
        found = facts.get(place, NOTHING)
        if place == "uuid" and isinstance(value, str):
            right = str(found).startswith(value)
        else:
            right = found is NOTHING if value is NOTHING else found == value
        if not right:
            wrong[place] = (value, found)
    assert not wrong


def process_facts(process: Process, places: dict[str, tuple[int | None, int | None]]) -> Iterator[Any]:
    for f in fields(process):
        value = getattr(process, f.name)
        if value is not None:
            yield f.name, value
    if process.device is not None:
        yield "on", places[process.device]


def device_facts(device: Device) -> Iterator[tuple[str, Any]]:
    for f in fields(device):
        value = getattr(device, f.name)
        if f.name == "health":
            yield "health", (value.state, value.vendor_word)
        elif value is not None and not isinstance(value, tuple):
            yield f.name, value
    yield from ((f"sensors.{sensor.name}", sensor.celsius) for sensor in device.sensors)
    yield from ((f"absent.{absence.field}", absence.reason) for absence in device.absent)
    yield from ((f"retired_pages.{pages.severity}", pages.count) for pages in device.retired_pages)
    for clock_ in device.clocks:
        yield f"clocks.{clock_.domain}", clock_.hertz
        yield f"clocks.{clock_.domain}.max", clock_.max_hertz
    for count in device.ecc:
        span = "lifetime" if count.lifetime else "volatile"
        yield f"ecc.{count.severity}.{span}{f'.{count.block}' if count.block else ''}", count.count
