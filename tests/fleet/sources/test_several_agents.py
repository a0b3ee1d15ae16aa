"""Several agents of one node, of which one no longer responds."""

from dataclasses import replace

from tests.fleet.store.nodes import device, snapshot

from accelscope.fleet.sources.snapshots import AgentSnapshot, merge_agents
from accelscope.model import Health, HealthState, Partition, identity_of


def test_devices_of_an_agent_that_fails_have_the_age_of_its_last_reading() -> None:
    known = [device("a"), device("b", stale=True, read_at=80.0), device("c", stale=True)]
    failed = AgentSnapshot(snapshot=snapshot(known, taken_at=100.0), taken_at=100.0, failure="timeout")
    answers = AgentSnapshot(snapshot=snapshot([device("d", read_at=200.0)], taken_at=200.0), taken_at=200.0)
    read_at = {each.id: each.read_at for each in merge_agents([failed, answers]).snapshot.devices}
    assert read_at == {"nvidia:d": 200.0, "nvidia:a": 100.0, "nvidia:b": 80.0, "nvidia:c": None}


def test_devices_of_an_agent_that_fails_keep_their_identity() -> None:
    known = device(
        "a",
        architecture="cdna3",
        device_name="renderD128",
        device_number="511:0",
        device_files=("npu0", "npu0pe0-1"),
        vbios_version="022.040",
        part_number="102-G30211-0C",
        pci_device_id="0x74a1",
        runtime_version="1.2",
        chip_count=2,
        partitions=(Partition(id="gi0", uuid="MIG-1", profile="1g.10gb"),),
    )
    failed = AgentSnapshot(snapshot=snapshot([known], taken_at=100.0), taken_at=100.0, failure="timeout")
    answers = AgentSnapshot(snapshot=snapshot([device("d")], taken_at=200.0), taken_at=200.0)
    [kept] = [each for each in merge_agents([failed, answers]).snapshot.devices if each.id == known.id]
    health = Health(HealthState.UNKNOWN, "its agent does not respond: timeout")
    assert kept == replace(identity_of(known), health=health, stale=True, read_at=100.0)
