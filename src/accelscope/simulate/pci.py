"""Where devices are on the PCI bus of a simulated node."""

_FIRST_BUS = 0x10


def bus_number(slot: int, count: int) -> int:
    """Of the device in that place among `count`: spread over the bus, as on boards with switches."""
    step = max(1, min(0x18, 0xE0 // count))
    return _FIRST_BUS + slot * step


def numa_node(slot: int, count: int) -> int:
    """The first half of the devices hangs on the first processor."""
    return 0 if slot < (count + 1) // 2 else 1
