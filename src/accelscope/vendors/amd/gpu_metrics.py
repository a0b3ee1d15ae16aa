"""The file `gpu_metrics` of a GPU: a binary table with its temperatures, power, energy, activity, clocks,
throttle reasons and link counters. One read replaces a dozen small files and most of amd-smi.

The layouts are those of the kernel's `kgd_pp_interface.h`. The header contains a version and the size of the
table. A table of another version or size is not read.
"""

import os
import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from accelscope.model import AbsenceReason, Device, Link, pci_address
from accelscope.vendors.amd.draft import AmdDraft, number_dies
from accelscope.vendors.amd.gpu_files import reason_of
from accelscope.vendors.common.files import GENERATIONS, read_bytes, read_optional

# Layouts: names of fields with their struct codes and counts; `_` is not used. C aligns each field to its
# size and the table to its largest field.

_HEADER = struct.Struct("<HBB")  # size, format revision, content revision
_DEDICATED = (
    "edge:H junction:H memory:H vrgfx:H vrsoc:H vrmem:H gfx:H umc:H mm:H power:H {energy}"
    " _:7H graphics:H soc:H uclk:H video:H data:H _:2H _:I _:H width:{link} speed:{link}"
)
_ALIGNED = _DEDICATED.format(energy="energy:Q _:Q", link="H") + " _:H _:2I hbm:4H"
_SERVER_TEMPERATURES = "junction:H memory:H vrsoc:H power:H gfx:H umc:H"
_RESIDENCIES = "cycles:I prochot:I ppt:I socket_thermal:I vr_thermal:I hbm_thermal:I"
_SERVER_LINKS = "_:I width:H speed:H lanes:H bitrate:H _:2I _:Q bandwidth:Q recovery:Q replay:Q rollover:Q"
_NAKS = "nak_sent:I nak_received:I"
_TRAFFIC = "read:8Q written:8Q"
_SERVER_CLOCKS = "_:Q graphics:8H soc:4H video:4H data:4H uclk:H partitions:H"
_APU = (
    "edge:H t_soc:H _:8H _:2H _:2H {time} _:4H _:8H _:6H graphics:H soc:H uclk:H fabric:H video:H data:H"
    " _:8H _:2H _:I _:H"
)
_LAYOUTS: Mapping[tuple[int, int], str] = {
    (1, 0): "_:Q " + _DEDICATED.format(energy="_:I", link="B"),
    (1, 1): _ALIGNED,
    (1, 2): f"{_ALIGNED} _:Q",
    (1, 3): f"{_ALIGNED} _:Q vsoc:H vgfx:H vmem:H _:H bits:Q",
    (1, 4): f"{_SERVER_TEMPERATURES} vcn:4H energy:Q _:Q _:I {_SERVER_LINKS} {_TRAFFIC} {_SERVER_CLOCKS}",
    (1, 5): f"{_SERVER_TEMPERATURES} vcn:4H jpeg:32H energy:Q _:Q _:I {_SERVER_LINKS} {_NAKS} {_TRAFFIC}"
    f" {_SERVER_CLOCKS}",
    (1, 6): f"{_SERVER_TEMPERATURES} energy:Q _:Q {_RESIDENCIES} {_SERVER_LINKS} {_NAKS} {_TRAFFIC}"
    f" {_SERVER_CLOCKS}",
    (1, 7): f"{_SERVER_TEMPERATURES} _:Q energy:Q _:Q {_RESIDENCIES} {_SERVER_LINKS} {_NAKS} {_TRAFFIC}"
    f" up:8H _:H {_SERVER_CLOCKS}",
    (1, 8): f"{_SERVER_TEMPERATURES} _:Q energy:Q _:Q {_RESIDENCIES} {_SERVER_LINKS} {_NAKS} {_TRAFFIC}"
    f" up:8H _:H {_SERVER_CLOCKS}",
    (2, 0): "_:Q " + _APU.format(time="") + " _:H",
    (2, 1): _APU.format(time="_:Q") + " _:3H",
    (2, 2): _APU.format(time="_:Q") + " _:3H bits:Q",
    (2, 3): _APU.format(time="_:Q") + " _:3H bits:Q _:12H",
    (2, 4): _APU.format(time="_:Q") + " _:3H bits:Q _:12H _:6H",
    (3, 0): "edge:H t_soc:H _:16H _:H _:H _:H _:8H _:16H _:4H _:Q _:I _:H _:4I _:16H _:3H"
    " graphics:H soc:H _:2H fabric:H video:H uclk:H _:H _:16H _:2H _:8I",
}
# Tables 1.6 to 1.8 continue with one block for each partition of the GPU, and a counter.
_PARTITIONS = 8
_PARTITION_LAYOUTS: Mapping[tuple[int, int], str] = {
    (1, 6): "busy:8I jpeg:32H vcn:4H _:8Q",
    (1, 7): "busy:8I jpeg:32H vcn:4H _:8Q gfx_clk_below_host_limit:8Q",
    (1, 8): "busy:8I jpeg:40H vcn:4H _:8Q gfx_clk_below_host_limit_power:8Q"
    " gfx_clk_below_host_limit_thermal:8Q low_utilization:8Q total_gfx_clk_below_host_limit:8Q",
}
_SIZES = {"B": 1, "H": 2, "I": 4, "Q": 8}

