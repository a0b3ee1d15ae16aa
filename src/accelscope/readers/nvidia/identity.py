"""Which GPU it is that nvidia-smi tells of, from one reading to the next."""

from dataclasses import replace

from accelscope.model import Device


def identified(device: Device, ids_by_address: dict[str, str]) -> Device:
    """A GPU that fell off the bus is named by its address only: it is the one that was there before.
    `ids_by_address` is kept from one reading of the node to the next."""
    if device.pci_address is None:
        return device
    if device.uuid is not None:
        ids_by_address[device.pci_address] = device.id
        return device
    return replace(device, id=ids_by_address.get(device.pci_address, device.id))
