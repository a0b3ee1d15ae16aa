"""Labels: which there are, and that Kubernetes takes them."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.sinks.snapshots import card, npu

from accelscope.model import Device, Health, HealthState, Vendor, identity_of
from accelscope.sinks import DOMAINS
from accelscope.sinks.documents import (
    Machine,
    Sizes,
    Version,
    feature_labels,
    label_value,
    read_machine,
    version_of,
)

MACHINE = Machine("Dell Inc.", "PowerEdge R7525")
VALUE = re.compile(r"([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)")
NAME = re.compile(r"[a-z0-9.-]+/[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
LOST = Health(HealthState.LOST, "gone")


def under(domain: str, *devices: Device, machine: Machine = MACHINE) -> dict[str, str]:
    labels = feature_labels(devices, machine, [domain])
    assert all(name.startswith(f"{domain}/") for name in labels)
    return {name.removeprefix(f"{domain}/"): value for name, value in labels.items()}


def test_the_former_names_of_a_warboy_node() -> None:
    assert under("beta.furiosa.ai", npu(0), npu(1)) == {
        "npu.count": "2",
        "npu.product": "warboy",
        "npu.family": "warboy",
        "machine.vendor": "Dell-Inc",
        "machine.name": "PowerEdge-R7525",
        "driver.version": "1.9.8",
        "driver.version.major": "1",
        "driver.version.minor": "9",
        "driver.version.patch": "8",
        "driver.reference": "4c1f0aa",
    }


def test_the_present_names_of_an_rngd_node() -> None:
    rngd = npu(
        0,
        model="rngd-max",
        architecture="rngd",
        driver_version="2026.1.0-dev0+96977d5",
        firmware_version=None,
    )
    version = {
        "version": "2026.1.0",
        "version.major": "2026",
        "version.minor": "1",
        "version.patch": "0",
        "version.metadata": "96977d5",
        "version.prerelease": "dev0",
    }
    assert under("furiosa.ai", rngd) == {
        "npu.count": "1",
        "npu.product": "rngd-max",
        "npu.family": "rngd",
        **{f"driver.{name}": value for name, value in version.items()},
        **{f"npu.driver.{name}": value for name, value in version.items()},
    }


def test_our_own_names_for_every_vendor() -> None:
    amd = card(0, Vendor("amd"), model="AMD Instinct MI300X", architecture="gfx942", driver_version="6.14")
    labels = under("accelscope.io", card(0), card(1), amd)
    assert labels == {
        "nvidia.count": "2",
        "nvidia.product": "NVIDIA-H100-80GB-HBM3",
        "nvidia.family": "hopper",
        "nvidia.memory": "81559",
        "nvidia.driver.version": "550.54.15",
        "nvidia.driver.version.major": "550",
        "nvidia.driver.version.minor": "54",
        "nvidia.driver.version.patch": "15",
        "amd.count": "1",
        "amd.product": "AMD-Instinct-MI300X",
        "amd.family": "gfx942",
        "amd.memory": "81559",
        "amd.driver.version": "6.14",
        "amd.driver.version.major": "6",
        "amd.driver.version.minor": "14",
        "machine.vendor": "Dell-Inc",
        "machine.name": "PowerEdge-R7525",
    }


@pytest.mark.parametrize(
    ("model", "old", "new"),
    [
        ("warboy", "warboy", "warboy"),
        ("FuriosaAI Warboy", "warboy", "warboy"),
        ("warboyB0", "warboyB0", "warboy"),
        ("Warboy-B0", "warboyB0", "warboy"),
        ("rngd", "renegade", "rngd"),
        ("RNGD", "renegade", "rngd"),
        ("RNGD-S", "renegade", "rngd-s"),
        ("rngd-max", "renegade", "rngd-max"),
        ("Renegade", "renegade", "rngd"),
        ("something new", None, None),
        (None, None, None),
    ],
)
def test_products_of_furiosa(model: str | None, old: str | None, new: str | None) -> None:
    device = npu(0, model=model)
    assert under("beta.furiosa.ai", device).get("npu.product") == old
    assert under("furiosa.ai", device).get("npu.product") == new


def test_the_silicon_tells_a_warboy_b0() -> None:
    device = npu(0, model="warboy", revision="B0")
    assert under("beta.furiosa.ai", device)["npu.product"] == "warboyB0"
    assert under("furiosa.ai", device)["npu.product"] == "warboy"


def test_values_that_differ_between_devices_have_no_label() -> None:
    labels = under("accelscope.io", card(0), card(1, driver_version="560.1.1", model="NVIDIA L40S"))
    assert labels["nvidia.count"] == "2"
    assert labels["nvidia.family"] == "hopper"
    assert not [name for name in labels if "driver" in name or "product" in name]


def test_a_value_that_one_device_lacks_has_no_label() -> None:
    labels = under("accelscope.io", card(0), card(1, memory_total_bytes=None))
    assert "nvidia.memory" not in labels


def test_stale_devices_count_and_lost_ones_do_not() -> None:
    silent = card(1, stale=True, memory_total_bytes=None, health=Health(HealthState.UNKNOWN))
    labels = under("accelscope.io", card(0), silent, card(2, health=LOST, driver_version="1.2.3"))
    assert labels["nvidia.count"] == "2"
    assert labels["nvidia.memory"] == "81559"
    assert labels["nvidia.driver.version"] == "550.54.15"


def test_stale_devices_keep_their_memory_size() -> None:
    sizes = Sizes()
    first = sizes.fill_in([card(0), card(1)])
    silent = [replace(identity_of(device), stale=True) for device in first]
    for _ in range(2):
        assert feature_labels(sizes.fill_in(silent), MACHINE) == feature_labels(first, MACHINE)
    sizes.fill_in([])
    assert sizes.fill_in(silent) == silent  # not of a device that has been away


def test_without_devices_there_are_no_labels_and_without_npus_none_of_furiosas() -> None:
    assert feature_labels([], MACHINE) == {}
    assert feature_labels([card(0, health=LOST)], MACHINE) == {}
    assert under("furiosa.ai", card(0)) == under("beta.furiosa.ai", card(0)) == {}


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("550.54.15", Version("550.54.15", "550", "54", "15")),
        ("535.183", Version("535.183", "535", "183")),
        ("24.1.rc3", Version("24.1.rc3", "24", "1")),
        ("24.1rc3", Version("24.1rc3", "24")),
        ("1.9.8, 4c1f0aa", Version("1.9.8", "1", "9", "8", None, "4c1f0aa")),
        ("2026.1.0+96977d5", Version("2026.1.0", "2026", "1", "0", None, "96977d5")),
        ("1.2.3-rc1", Version("1.2.3-rc1", "1", "2", "3", "rc1")),
        ("v6.10.5 (build 7)", Version("6.10.5", "6", "10", "5")),
        ("7.5.0.5.220", Version("7.5.0.5.220", "7", "5", "0")),
        ("unknown", Version("unknown")),
    ],
)
def test_versions_are_parsed(text: str, version: Version) -> None:
    assert version_of(text) == version


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("NVIDIA H100 80GB HBM3", "NVIDIA-H100-80GB-HBM3"),
        ("Dell Inc.", "Dell-Inc"),
        ("  -_x_- ", "x"),
        ("a" * 62 + "-b", "a" * 62),
        ("超微", None),
        ("", None),
    ],
)
def test_values_are_made_valid(text: str, value: str | None) -> None:
    assert label_value(text) == value


words = st.none() | st.text(max_size=100)
devices = st.builds(
    Device,
    vendor=st.sampled_from(Vendor),
    id=st.just("id"),
    model=words,
    architecture=words,
    driver_version=words | st.from_regex(r"[0-9]{1,4}(\.[0-9]{1,4}){0,3}([-+, ]{1,2}[a-z0-9]{1,70})?"),
    firmware_version=words,
    memory_total_bytes=st.none() | st.integers(0, 2**60),
    stale=st.booleans(),
)


@given(st.lists(devices, max_size=4), st.builds(Machine, words, words))
def test_every_label_is_valid(told: list[Device], machine: Machine) -> None:
    labels = feature_labels(told, machine)
    assert {name.partition("/")[0] for name in labels} <= set(DOMAINS)
    for name, value in labels.items():
        assert NAME.fullmatch(name)
        assert VALUE.fullmatch(value)
        assert len(value) <= 63


def test_the_machine_comes_from_its_firmware(tmp_path: Path) -> None:
    assert read_machine(tmp_path) == Machine()
    folder = tmp_path / "class/dmi/id"
    folder.mkdir(parents=True)
    (folder / "sys_vendor").write_text("Supermicro\n")
    (folder / "product_name").write_text("\n")
    assert read_machine(tmp_path) == Machine("Supermicro", None)


def test_a_label_of_each_domain_can_be_left_out() -> None:
    fields: dict[str, Any] = {"domains": ["furiosa.ai"]}
    assert all(name.startswith("furiosa.ai/") for name in feature_labels([npu(0)], MACHINE, **fields))