Values = Mapping[str, tuple[int | None, ...]]  # None: not measured


@dataclass(frozen=True, slots=True)
class _Block:
    """A part of a table: where its fields are, and its size with the padding at its end."""

    values: struct.Struct
    fields: tuple[tuple[str, int, int, int], ...]  # name, position, count, value that means "not measured"
    size: int

    def read(self, table: bytes, offset: int = 0) -> Values:
        numbers = self.values.unpack_from(table, offset)
        values: dict[str, tuple[int | None, ...]] = {}
        for name, first, count, empty in self.fields:
            part = numbers[first : first + count]
            values[name] = tuple(None if n == empty else n for n in part) if empty in part else part
        return values


@cache
def _block(layout: str, start: int = 0) -> _Block:
    form, offset, widest, position = f"<{start}x", start, 1, 0
    fields = []
    for field in layout.split():
        name, _, kind = field.partition(":")
        count, code = int(kind[:-1] or 1), kind[-1]
        size = _SIZES[code]
        padding = -offset % size
        form += f"{padding}x" + (f"{count * size}x" if name == "_" else f"{count}{code}")
        offset += padding + count * size
        widest = max(widest, size)
        if name != "_":
            fields.append((name, position, count, (1 << 8 * size) - 1))
            position += count
    return _Block(struct.Struct(form), tuple(fields), offset + -offset % widest)


@dataclass(frozen=True, slots=True)
class Table:
    version: tuple[int, int]
    values: Values
    partitions: tuple[Values, ...] = ()


def parse_table(content: bytes) -> Table | None:
    """None if the version is not known or the size is not that of the version."""
    if len(content) < _HEADER.size:
        return None
    size, format_, revision = _HEADER.unpack_from(content)
    version = (format_, revision)
    layout = _LAYOUTS.get(version)
    if layout is None or size > len(content):
        return None
    block = _block(layout, _HEADER.size)
    part_layout = _PARTITION_LAYOUTS.get(version)
    if part_layout is None:
        return Table(version, block.read(content)) if size == block.size else None
    part = _block(part_layout)
    if size != block.size + _PARTITIONS * part.size + 8:  # the last counter, with padding
        return None
    values = block.read(content)
    number = min(values["partitions"][0] or 0, _PARTITIONS)
    parts = tuple(part.read(content, block.size + n * part.size) for n in range(number))
    return Table(version, values, parts)


# Units. A value beyond its limit, or 0 where a running GPU cannot have it, was not measured.

_JOULES_PER_COUNT = 2.0**-16  # AMD's tools multiply by 15.3 µJ, which is this unit rounded
_NO_ENERGY = (0, 0xFFFF_FFFF)  # the last is of Radeon cards whose firmware does not count
_MAX_CELSIUS = 250.0
_MAX_MEGAHERTZ = 60_000
_LANES = frozenset({1, 2, 4, 8, 12, 16, 32})
# Fields, and their names in the model.
_TEMPERATURES = {
    **{name: name for name in ("edge", "junction", "memory", "vrgfx", "vrsoc", "vrmem")},
    "t_soc": "soc",
}
_CLOCKS = {**{name: name for name in ("graphics", "soc", "video", "data", "fabric")}, "uclk": "memory"}
_RAILS = {"vgfx": "gfx", "vsoc": "soc", "vmem": "mem"}
_PCIE_ERRORS = {
    "recovery": "recovery",
    "rollover": "replay_rollover",
    "nak_sent": "nak_sent",
    "nak_received": "nak_received",
}
_RESIDENCY_NAMES = ("prochot", "ppt", "socket_thermal", "vr_thermal", "hbm_thermal")
# Bits of the throttle status that does not depend on the chip, by reason. The kernel's names are
# SMU_THROTTLER_…_BIT. Temperatures without a reason of their own are those of the package.
THROTTLE_BITS: Mapping[str, Sequence[int]] = {
    "ppt": (*range(8), 56),  # PPT, SPL, FPPT, SPPT, PPM
    "tdc": range(16, 24),  # TDC, EDC, APCC
    "reliability": (57,),  # FIT
    "socket_thermal": (32, 33, 35, 36, 37, 42, 43),  # GPU, core, edge, hotspot, SoC, liquid
    "hbm_thermal": (34,),
    "vr_thermal": (38, 39, 40, 41, 44, 45),
    "prochot": (46, 47),
}


