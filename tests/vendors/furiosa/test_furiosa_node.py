"""The simulated Furiosa driver: its files and its tools tell one story, at any time and under faults."""

import subprocess
from collections.abc import Callable

import pytest

from accelscope.parsing import ParseResult, sources
from accelscope.simulate import DescriptionError, Fault, FaultKind, SimulatedNode, read_node
from accelscope.simulate.workload import SECRET_ARGUMENT
from accelscope.vendors.furiosa.draft import card_files
from accelscope.vendors.furiosa.simulated.card import CardReading
from accelscope.vendors.furiosa.simulated.driver import FuriosaDriver
from accelscope.vendors.furiosa.simulated.spec import CtlVersion, SmiVersion

MakeNode = Callable[..., SimulatedNode]

RNGDS = """
node: rngds
furiosa:
  furiosa_smi: "{version}"
  devices: [{{model: rngd, count: 2}}]
processes:
  - {{name: serve, devices: [0, 1], spans_devices: true, memory: 20GiB, load: {{level: 0.7}}}}
  - {{name: part, device: 1, cores: [4], memory: 1GiB, load: {{level: 0.2}}}}
"""
WARBOYS = """
node: warboys
furiosa:
  furiosactl: "{version}"
  devices: [{{model: warboy, count: 2}}]
processes:
  - {{name: infer, device: 1, cores: [0], memory: 1GiB, load: {{level: 0.5}}}}
"""
SMI_VERSIONS = [version for version in SmiVersion if version is not SmiVersion.NONE]
CTL_VERSIONS = [version for version in CtlVersion if version is not CtlVersion.NONE]


def run(node: SimulatedNode, tool: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [node.folder / "bin" / tool, *arguments], check=False, capture_output=True, text=True, timeout=60
    )


def parsed(node: SimulatedNode, tool: str, *arguments: str) -> ParseResult:
    source = f"{tool}-{arguments[0]}"
    result = sources()[source].parse(run(node, tool, *arguments).stdout, None)
    assert result.error is None
    assert result.rejected == ()
    return result


def truth(node: SimulatedNode) -> tuple[CardReading, ...]:
    return node.readings(FuriosaDriver)


@pytest.mark.parametrize("version", SMI_VERSIONS)
def test_furiosa_smi_tells_what_the_cards_do(make_node: MakeNode, version: SmiVersion) -> None:
    node = make_node(RNGDS.format(version=version))
    cards = truth(node)
    info = parsed(node, "furiosa-smi", "info").devices
    full = parsed(node, "furiosa-smi", "info", "--format", "full").devices
    state = parsed(node, "furiosa-smi", "status").devices
    for card, short, long, now in zip(cards, info, full, state, strict=True):
        assert (short.pci_address, short.temperature_celsius) == (card.address, card.peak_celsius)
        assert short.power_watts == card.watts
        assert (long.uuid, long.serial) == (card.uuid, card.serial)
        shown = [core.utilization_ratio for core in now.cores]
        assert [ratio or 0.0 for ratio in shown] == [core.utilization for core in card.cores]
        if version is SmiVersion.V2026_1:
            assert now.memory_total_bytes == card.model.memory_bytes
            assert shown[0] is not None
        else:
            assert [core.occupied for core in now.cores] == [core.held for core in card.cores]
    held = {(p.device_index, p.pid): p.cores for p in parsed(node, "furiosa-smi", "ps").processes}
    assert held == {(card.index, p.pid): p.cores for card in cards for p in card.processes}


def test_the_documents_of_2026_tell_the_same_as_the_tables(make_node: MakeNode) -> None:
    node = make_node(RNGDS.format(version="2026.1"))
    for card, document in zip(
        truth(node), parsed(node, "furiosa-smi", "status", "--format", "json").devices, strict=True
    ):
        assert document.memory_used_bytes == card.memory_used_bytes
        assert [core.occupied for core in document.cores] == [core.held for core in card.cores]
    tables = parsed(node, "furiosa-smi", "info", "--format", "full").devices
    assert parsed(node, "furiosa-smi", "info", "--format", "json").devices == tables


@pytest.mark.parametrize("version", ["2024.1", "2024.2", "2025.2"])
def test_older_tools_know_no_json(make_node: MakeNode, version: str) -> None:
    node = make_node(RNGDS.format(version=version))
    for command in ("info", "status", "ps"):
        done = run(node, "furiosa-smi", command, "--format", "json")
        assert (done.returncode, done.stdout) == (2, "")
        assert "unexpected argument" in done.stderr


@pytest.mark.parametrize("version", CTL_VERSIONS)
def test_furiosactl_tells_what_the_cards_do(make_node: MakeNode, version: CtlVersion) -> None:
    node = make_node(WARBOYS.format(version=version))
    cards = truth(node)
    forms = [(), ("--format", "json")] if version is CtlVersion.V0_10 else [()]
    for form in forms:
        for card, device in zip(cards, parsed(node, "furiosactl", "info", *form).devices, strict=True):
            assert device.pci_address == card.address
            assert device.temperature_celsius == round(card.peak_celsius)
        for card, device in zip(cards, parsed(node, "furiosactl", "list", *form).devices, strict=True):
            assert [core.occupied for core in device.cores] == [core.held for core in card.cores]
        [process] = parsed(node, "furiosactl", "ps", *form).processes
        assert (process.device_index, process.cores, process.name) == (1, (0,), "infer")


