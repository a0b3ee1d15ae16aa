"""Which GPU it is that nvidia-smi tells of, from one reading to the next."""

from collections import Counter
from collections.abc import Collection
from dataclasses import replace

from accelscope.model import Device, Vendor, device_id


def gpu_id(
    *,
    uuid: str | None = None,
    serial: str | None = None,
    pci: str | None = None,
    index: int | None = None,
) -> str:
    """The id of a GPU: by uuid, else by PCI address, else by serial number.

    The serial number is that of the board. The GPUs of one board share it, so the address goes first. A
    number of zeros only says that the board has none.
    """
    usable = serial if pci is None and serial is not None and serial.strip("0") else None
    return device_id(Vendor.NVIDIA, uuid=uuid, serial=usable, pci=pci, index=index)


def with_ids_of_their_own(devices: Collection[Device]) -> list[Device]:
    """A uuid that several GPUs of one output have identifies none of them: it may be a mask that is not known
    as one."""
    uses = Counter(device.id for device in devices)
    return [
        replace(device, id=gpu_id(serial=device.serial, pci=device.pci_address, index=device.index))
        if uses[device.id] > 1
        else device
        for device in devices
    ]


def identified(device: Device, ids_by_address: dict[str, str]) -> Device:
    """A GPU that fell off the bus is named by its address only: it is the one that was there before.
    `ids_by_address` is kept from one reading of the node to the next."""
    if device.pci_address is None:
        return device
    if device.uuid is not None:
        ids_by_address[device.pci_address] = device.id
        return device
    return replace(device, id=ids_by_address.get(device.pci_address, device.id))