def _values(table: Table) -> Iterator[tuple[str, Any]]:
    """The places of a draft, with their values."""
    format_, _ = table.version
    first = {
        name: numbers[0] if len(numbers) == 1 else next((n for n in numbers if n is not None), None)
        for name, numbers in table.values.items()
    }
    per_degree = 1 if format_ == 1 else 100
    for name, sensor in _TEMPERATURES.items():
        yield from _temperature(sensor, first.get(name), per_degree)
    for number, celsius in enumerate(table.values.get("hbm", ())):
        yield from _temperature(f"hbm{number}", celsius, 1)
    for name, domain in _CLOCKS.items():
        megahertz = first.get(name)
        if megahertz is not None and megahertz <= _MAX_MEGAHERTZ:
            yield f"clocks.{domain}", megahertz * 1e6
    if format_ == 1:
        yield from _dedicated_values(table, first)


def _temperature(name: str, number: int | None, per_degree: int) -> Iterator[tuple[str, float]]:
    celsius = (number or 0) / per_degree
    if 0 < celsius <= _MAX_CELSIUS:
        yield f"sensors.{name}", celsius


def _dedicated_values(table: Table, first: Mapping[str, int | None]) -> Iterator[tuple[str, Any]]:
    """Not for APUs: the units of their power and activity depend on the chip."""
    if power := first.get("power"):
        yield "power_watts", float(power)
    energy = first.get("energy")
    if energy is not None and energy not in _NO_ENERGY and not _energy_wraps(table):
        yield "energy_joules", round(energy * _JOULES_PER_COUNT, 6)
    for name, place in (("gfx", "utilization_ratio"), ("umc", "memory_utilization_ratio")):
        yield from _mean(place, [first.get(name)])
    parts = table.partitions or (table.values,)
    yield from _mean("decoder_utilization_ratio", [n for part in parts for n in part.get("vcn", ())])
    yield from _mean("jpeg_utilization_ratio", [n for part in parts for n in part.get("jpeg", ())])
    if not any(table.values.get("hbm", ())):  # MI200 reports 0 without measuring it
        yield from _mean("decoder_utilization_ratio", [first.get("mm")])
    for name, rail in _RAILS.items():
        if millivolts := first.get(name):
            yield f"rails.{rail}", round(millivolts / 1000, 9)
    if first.get("width") in _LANES:
        yield "pcie.width", first["width"]
    if (generation := GENERATIONS.get((first.get("speed") or 0) / 10)) is not None:
        yield "pcie.generation", generation
    if (megabits := first.get("bandwidth")) is not None:
        yield "pcie.bytes_per_second", megabits * 1e6 / 8
    for name, kind in _PCIE_ERRORS.items():
        if (count := first.get(name)) is not None:
            yield f"errors.pcie.{kind}", count
    yield from _dies(table)


def _energy_wraps(table: Table) -> bool:
    """Without HBM, the driver copies a counter of 32 bits into the table. It wraps at 65,536 J, after three
    minutes at 350 W."""
    return table.version < (1, 4) and not any(table.values.get("hbm", ()))


def _mean(place: str, percents: list[int | None]) -> Iterator[tuple[str, float]]:
    ratios = [percent / 100 for percent in percents if percent is not None and percent <= 100]
    if ratios:
        yield place, round(sum(ratios) / len(ratios), 9)


def _dies(table: Table) -> Iterator[tuple[str, float]]:
    uses = {
        number: [None if percent is None or percent > 100 else percent / 100 for percent in part["busy"]]
        for number, part in enumerate(table.partitions)
    }
    for die, use in number_dies(uses):
        yield f"cores.{die}.use", use
    clocks = [(die, n) for die, n in enumerate(table.values.get("graphics", ())) if n is not None]
    if len(clocks) > 1:
        for die, megahertz in clocks:
            if megahertz <= _MAX_MEGAHERTZ:
                yield f"cores.{die}.clock", megahertz * 1e6


