"""What is to be saved of one vendor: its tools' commands, and files of the kernel."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from accelscope.model import Vendor
from accelscope.vendors import declarations
from accelscope.vendors.common.contract import ReaderOptions
from accelscope.vendors.declaration import VendorSetting

RootName = Literal["proc", "sys", "dev"]  # of Paths


@dataclass(frozen=True, slots=True)
class Command:
    source: str  # the name that `accelscope parse` has for the output, or one in its manner
    tool: VendorSetting
    arguments: tuple[str, ...]
    tag: str = ""  # tells several runs of one source apart: `npu0`

    @property
    def text(self) -> str:
        return " ".join((self.tool.default, *self.arguments))


@dataclass(frozen=True, slots=True)
class Tree:
    """Small files, saved one below the other in one text. Only named files are read: some files of a driver
    do something when they are."""

    source: str
    root: RootName
    folders: tuple[str, ...]  # patterns below the root
    files: tuple[str, ...]  # patterns below each folder; none: the folders' own names are all that is saved
    only: tuple[str, str] | None = None  # folders whose file of this name holds this
    # Of folders whose file of this name begins so, that file is all that is read: more would wake a device.
    asleep: tuple[str, str] | None = None


Outputs = Mapping[str, str]  # source -> what it printed


def nothing_more(_: Outputs) -> Iterable[Command]:
    return ()


def own_environment(options: ReaderOptions) -> Mapping[str, str] | None:
    return options.environment


@dataclass(frozen=True, slots=True)
class Plan:
    vendor: Vendor
    commands: tuple[Command, ...]
    trees: tuple[Tree, ...]
    then: Callable[[Outputs], Iterable[Command]] = nothing_more  # commands that need the answers before
    then_text: tuple[str, ...] = ()  # the same for people, before there are answers
    environment: Callable[[ReaderOptions], Mapping[str, str] | None] = own_environment


def plans() -> tuple[Plan, ...]:
    """Those of all vendors."""
    vendors = declarations().values()
    return tuple(vendor.load(vendor.capture_plan) for vendor in vendors if vendor.capture_plan)
