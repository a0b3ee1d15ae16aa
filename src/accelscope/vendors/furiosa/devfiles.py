"""Device files of a card. The name of a file contains the cores that it opens.

Warboy's are in /dev: `npu0` (all cores), `npu0pe0` (one), `npu0pe0-1` (two, fused), `npu0_mgmt`, `npu0ch0`,
`npu0_bar0`. RNGD's are in /dev/rngd: `npu0pe0`, fusions of two and four, `npu0mgmt`, `npu0ch0`, `npu0ch0r`,
`npu0dmar`, `npu0bar0`; it has no `npu0`. Both may be npu0 on one host, and numbers change at boot.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_CORES = re.compile(r"npu([0-9]{1,4})(?:pe([0-9]{1,3})(?:-([0-9]{1,3}))?)?", re.ASCII)
_SUPPORT = re.compile(r"npu([0-9]{1,4})_?(?:mgmt|ch[0-9]{1,2}r?|dmar|bar[0-9])", re.ASCII)
_FOLDERS = {"warboy": "", "rngd": "rngd"}


@dataclass(frozen=True, slots=True)
class CoreFile:
    name: str  # within the card's folder of /dev
    index: int  # of the card
    first: int | None = None  # core; None: the file opens all of them
    last: int | None = None

    @property
    def cores(self) -> tuple[int, ...]:
        """Empty: all cores of the card."""
        return () if self.first is None or self.last is None else tuple(range(self.first, self.last + 1))


@dataclass(frozen=True, slots=True)
class CardFiles:
    cores: tuple[CoreFile, ...] = ()
    support: tuple[str, ...] = ()  # management, channels, DMA and registers


def core_file(name: str) -> CoreFile | None:
    """`npu0pe0-1`, with or without the folders before it; None: not a file of cores."""
    bare = name.rpartition("/")[2]
    match = _CORES.fullmatch(bare)
    if match is None:
        return None
    index = int(match[1])
    if match[2] is None:
        return CoreFile(bare, index)
    first = int(match[2])
    last = first if match[3] is None else int(match[3])
    return CoreFile(bare, index, first, last) if first <= last else None


def card_index(name: str) -> int | None:
    """The number of a card by its name: `npu0`."""
    file = core_file(name)
    return file.index if file is not None and file.first is None else None


def card_files(names: Iterable[str], index: int) -> CardFiles:
    """The files of one card, among the names in its folder. Fusions come after single cores."""
    cores, support = [], []
    for name in names:
        file = core_file(name) if "/" not in name else None
        if file is not None and file.index == index:
            cores.append(file)
            continue
        other = _SUPPORT.fullmatch(name)
        if other is not None and int(other[1]) == index:
            support.append(name)
    cores.sort(key=lambda file: (len(file.cores), file.first or 0))
    return CardFiles(tuple(cores), tuple(sorted(support)))


def folder_of(dev: Path, architecture: str) -> Path:
    """The folder of a family's device files."""
    return dev / _FOLDERS[architecture]
