"""NVLink: counters do not fall when a link goes down, and older cards are asked in their own way."""

from typing import Any

from accelscope.vendors.nvidia.nvml_binding import INVALID_ARGUMENT, NOT_SUPPORTED, Ask
from accelscope.vendors.nvidia.nvml_parts import Links


class NVMLError(Exception):
    def __init__(self, value: int) -> None:
        super().__init__(f"NVML error {value}")
        self.value = value


class Card:
    """Stands in for the binding: the calls that links need, one by one."""

    NVMLError = NVMLError

    def __init__(self, links: int, *, error_counters: bool = True) -> None:
        self.links = links
        self.error_counters = error_counters
        self.up = [True] * links
        self.calls: list[str] = []

    def nvmlDeviceGetNvLinkState(self, _: Any, link: int) -> int:  # noqa: N802 - NVML's name
        self.calls.append("state")
        if link >= self.links:
            raise NVMLError(NOT_SUPPORTED if link == 0 else INVALID_ARGUMENT)
        return int(self.up[link])

    def nvmlDeviceGetNvLinkErrorCounter(self, _: Any, link: int, counter: int) -> int:  # noqa: N802
        self.calls.append("errors")
        if not self.error_counters:
            raise NVMLError(NOT_SUPPORTED)
        return 10 * link + counter

    def nvmlDeviceGetNvLinkRemotePciInfo(self, _: Any, link: int) -> Any:  # noqa: N802
        raise NVMLError(NOT_SUPPORTED)


def opened(card: Card) -> Links:
    ask = Ask(card)
    ask.begin()
    return Links(None, ask)


def answers(states: list[int]) -> dict[tuple[int, int], float]:
    """What a card that knows every field answers to the batched call; links that are down have no traffic."""
    fields: dict[tuple[int, int], float] = {(90, 0): 1000.0}
    for link, state in enumerate(states):
        fields[165, link] = state
        if state == 1:
            fields |= {
                (138, link): 5.0,
                (139, link): 7.0,
                (161, link): 2.0,
                (162, link): 0.0,
                (163, link): 1.0,
            }
    return fields


def test_a_link_that_goes_down_keeps_its_counters() -> None:
    links = opened(Card(2))
    assert len(links.wanted_fields()) == 1 + 2 * 6
    up = links.read(answers([1, 1]))
    down = links.read(answers([1, 0]))
    assert [link.active for link in down] == [True, False]
    assert [link.transmit_bytes_total for link in down] == [link.transmit_bytes_total for link in up]
    assert down[1].errors == up[1].errors
    assert down[1].bytes_per_second is None


def test_a_card_that_knows_the_fields_needs_no_call_per_link() -> None:
    card = Card(2)
    links = opened(card)
    links.wanted_fields()
    card.calls.clear()
    [first, _] = links.read(answers([1, 1]))
    assert card.calls == []
    assert {e.kind: e.count for e in first.errors} == {"dl_replay": 2, "dl_recovery": 0, "dl_crc": 1}
    assert first.bytes_per_second == 1e9
    assert first.transmit_bytes_total == 5 * 1024


def test_a_card_may_have_more_links_than_those_of_today() -> None:
    links = opened(Card(36))
    links.wanted_fields()
    assert len(links.read(answers([1] * 36))) == 36


def test_an_older_card_is_asked_link_by_link() -> None:
    links = opened(Card(2))
    links.wanted_fields()
    [_, second] = links.read({})
    assert second.active
    assert second.transmit_bytes_total is None
    assert {e.kind: e.count for e in second.errors} == {
        "dl_replay": 10,
        "dl_recovery": 11,
        "crc_flit": 12,
        "crc_data": 13,
    }


def test_a_link_that_was_never_up_has_no_counters() -> None:
    card = Card(1)
    card.up[0] = False
    links = opened(card)
    links.wanted_fields()
    [link] = links.read({})
    assert (link.active, link.transmit_bytes_total, link.errors) == (False, None, ())


def test_a_card_without_links_asks_for_none() -> None:
    links = opened(Card(0))
    assert links.wanted_fields() == []
    assert links.read({}) == ()
