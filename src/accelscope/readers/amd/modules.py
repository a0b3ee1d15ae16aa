"""Dies that share a module, and with it one measurement of power.

An MI250 shows each of its two dies as a GPU. Both, or the first only, show the power of the whole module, by
the version of the driver. It is counted at one of them.
"""

from collections.abc import Collection, Iterable

from accelscope.readers.amd.drm import Card


def modules(cards: Iterable[Card]) -> tuple[tuple[Card, ...], ...]:
    """Dies of the same module together, by the board's serial number, else by their places in the hive of
    links, else in pairs as they come on the bus."""
    dies = [card for card in cards if card.dual_die]
    groups: dict[object, list[Card]] = {}
    for number, card in enumerate(dies):
        key: object = ("pair", number // 2)
        if card.serial is not None:
            key = ("serial", card.serial)
        elif card.xgmi_hive is not None and card.xgmi_place is not None:
            key = ("hive", card.xgmi_hive, card.xgmi_place // 2)
        groups.setdefault(key, []).append(card)
    return tuple(tuple(group) for group in groups.values())


def sharing_power(cards: Iterable[Card], dark: Collection[str]) -> frozenset[str]:
    """Ids of dies whose module's power is counted at another one. `dark` are those that showed none."""
    shared: set[str] = set()
    for module in modules(cards):
        carrier = next((card for card in module if card.id not in dark), module[0])
        shared.update(card.id for card in module if card is not carrier)
    return frozenset(shared)
