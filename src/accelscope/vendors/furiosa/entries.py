"""Which cards the driver shows: the folders of its classes in /sys. Looking asks no card anything."""

import os
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from accelscope.vendors.common.files import told
from accelscope.vendors.furiosa.reader import CLASS_FOLDERS

# The family of each class; RNGD's drivers had another name at first.
CLASSES = tuple(zip(CLASS_FOLDERS, ("warboy", "rngd", "rngd"), strict=True))

_ENTRY = re.compile(r"(?:[a-z]+!)?npu([0-9]{1,4})_?mgmt", re.ASCII)
_PLATFORM = "FuriosaAI"


@dataclass(frozen=True, slots=True)
class Entry:
    architecture: str
    index: int
    folder: str  # of the card's attributes; paths as strings, since joining them costs more than reading

    @property
    def name(self) -> str:
        return f"npu{self.index}"

    @property
    def key(self) -> str:
        """Unlike the name, not shared by cards of two families."""
        return f"{self.architecture}-{self.name}"


@dataclass(frozen=True, slots=True)
class _Static:
    """What cannot change while the driver stays loaded."""

    ours: bool
    driver_version: str | None


class Entries:
    def __init__(self, sys: Path) -> None:
        self._sys = sys
        self._static: dict[str, tuple[int, _Static]] = {}

    def listed(self) -> tuple[Entry, ...] | None:
        """None: the driver is not loaded, or its classes are not shown here."""
        found: list[Entry] = []
        shown = False
        for name, architecture in CLASSES:
            folder = self._sys / "class" / name
            try:
                entries = [(_ENTRY.fullmatch(entry.name), entry) for entry in folder.iterdir()]
            except OSError:
                continue
            shown = True
            own = [Entry(architecture, int(match[1]), str(path)) for match, path in entries if match]
            found += sorted((e for e in own if self._of(e).ours), key=lambda entry: entry.index)
        return tuple(found) if shown else None

    def driver_version(self, entries: tuple[Entry, ...]) -> str | None:
        return next((version for version in (self._of(e).driver_version for e in entries) if version), None)

    def shared_uuids(self, entries: tuple[Entry, ...]) -> set[str]:
        """Those that several cards were given."""
        counts = Counter(told(f"{entry.folder}/device_uuid") for entry in entries)
        return {uuid for uuid, count in counts.items() if uuid is not None and count > 1}

    def _of(self, entry: Entry) -> _Static:
        """Read once: these two files are the driver's own words, but even so not asked at every pass."""
        try:
            inode = os.stat(entry.folder).st_ino  # noqa: PTH116 - a string
        except OSError:
            return _Static(ours=True, driver_version=None)  # a dangling link: reading it will say more
        known = self._static.get(entry.folder)
        if known is None or known[0] != inode:
            platform = told(f"{entry.folder}/platform_type")
            static = _Static(platform in (_PLATFORM, None), told(f"{entry.folder}/version"))
            known = self._static[entry.folder] = (inode, static)
        return known[1]
