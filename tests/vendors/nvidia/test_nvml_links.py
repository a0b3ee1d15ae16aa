"""NVLink through NVML: counters of links that go down, and cards that lack the field values."""

from typing import Any

from accelscope.vendors.nvidia.nvml_library import INVALID_ARGUMENT, NOT_SUPPORTED, NvmlCaller
from accelscope.vendors.nvidia.nvml_parts import NvLinks


class NVMLError(Exception):
    def __init__(self, value: int) -> None:
        super().__init__(f"NVML error {value}")
        self.value = value


class Card:
    """Replaces the binding: the calls that links need."""

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


def open_links(card: Card) -> NvLinks:
    call = NvmlCaller(card)
    call.begin()
    return NvLinks(None, call)


def field_values(states: list[int]) -> dict[tuple[int, int], float]:
    """Result of the batched call on a card that has every field. Links that are down have no traffic."""
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
    links = open_links(Card(2))
    assert len(links.wanted_fields()) == 1 + 2 * 6
    up = links.read(field_values([1, 1]))
    down = links.read(field_values([1, 0]))
    assert [link.active for link in down] == [True, False]
    assert [link.transmit_bytes_total for link in down] == [link.transmit_bytes_total for link in up]
    assert down[1].errors == up[1].errors
    assert down[1].bytes_per_second is None


def test_a_card_with_field_values_needs_no_call_per_link() -> None:
    card = Card(2)
    links = open_links(card)
    links.wanted_fields()
    card.calls.clear()
    [first, _] = links.read(field_values([1, 1]))
    assert card.calls == []
    assert {e.kind: e.count for e in first.errors} == {"dl_replay": 2, "dl_recovery": 0, "dl_crc": 1}
    assert first.bytes_per_second == 1e9
    assert first.transmit_bytes_total == 5 * 1024


def test_up_to_36_links_are_read() -> None:
    links = open_links(Card(36))
    links.wanted_fields()
    assert len(links.read(field_values([1] * 36))) == 36


def test_an_older_card_is_read_link_by_link() -> None:
    links = open_links(Card(2))
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
    links = open_links(card)
    links.wanted_fields()
    [link] = links.read({})
    assert (link.active, link.transmit_bytes_total, link.errors) == (False, None, ())


def test_a_card_without_links_has_none() -> None:
    links = open_links(Card(0))
    assert links.wanted_fields() == []
    assert links.read({}) == ()
