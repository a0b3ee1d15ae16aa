"""Several agents of one node, of which one no longer answers."""

from tests.fleet.store.nodes import device, snapshot

from accelscope.fleet.sources.several_agents import Heard, together


def test_devices_of_a_silent_agent_are_as_old_as_its_last_word_unless_they_were_never_read() -> None:
    known = [device("a"), device("b", stale=True, read_at=80.0), device("c", stale=True)]
    silent = Heard(snapshot=snapshot(known, taken_at=100.0), taken_at=100.0, trouble="timeout")
    answers = Heard(snapshot=snapshot([device("d", read_at=200.0)], taken_at=200.0), taken_at=200.0)
    read_at = {each.id: each.read_at for each in together([silent, answers]).snapshot.devices}
    assert read_at == {"nvidia:d": 200.0, "nvidia:a": 100.0, "nvidia:b": 80.0, "nvidia:c": None}
