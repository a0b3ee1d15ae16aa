"""What `accelscope capture` saves of a vendor: outputs of its tools, and files of the kernel."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal

from accelscope.model import Vendor
from accelscope.vendors import declarations
from accelscope.vendors.common.contract import ReaderOptions
from accelscope.vendors.declaration import VendorSetting

RootName = Literal["proc", "sys", "dev"]  # fields of Paths


@dataclass(frozen=True, slots=True)
class Command:
    source: str  # name of the output for `accelscope parse`, or a similar name
    tool: VendorSetting
    arguments: tuple[str, ...]
    tag: str = ""  # distinguishes runs of one source: `npu0`

    @property
    def text(self) -> str:
        return " ".join((self.tool.default, *self.arguments))


@dataclass(frozen=True, slots=True)
class Tree:
    """Small files, saved one after the other in one text. Only the named files are read: reading some of a
    driver's files has side effects."""

    source: str
    root: RootName
    folders: tuple[str, ...]  # patterns below the root
    files: tuple[str, ...]  # patterns below each folder; empty: only the names of the folders are saved
    only: tuple[str, str] | None = None  # file and content: only folders where they match
    # File and beginning of its content: where they match, the device sleeps, and only this file and
    # `asleep_files` (patterns) are read.
    asleep: tuple[str, str] | None = None
    asleep_files: tuple[str, ...] = ()
    binary: tuple[str, ...] = ()  # names of files without identifiers, saved as hexadecimal bytes
    # Only files `fdinfo/N` of processes whose descriptor N is a device file with such a path.
    opened: re.Pattern[str] | None = None
    # Devices of other vendors have such files too: saved only if there is other output of this vendor.
    shared: bool = False


Outputs = Mapping[str, str]  # source -> output


def no_commands(_: Outputs) -> Iterable[Command]:
    return ()


def own_environment(options: ReaderOptions) -> Mapping[str, str] | None:
    return options.environment


@dataclass(frozen=True, slots=True)
class Plan:
    vendor: Vendor
    commands: tuple[Command, ...]
    trees: tuple[Tree, ...]
    then: Callable[[Outputs], Iterable[Command]] = no_commands  # commands that depend on these outputs
    then_text: tuple[str, ...] = ()  # description of these commands for --help and documentation
    environment: Callable[[ReaderOptions], Mapping[str, str] | None] = own_environment

    # Forms of secrets and identifiers in this vendor's outputs, see accelscope.capture.mask
    command_lines: tuple[re.Pattern[str], ...] = ()  # groups: text before the command, command, text after it
    serial_names: tuple[str, ...] = ()  # patterns of names of numbers that identify a device
    decimal_serials: tuple[re.Pattern[str], ...] = ()  # group 1: such a number, elsewhere in hexadecimal
    hex_ids: tuple[str, ...] = ()  # patterns of identifiers that are recognised by their form


@cache
def plans() -> tuple[Plan, ...]:
    """The plans of all vendors."""
    vendors = declarations().values()
    return tuple(vendor.load(vendor.capture_plan) for vendor in vendors if vendor.capture_plan)
