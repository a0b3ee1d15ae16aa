"""Who made the machine and what it is called, as its firmware tells (DMI)."""

from dataclasses import dataclass
from pathlib import Path

_MOST_CHARACTERS = 256


@dataclass(frozen=True, slots=True)
class Machine:
    vendor: str | None = None
    name: str | None = None


def read_machine(sys: Path) -> Machine:
    """Machines without DMI, such as many with Arm processors, tell nothing."""
    folder = sys / "class/dmi/id"
    return Machine(_text(folder / "sys_vendor"), _text(folder / "product_name"))


def _text(path: Path) -> str | None:
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return file.read(_MOST_CHARACTERS).strip() or None
    except OSError:
        return None
