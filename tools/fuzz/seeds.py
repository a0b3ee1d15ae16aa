"""Initial inputs: `seeds/<source>/` contains small texts written by hand, `corpus/<source>/` what the engine
made of them. Captures of real machines are added where they are available."""

import os
import re
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path

from accelscope.parsing import OutputFormat
from accelscope.vendors import declarations

REPOSITORY = Path(__file__).resolve().parents[2]
SEEDS = Path(__file__).parent / "seeds"
CORPUS = Path(__file__).parent / "corpus"
PACKAGES = (*declarations(), "attribution")

_WORD = re.compile(r"[^\W\d_][\w.%()/-]{2,30}", re.ASCII)
_MAX_WORDS = 400
_CAPTURES = {"attribution": ("cgroup", "k8s")}  # those of a vendor are in the folder with its name


def sources_of(package: str) -> dict[str, OutputFormat]:
    """The formats of a vendor or of attribution. Only their parsers are loaded."""
    listed: tuple[OutputFormat, ...]
    if (vendor := declarations().get(package)) is not None:
        listed = vendor.load(vendor.sources)
    else:
        listed = import_module("accelscope.attribution.checkpoint").SOURCES
    return {source.name: source for source in listed}


def packages() -> dict[str, str]:
    """The package of each source, by the name of the source."""
    return {name: package for package in PACKAGES for name in sources_of(package)}


def own(source: str) -> list[Path]:
    """Written by hand."""
    return sorted((SEEDS / source).iterdir()) if (SEEDS / source).is_dir() else []


def kept(source: str) -> list[Path]:
    """What the engine made of our own: `keep` makes it."""
    return sorted((CORPUS / source).iterdir()) if (CORPUS / source).is_dir() else []


def captures(package: str) -> list[Path]:
    """All captures of the package: an output of another source is a useful seed too. ACCELSCOPE_CAPTURES
    names the folder, relative to the repository if it is relative."""
    root = REPOSITORY / os.environ.get("ACCELSCOPE_CAPTURES", "../shared/captures")
    folders = [root / name for name in _CAPTURES.get(package, (package,))]
    return sorted(
        path for folder in folders if folder.is_dir() for path in folder.iterdir() if path.is_file()
    )


def dictionary(texts: Iterable[str]) -> str:
    """Words of the format, as the engine reads them: chance alone would never write `gfx_activity`."""
    words = dict.fromkeys(word for text in texts for word in _WORD.findall(text))
    return "".join(f'"{word}"\n' for word in list(words)[:_MAX_WORDS])