def _links(values: Values, remotes: Mapping[int, str]) -> tuple[Link, ...]:
    """A port that is not up and never carried data is not connected."""
    lanes, gigabits = (values.get(name, (None,))[0] for name in ("lanes", "bitrate"))
    rate = lanes * gigabits * 1e9 / 8 if lanes and gigabits else None
    read, written = (values.get(name, ()) for name in ("read", "written"))
    states = values.get("up", (None,) * len(read))
    links = []
    for port, (received, sent, state) in enumerate(zip(read, written, states, strict=True)):
        if state == 1 or received or sent:
            links.append(
                Link(
                    "xgmi",
                    port,
                    active=None if state is None else state == 1,
                    remote=remotes.get(port),
                    bytes_per_second=rate,
                    transmit_bytes_total=None if sent is None else sent * 1024,
                    receive_bytes_total=None if received is None else received * 1024,
                )
            )
    return tuple(links)


# Lines of xgmi_port_num: this GPU's number in its hive and its port, then those of the other end. The folder
# of the hive has a link to each GPU under its number.
_PORT = re.compile(r"^([0-9a-f]{2}):([0-9a-f]{2})\s*->\s*([0-9a-f]{2}):[0-9a-f]{2}$", re.MULTILINE)
# Newer drivers list the links in the table by port, older ones by position in the chip. These are the ports
# of the positions of MI300.
_LINK_ORDERS = (tuple(range(8)), (0, 3, 1, 2, 7, 6, 4, 5))


def _remotes(folder: str, own_address: str | None, links: Sequence[Link]) -> Mapping[int, str]:
    """PCI address of the other end by index of the link. Empty if the order of the links does not follow from
    the ports that are connected."""
    lines = _PORT.findall(read_optional(f"{folder}/xgmi_port_num") or "")
    peers = {int(port, 16): int(peer, 16) for _, port, peer in lines}
    orders = {tuple(order[link.index] for link in links) for order in _LINK_ORDERS}
    possible = [ports for ports in orders if peers.keys() >= set(ports)]
    owners = {int(own, 16) for own, *_ in lines}
    if len(possible) != 1 or len(owners) != 1:
        return {}
    addresses = {number: _hive_member(folder, number) for number in {*owners, *peers.values()}}
    if own_address is None or addresses[owners.pop()] != own_address:
        return {}  # the numbers of the hive changed
    found = {link.index: addresses[peers[port]] for link, port in zip(links, possible[0], strict=True)}
    return {index: address for index, address in found.items() if address is not None}


def _hive_member(folder: str, number: int) -> str | None:
    try:
        target = os.readlink(f"{folder}/xgmi_hive_info/node{number}")  # noqa: PTH115 - a path of text
    except OSError:
        return None
    return pci_address(target.rpartition("/")[2])


class _Residencies:
    """Newer server chips count the cycles that they were throttled for each reason. A reason is active if its
    count rose since the previous reading."""

    def __init__(self) -> None:
        self._cycles: int | None = None
        self._counts: Mapping[str, tuple[int | None, ...]] = {}
        self._active: dict[str, bool] = {}

    def judge(self, table: Table) -> Mapping[str, bool]:
        """Empty at the first reading, and after the counters were reset."""
        (cycles,) = table.values["cycles"]
        if cycles is None or cycles == self._cycles:  # no new measurement
            return self._active
        counts = {name: table.values[name] for name in _RESIDENCY_NAMES}
        for name in table.partitions[0] if table.partitions else ():
            if name not in ("busy", "jpeg", "vcn"):
                counts[name] = tuple(count for part in table.partitions for count in part[name])
        continues = self._cycles is not None and cycles > self._cycles
        before, self._counts, self._cycles = self._counts, counts, cycles
        self._active = {}
        for name, numbers in counts.items() if continues else ():
            pairs = [
                (then, now)
                for then, now in zip(before.get(name, ()), numbers, strict=False)
                if then is not None and now is not None
            ]
            if pairs:
                self._active[name] = any(then != now for then, now in pairs)
        return self._active


def _throttles(status: int, *, hbm: bool) -> dict[str, bool]:
    """The temperature of other memory than HBM counts as that of the package."""
    active = {reason: any(status >> bit & 1 for bit in bits) for reason, bits in THROTTLE_BITS.items()}
    if not hbm:
        active["socket_thermal"] |= active.pop("hbm_thermal")
    return active


def _replaces_tool(table: Table, *, linked: bool) -> bool:
    """The links of older server chips are not in their tables. Tables 1.4 and 1.5 contain no throttle
    reasons, but then the tool does not know them either."""
    if table.version[0] != 1 or table.version < ((1, 4) if linked else (1, 3)):
        return False
    reasons = table.values.get("cycles") or table.values.get("bits") or (0,)
    return reasons[0] is not None


