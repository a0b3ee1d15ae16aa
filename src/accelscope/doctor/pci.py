"""A vendor's devices on the PCI bus: what is said of them in every vendor's area."""

from collections.abc import Iterator
from pathlib import Path

from accelscope.doctor.finding import Finding, note, ok, sentence
from accelscope.vendors.common.pci import PciDevice

_PASSED_ON = "vfio"  # drivers whose name begins so hand a device to a virtual machine


def is_passed_on(device: PciDevice) -> bool:
    return (device.driver or "").startswith(_PASSED_ON)


def on_pci(
    sys: Path, found: tuple[PciDevice, ...] | None, *, what: str, none: str, unless: str = ""
) -> Iterator[Finding]:
    """`what` they are called, what to say where there are `none`, and `unless` for devices elsewhere."""
    if found is None:
        yield note(
            "pci",
            f"{sys}/bus/pci/devices is not there: {what} cannot be counted without their driver",
            f"In a pod, mount the node's /sys and name it with --sys-root{unless}.",
        )
        return
    if not found:
        yield note("pci", none)
        return
    details = {device.address: {"device": device.device_code, "driver": device.driver} for device in found}
    yield ok("pci", f"{len(found)}: {', '.join(device.address for device in found)}", devices=details)
    passed_on = [device.address for device in found if is_passed_on(device)]
    if passed_on:
        yield note(
            "pci", f"{sentence(passed_on)} held by vfio for a virtual machine: not this node's to read"
        )
