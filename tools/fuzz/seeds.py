"""Texts to begin with: `seeds/<source>/` has small ones that were written by hand, `corpus/<source>/` what
the engine made of these, captures of real machines come beside them where there are any."""

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
PACKAGES = (*(f"vendors.{name}" for name in declarations()), "attribution")

_WORD = re.compile(r"[^\W\d_][\w.%()/-]{2,30}", re.ASCII)
_MAX_WORDS = 400
_CAPTURES = {"attribution": ("cgroup", "k8s")}  # a vendor's have its name


def sources_of(package: str) -> dict[str, OutputFormat]:
    """Those of one package: only its parsers are loaded."""
    listed: tuple[OutputFormat, ...] = import_module(f"accelscope.{package}.sources").SOURCES
    return {source.name: source for source in listed}


def packages() -> dict[str, str]:
    """Name of each source, and of the package that has it."""
    return {name: package for package in PACKAGES for name in sources_of(package)}


def own(source: str) -> list[Path]:
    """Written by hand."""
    return sorted((SEEDS / source).iterdir()) if (SEEDS / source).is_dir() else []


def kept(source: str) -> list[Path]:
    """What the engine made of our own: `keep` makes it."""
    return sorted((CORPUS / source).iterdir()) if (CORPUS / source).is_dir() else []


def captures(package: str) -> list[Path]:
    """All of the package's, of whatever source: a text that is another's is a good seed as well. The folder
    is named by ACCELSCOPE_CAPTURES, relative to the repository if it is relative."""
    root = REPOSITORY / os.environ.get("ACCELSCOPE_CAPTURES", "../shared/captures")
    folders = [root / name for name in _CAPTURES.get(package, (package.rpartition(".")[2],))]
    return sorted(
        path for folder in folders if folder.is_dir() for path in folder.iterdir() if path.is_file()
    )


def dictionary(texts: Iterable[str]) -> str:
    """Words of the format, as the engine reads them: chance alone would never write `gfx_activity`."""
    words = dict.fromkeys(word for text in texts for word in _WORD.findall(text))
    return "".join(f'"{word}"\n' for word in list(words)[:_MAX_WORDS])
