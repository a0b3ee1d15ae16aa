"""Device ids of Acme's own device plugin: `card-1` is the card with index 1."""

import re

from accelscope.attribution.device_ids import UNRESOLVED, DeviceIndex, ResolvedDevice, whole
from accelscope.model import Vendor

_CARD = re.compile(r"card-([0-9]{1,3})", re.ASCII)


def resolve(bare: str, resource: str | None, devices: DeviceIndex) -> ResolvedDevice:
    card = None if resource is None else _CARD.fullmatch(bare)
    return UNRESOLVED if card is None else whole(devices.by_index(int(card[1]), Vendor("acme")))
