"""The vendor's own tree of a node with two Warboys, and the labels of a real one, as cards of the model.

The tree is stored flat: `=== path`, then the file's content; `->` is a symbolic link.
"""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from tests.vendors.furiosa.furiosa_tree import hwmon, options, warboy, write

from accelscope.model import Device, HealthState, Rail, Reading, Sensor
from accelscope.vendors.furiosa.reader import FuriosaReader


def unfold(flat: Path, root: Path) -> None:
    for part in re.split(r"^=== ", flat.read_text(), flags=re.MULTILINE)[1:]:
        head, _, content = part.partition("\n")
        name, _, target = head.partition(" -> ")
        path = root / name.split(" ", 1)[0].lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        if target:
            path.symlink_to(target)
        else:
            path.write_text(content)


@pytest.fixture
def readings(captures: Path, tmp_path: Path) -> list[Reading]:
    unfold(captures / "furiosa/sysfs_test-0.txt", tmp_path)
    reader = FuriosaReader(replace(options(tmp_path), clock=lambda: 100.0))
    survey = reader.survey()
    assert survey.source == "sysfs"
    assert survey.driver_version == "1.0.0, 0000000"
    assert survey.warnings == ()
    return [reader.read(key) for key in survey.keys]


def test_the_healthy_card(readings: list[Reading]) -> None:
    card = readings[0].device
    assert identity(card) == ("furiosa:0000:6d:00.0", 0, "npu0", "warboy", "0000:6d:00.0")
    assert (card.uuid, card.serial, card.numa_node) == (None, None, 0)
    assert (card.firmware_version, card.driver_version) == ("1.6.0, c1bebfd", "1.0.0, 0000000")
    assert card.sensors == (Sensor("Temp1", 36.0), Sensor("Temp2", 37.0))
    assert card.temperature_celsius == 37.0  # no sensor is called Peak: the hottest
    assert card.power_watts is None  # neither label is the card's
    assert set(card.rails) == {
        Rail("Current1", amperes=1.0),
        Rail("Current2", amperes=2.0),
        Rail("Voltage0", volts=1.1),
        Rail("Voltage1", volts=1.2),
        Rail("Power1", watts=0.001111),
        Rail("Power2", watts=0.022222),
    }
    # perf_regs can be read: somebody uses the cores; how much, only a second reading tells.
    assert [(core.index, core.occupied, core.utilization_ratio) for core in card.cores] == [
        (0, True, None),
        (1, True, None),
    ]
    assert card.health.state is HealthState.UNKNOWN  # the tree has no `alive`
    assert {"uuid", "serial", "uptime_seconds", "errors", "power_watts"} <= {a.field for a in card.absent}


def test_the_card_that_tells_little(readings: list[Reading]) -> None:
    card = readings[1].device
    assert identity(card) == ("furiosa:0000:ff:00.0", 1, "npu1", "warboy", "0000:ff:00.0")
    assert card.numa_node is None  # -1
    assert card.firmware_version is None
    assert card.sensors == ()
    assert card.temperature_celsius is None
    assert card.rails == (Rail("curr1", amperes=1.0),)  # without a label, by its file
    assert card.cores == ()
    assert not readings[1].rejected


def identity(card: Device) -> tuple[object, ...]:
    assert card.model == card.architecture
    return card.id, card.index, card.device_name, card.model, card.pci_address


def test_labels_of_a_real_warboy_find_their_places(captures: Path, tmp_path: Path) -> None:
    labels = {}
    for line in (captures / "furiosa/sysfs_warboy_hwmon_labels.txt").read_text().splitlines():
        kind, _, names = line.partition(": ")
        labels[kind] = [name.strip() for name in names.split(",")]
    sensors = {
        f"{kind}{number}": (label, 1000 * number)
        for kind, names in labels.items()
        for number, label in enumerate(names, 1)
    }
    write(tmp_path, warboy(0, "0000:01:00.0") | hwmon("0000:01:00.0", sensors))
    reader = FuriosaReader(options(tmp_path))
    card = reader.read(reader.survey().keys[0]).device
    peak = 1 + labels["temp"].index("Peak")
    total = 1 + labels["power"].index("PCI Total RMS PWR")
    assert [sensor.name for sensor in card.sensors] == labels["temp"]
    assert card.temperature_celsius == float(peak)
    assert card.power_watts == pytest.approx(total * 1e-3)
    rails = {rail.name: rail for rail in card.rails}
    assert rails.keys() == {*labels["power"], *labels["curr"], *labels["in"]} - {"PCI Total RMS PWR"}
    assert rails["NE Core Volt"].volts is not None
    assert rails["NE Current"].amperes is not None
    assert rails["NE 12V PWR"].watts is not None