def test_command_lines_hold_what_must_not_be_published(make_node: MakeNode) -> None:
    assert SECRET_ARGUMENT in run(make_node("furiosa-rngd"), "furiosa-smi", "ps").stdout


def test_each_family_counts_its_cards_by_itself(make_node: MakeNode) -> None:
    node = make_node("furiosa-both")
    assert [card.name for card in truth(node)] == ["npu0", "npu0"]
    classes = node.folder / "sys/class"
    assert (classes / "npu_mgmt/npu0_mgmt/device_type").read_text() == "Warboy\n"
    assert (classes / "rngd_mgmt/rngd!npu0mgmt/device_type").read_text() == "RNGD\n"
    assert (classes / "rngd_mgmt/rngd!npu0mgmt").is_symlink()


def test_device_files_are_those_of_the_real_cards(make_node: MakeNode) -> None:
    dev = make_node("furiosa-both").folder / "dev"
    warboy, rngd = (card_files([path.name for path in folder.iterdir()], 0) for folder in (dev, dev / "rngd"))
    assert [file.name for file in warboy.cores] == ["npu0", "npu0pe0", "npu0pe1", "npu0pe0-1"]
    assert len(rngd.cores) == 14
    assert "npu0mgmt" in rngd.support
    assert "npu0_mgmt" in warboy.support


def test_values_move_and_counters_only_grow(make_node: MakeNode) -> None:
    node = make_node("furiosa-rngd", at=100)
    early = truth(node)
    node.write(160)
    late = truth(node)
    assert [card.uptime_seconds - 60 for card in late] == pytest.approx([c.uptime_seconds for c in early])
    assert any(a.watts != b.watts for a, b in zip(early, late, strict=True))
    for before, after in zip(early, late, strict=True):
        for a, b in zip(before.cores, after.cores, strict=True):
            assert b.busy_seconds >= a.busy_seconds


def test_an_error_storm_leaves_its_counts_behind(make_node: MakeNode) -> None:
    node = make_node("furiosa-rngd")
    node.set_faults([Fault(kind=FaultKind.ECC_STORM, device=1)])
    node.write(160)
    during = truth(node)[1].errors
    assert during["AXI Post Error"] > 0
    assert truth(node)[0].errors["AXI Post Error"] == 0
    node.set_faults(())
    node.write(500)
    assert truth(node)[1].errors == during


def test_a_card_that_vanished_lets_the_others_move_up(make_node: MakeNode) -> None:
    node = make_node("furiosa-rngd")
    uuids = [card.uuid for card in truth(node)]
    node.set_faults([Fault(kind=FaultKind.VANISHED, device=1)])
    shown = {card.name: card.uuid for card in truth(node) if card.index is not None}
    assert shown == {"npu0": uuids[0], "npu1": uuids[2], "npu2": uuids[3]}
    assert [d.uuid for d in parsed(node, "furiosa-smi", "info", "--format", "json").devices] == list(
        shown.values()
    )


def test_a_driver_that_is_not_loaded(make_node: MakeNode) -> None:
    node = make_node("furiosa-rngd")
    node.set_faults([Fault(kind=FaultKind.DRIVER_NOT_LOADED)])
    sys = node.folder / "sys"
    assert not (sys / "class/rngd_mgmt").exists()
    assert len(list((sys / "bus/pci/devices").iterdir())) == 4
    assert not list((sys / "bus/pci/devices").glob("*/driver"))
    assert "device not found" in run(node, "furiosa-smi", "info").stderr


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "furiosa: {devices: [{model: tpu}]}",
            'furiosa.devices[0].model: "tpu" is not one of warboy, rngd',
        ),
        (
            "furiosa: {furiosa_smi: 1.0, devices: []}",
            "furiosa.furiosa_smi: 1.0 is not one of none, 2024.1",
        ),
        (
            "furiosa: {furiosactl: 0.10, devices: []}",
            "furiosa.furiosactl: 0.1 is not one of none, 0.5",
        ),
        (
            "furiosa: {devices: [{model: warboy}]}\nprocesses: [{cores: [2]}]",
            "cores[0]: 2 is not a core from 0 to 1",
        ),
        (
            "furiosa: {devices: [{model: rngd}]}\nprocesses: [{cores: [0, 2]}]",
            "cores: expected cores one after the other",
        ),
        ("furiosa: {surprise: 1}", 'unknown key "surprise"'),
        ("furiosa: {devices: [{model: rngd}]}\nprocesses: [{memory: 60GiB}]", "does not fit"),
    ],
)
def test_a_bad_description_gets_one_clear_line(text: str, problem: str) -> None:
    with pytest.raises(DescriptionError) as raised:
        read_node(f"node: x\n{text}\n")
    assert problem in str(raised.value)
    assert "\n" not in str(raised.value)


def test_tools_are_those_of_the_cards_unless_said(make_node: MakeNode) -> None:
    node = make_node("node: x\nfuriosa: {devices: [{model: warboy}]}\n")
    assert sorted(path.name for path in (node.folder / "bin").iterdir()) == ["furiosactl"]
    bare = make_node("node: x\nfuriosa: {furiosa_smi: none, devices: [{model: rngd}]}\n")
    assert not (bare.folder / "bin").exists() or not list((bare.folder / "bin").iterdir())


def test_a_driver_without_cards_shows_empty_classes(make_node: MakeNode) -> None:
    node = make_node("node: x\nfuriosa: {}\n")
    assert list((node.folder / "sys/class/rngd_mgmt").iterdir()) == []