class GpuMetrics:
    """The table of one GPU. A value that it contained once comes from no other source afterwards, so that
    counters do not jump and gauges do not change their meaning."""

    def __init__(self, device_folder: str, *, linked: bool) -> None:
        """`linked`: the GPU has links to others."""
        self._folder = device_folder
        self._path = f"{device_folder}/gpu_metrics"
        self._linked = linked
        self._missing = False
        self._residencies = _Residencies()
        self.replaces_tool = False
        """Whether amd-smi measures nothing that the driver's files do not contain."""
        self.places: set[str] = set()  # of the draft, that come from the table
        self._has_links = False
        self._remotes: Mapping[int, str] = {}  # by index of the link
        self._energy_wraps = False
        self._replays: int | None = None
        self._tool_device: tuple[object, Device | None] = None, None  # what it depends on, and the result

    def take(self, draft: AmdDraft) -> None:
        if self._missing:
            return
        try:
            content = read_bytes(self._path)
        except OSError as error:
            self._missing = isinstance(error, FileNotFoundError) and not self.places
            self._miss_all(draft, reason_of(error))
            return
        table = parse_table(content)
        if table is None:
            draft.miss("energy_joules", AbsenceReason.UNREADABLE)
            self._miss_all(draft, AbsenceReason.UNREADABLE)
            return
        self.replaces_tool = _replaces_tool(table, linked=self._linked)
        found = dict(_values(table))
        if "cycles" in table.values:
            active = self._residencies.judge(table)
        else:
            bits = table.values.get("bits", (None,))[0]
            hbm = any(table.values.get("hbm", ()))
            active = {} if bits is None else _throttles(bits, hbm=hbm)
        found |= {f"throttles.{reason}": value for reason, value in active.items()}
        draft.put_all(found)
        self.places.update(found)
        self._energy_wraps = _energy_wraps(table)
        if self._energy_wraps and table.values.get("energy", (None,))[0] not in (None, *_NO_ENERGY):
            draft.miss("energy_joules", AbsenceReason.NOT_SUPPORTED)
        if len(self.places) > len(found):
            self._miss_all(draft, AbsenceReason.NO_SAMPLE)
        if self._linked:
            draft.links = self._read_links(table, draft.values.get("pci_address"))
            self._has_links |= bool(draft.links)
        self._replays = table.values.get("replay", (None,))[0]

    def _read_links(self, table: Table, own_address: str | None) -> tuple[Link, ...]:
        links = _links(table.values, self._remotes)
        if any(link.remote is None for link in links):
            self._remotes = _remotes(self._folder, own_address, links)
            links = _links(table.values, self._remotes)
        return links

    def take_replays(self, draft: AmdDraft) -> None:
        """The driver has a file for PCIe replays, too. It counts differently on some chips, and is used if it
        exists."""
        place = "pcie.replays_total"
        if self._replays is not None and place not in draft.values and place not in draft.absences:
            draft.put(place, self._replays)

    def without_own_values(self, tool_device: Device | None) -> Device | None:
        """The device as a tool reports it, without what the table contains. A tool reads less often, and
        rounds the unit of energy."""
        if tool_device is None or not (self.places or self._has_links or self._energy_wraps):
            return tool_device
        state = tool_device, len(self.places), self._has_links, self._energy_wraps
        if self._tool_device[0] != state:
            self._tool_device = state, self._without_own_values(tool_device)
        return self._tool_device[1]

    def _without_own_values(self, tool_device: Device) -> Device:
        empty: dict[str, Any] = {"links": ()} if self._has_links else {}
        if self._energy_wraps:
            empty["energy_joules"] = None  # the tool prints the counter of the table
        groups = {place.partition(".")[0] for place in self.places}
        for name in groups - {"pcie", "errors"}:
            empty[name] = () if isinstance(getattr(tool_device, name), tuple) else None
        if not self.places.isdisjoint(("sensors.edge", "sensors.junction")):
            empty["temperature_celsius"] = None
        if tool_device.pcie is not None:
            own = {place.partition(".")[2]: None for place in self.places if place.startswith("pcie.")}
            empty["pcie"] = replace(tool_device.pcie, **own)
        if "errors" in groups:
            empty["errors"] = tuple(error for error in tool_device.errors if error.kind != "pcie")
        return replace(tool_device, **empty)

    def _miss_all(self, draft: AmdDraft, reason: AbsenceReason) -> None:
        for place in self.places:
            draft.miss(place, reason)
