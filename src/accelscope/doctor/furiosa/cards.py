"""Cards on PCI, the driver's classes in /sys, what may be read there, and the device files."""

import errno
import os
from collections.abc import Iterator

from accelscope.doctor import pci
from accelscope.doctor.finding import Finding, counted, error, note, ok, sentence, warning
from accelscope.doctor.furiosa import advice
from accelscope.doctor.subject import Subject
from accelscope.doctor.vendors import Hardware
from accelscope.readers.contract import Paths
from accelscope.readers.files import entries as names_in
from accelscope.readers.files import read_text
from accelscope.readers.furiosa.devfiles import card_files, folder_of
from accelscope.readers.furiosa.driver_source import PCI_CODES
from accelscope.readers.furiosa.entries import CLASSES, Entries, Entry
from accelscope.readers.pci import PciDevice, pci_devices

# Of what every family has; the rest is the reader's to try.
_ATTRIBUTES = ("busname", "device_uuid", "device_sn", "fw_version", "heartbeat", "atr_error")


def on_bus(paths: Paths) -> tuple[PciDevice, ...]:
    return pci_devices(paths.sys, *PCI_CODES) or ()


def entries(paths: Paths) -> tuple[Entry, ...] | None:
    return Entries(paths.sys).listed()


def hardware(subject: Subject) -> Hardware:
    found = on_bus(subject.paths)
    shown = entries(subject.paths)
    ours = [card for card in found if not pci.is_passed_on(card)]
    return Hardware(
        addresses=frozenset(card.address for card in ours if card.driver is not None),
        unheld=frozenset(card.address for card in ours if card.driver is None),
        driver_loaded=shown is not None,
    )


def on_pci(subject: Subject) -> Iterator[Finding]:
    found = pci_devices(subject.paths.sys, *PCI_CODES)
    yield from pci.on_pci(subject.paths.sys, found, what="cards", none="no Furiosa card on PCI")


def driver(subject: Subject) -> Iterator[Finding]:
    shown = entries(subject.paths)
    classes = " nor ".join(f"class/{name}" for name, _ in CLASSES[:2])
    if shown is None:
        found = f"neither {classes} is in {subject.paths.sys}: the driver is not loaded"
        if not all(map(pci.is_passed_on, on_bus(subject.paths))):
            yield warning("driver", f"{found}, though there are cards", advice.DRIVER)
        else:
            yield note("driver", found)
    elif not shown:
        yield warning(
            "driver", "the driver is loaded and shows no card", advice.advice("no_devices", subject)
        )
    else:
        version = Entries(subject.paths.sys).driver_version(shown)
        names = sentence([f"{entry.name} ({entry.architecture})" for entry in shown])
        yield ok("driver", f"version {version or 'not told'}, shows {names}", version=version)


def attributes(subject: Subject) -> Iterator[Finding]:
    """Whether the driver's files may be read: a container's mounts and users often stand in the way."""
    closed: dict[str, list[str]] = {}
    asked = 0
    for entry in entries(subject.paths) or ():
        for path in (f"{entry.folder}/{name}" for name in _ATTRIBUTES):
            asked += 1
            try:
                read_text(path)
            except OSError as problem:
                if problem.errno != errno.ENOENT:
                    closed.setdefault(os.strerror(problem.errno or 0), []).append(path)
    for why, paths in closed.items():
        more = f" and {len(paths) - 3} more" if len(paths) > 3 else ""
        reason = "no_permission" if why == os.strerror(errno.EACCES) else "driver_error"
        yield error(
            "attributes", f"{', '.join(paths[:3])}{more}: {why}", advice.advice(reason, subject), files=paths
        )
    if asked and not closed:
        yield ok("attributes", f"{counted(asked, 'file', 'files')} of the driver can be read")


def files(subject: Subject) -> Iterator[Finding]:
    """The agent reads /sys; the tools and everybody who computes need these."""
    for entry in entries(subject.paths) or ():
        folder = folder_of(subject.paths.dev, entry.architecture)
        found = card_files(names_in(str(folder)), entry.index)
        if found.cores:
            yield ok(
                "device files",
                f"{entry.key}: {len(found.cores)} for cores, {len(found.support)} beside them, in {folder}",
                files=[file.name for file in found.cores],
            )
        else:
            yield note(
                "device files",
                f"{entry.key}: none in {folder}; /sys is read all the same, but furiosa-smi may not see the "
                "card",
                "In a pod that runs the tool, mount the node's /dev and name it with --dev-root.",
            )
