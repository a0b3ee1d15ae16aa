"""The native parts of a node's drivers, in its folder."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from accelscope.simulate.compiler import built
from accelscope.simulate.faults import Fault
from accelscope.simulate.folder import copy_program
from accelscope.simulate.vendor import InstalledPart

_FOLDERS = ("bin", "lib")


class Installation:
    """All parts of one vendor's driver."""

    def __init__(self, folder: Path, cache: Path, parts: Iterable[InstalledPart]) -> None:
        self._folder = folder
        self._cache = cache
        self._parts = tuple(parts)

    def build(self) -> None:
        """Raises CompileError."""
        for part in self._parts:
            self._install(part)

    def bring_to(self, faults: Sequence[Fault]) -> None:
        """Take parts away, or put them back, as the faults of the moment say."""
        for part in self._parts:
            target = self._folder / part.path
            if any(map(part.taken_away_by, faults)):
                target.unlink(missing_ok=True)
            elif not target.exists():
                self._install(part)

    def _install(self, part: InstalledPart) -> None:
        """A copy, not a link: a part finds its state from where it lies, and the loader takes two links to
        one file for the same library."""
        target = self._folder / part.path
        source = built(part.part, self._cache)
        if not target.exists() or target.read_bytes() != source.read_bytes():
            copy_program(source, target)

    @property
    def paths(self) -> frozenset[Path]:
        return frozenset(self._folder / part.path for part in self._parts)


def remove_others(folder: Path, installations: Iterable[Installation]) -> None:
    """Parts of another node that was built in the same folder before."""
    wanted = frozenset[Path]().union(*(installation.paths for installation in installations))
    for name in _FOLDERS:
        for path in (folder / name).glob("*"):
            if path not in wanted:
                path.unlink()
