"""Hiding who a node, its devices and its users are, while everything still fits together.

The same value becomes the same mask in all files of an archive, of the same form and length, so that joins
between outputs survive and our parsers read the same numbers. Masks are numbered in the order in which values
are first met: a hash of a serial number could be guessed. PCI addresses are kept.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from accelscope.parsing import sources
from accelscope.vendors import declarations
from accelscope.vendors.common.values import program_in_title

# --- command lines ------------------------------------------------------------
# Command lines in outputs, cut down to the program's name: arguments hold secrets, paths name people.
#
# Text in, text out. The usual forms are known here and looked for in every output, whoever's it is: a new
# tool must not need an entry in a list for its secrets to be hidden. The width of tables is kept.


# Tools do not escape what is in it; an output that was cut off may end in it.
_XML = re.compile(r"(<process_name>)([^<]*(?:<(?!/?process_name>)[^<]*)*)(</process_name>|\Z)")
_JSON_KEYS = r"cmd|cmdline|command|command_line|process_name"
_JSON = re.compile(rf'("(?:{_JSON_KEYS})"\s*:\s*")((?:[^"\\]|\\.)*)(")', re.IGNORECASE)
_JSON_NAME = re.compile(r'("name"\s*:\s*")((?:[^"\\]|\\.)*)(")')
_PID_KEY = re.compile(r'("PID[0-9]+"\s*:\s*")((?:[^"\\]|\\.)*?)((?:,[^,"]*){4}")')
_KEY_VALUE = re.compile(r"(Process name[ \t]*:[ \t]*)(.*?)([ \t]*(?:Process memory.*)?)$", re.MULTILINE)
_INDENTED = re.compile(r"^([ \t]+NAME:[ \t]*)(.*?)([ \t]*)$", re.MULTILINE)
_ENVIRONMENT = re.compile(r"^\s*(?:[A-Za-z_]\w*=\S*(?:\s+|$))+")  # `TOKEN=secret python3`
# Printed instead of a name, in brackets or without. They hold blanks or a slash and would be cut.
_NO_NAME = re.compile(
    r"(?:n/a|no data|(?:function )?not found|not supported|not available|no permission"
    r"|insufficient permissions|unknown error|gpu is lost|gpu requires reset|driver not loaded)[.]?",
    re.IGNORECASE,
)
_HEADINGS = frozenset({"cmd", "command", "process name", "process_name"})


def without_command_lines(source: str, text: str) -> str:
    for pattern in (_XML, _JSON, _PID_KEY, _KEY_VALUE):
        text = pattern.sub(_shortened, text)
    kind = sources().get(source)
    if kind is None or not kind.names_devices:
        text = _INDENTED.sub(_shortened, _JSON_NAME.sub(_shortened, text))
    if kind is not None and kind.hide_command_lines is not None:
        return kind.hide_command_lines(text)
    return _tables(text)


def _shortened(match: "re.Match[str]") -> str:
    return f"{match[1]}{_program(match[2])}{match[3]}"


def _program(title: str) -> str:
    command = _ENVIRONMENT.sub("", title).strip()
    if _NO_NAME.fullmatch(command.removeprefix("[").removesuffix("]").strip()):
        return command
    return program_in_title(command) or command


def _tables(text: str) -> str:
    """Tables with commas or bars: the cells below a heading that names the program."""
    lines = text.splitlines(keepends=True)
    for mark in (",", "|"):
        place, width = None, 0
        for number, line in enumerate(lines):
            body = line.rstrip("\r\n")
            cells = body.split(mark)
            if len(cells) < 3:
                continue
            heading = next((n for n, cell in enumerate(cells) if cell.strip().lower() in _HEADINGS), None)
            if heading is not None:
                place, width = heading, len(cells)
            elif place is not None and len(cells) >= width:
                lines[number] = _row(cells, place, width, mark) + line[len(body) :]
    return "".join(lines)


def _row(cells: Sequence[str], place: int, width: int, mark: str) -> str:
    """A command may hold the mark itself: what is too much belongs to it."""
    extra = len(cells) - width
    command = mark.join(cells[place : place + extra + 1])
    fill: Callable[[str], str] = (lambda cell: cell.ljust(len(command))) if mark == "|" else str
    lead = command[: len(command) - len(command.lstrip())]
    return mark.join([*cells[:place], fill(lead + _program(command)), *cells[place + extra + 1 :]])


# --- mounts ------------------------------------------------------------
# The lines of a process's mountinfo that tell which container it is in. The others name volumes, servers and
# file systems, which are nobody's business; so does the end of each line, after the type of its file system.


_TELLS = re.compile(
    r" - cgroup2? |/etc/hosts |/etc/hostname |/dev/termination-log |/etc-hosts |/sandboxes/[^/ ]+/hostname "
)
_SOURCE = re.compile(r"( - (?!cgroup2? )\S+) .*")  # `filer.corp:/export rw,addr=10.1.2.3`


def container_mounts(text: str) -> str:
    lines = (line for line in text.splitlines(keepends=True) if " - " in line)
    return "".join(
        _SOURCE.sub(r"\1 - -", line, count=1) for line in lines if _TELLS.search(f"{line.rstrip()} ")
    )


# --- serials ------------------------------------------------------------
# Where outputs name a serial number or another number that is one device's own: the values, to be masked.
#
# Pure: text in, values out. UUIDs are found by their form elsewhere; these numbers have none, so they are
# found by the name that stands beside them.


_NAME = (
    r"(?:[\w. ]{0,24}serial(?:[ _]?(?:number|no\.?))?|s/n|(?:device[_ ])?sn|unique[ _]id|[dnv]?die[ _]id"
    r"|soc_u?id|[\w.]{0,16}fabric_guid|(?:gpu[_ ])?pdi)"
)
_IN_XML = re.compile(rf"<({_NAME})>\s*([^<>\s][^<>]*?)\s*</", re.IGNORECASE)
_IN_JSON = re.compile(rf'"{_NAME}:?"\s*:\s*"?([^",{{}}\[\]\n]+)', re.IGNORECASE)
_IN_LINE = re.compile(rf"^[ \t]*{_NAME}[ \t]*:[ \t]*(\S.*?)[ \t]*$", re.IGNORECASE | re.MULTILINE)
_IN_PROPERTIES = re.compile(r"^unique_id ([0-9]{4,20})$", re.MULTILINE)  # of the compute driver, in decimal
_OF_FILE = re.compile(rf"^=== \S*/{_NAME}\n(\S.*)$", re.IGNORECASE | re.MULTILINE)
_COLUMN = re.compile(rf"\s*{_NAME}\s*", re.IGNORECASE)

_SHORTEST = 4
_NO_NUMBER = frozenset(
    {"n/a", "[n/a]", "none", "unknown", "not supported", "[not supported]", "null", "error"}
)


def serials_in(text: str) -> Iterator[str]:
    for found in (_IN_XML, _IN_JSON, _IN_LINE, _OF_FILE):
        for match in found.finditer(text):
            yield from _value(match[match.lastindex or 0])
    yield from _in_columns(text)


def decimal_ids_in(text: str) -> Iterator[str]:
    """The chip's number as the compute driver writes it; other sources have it in hexadecimal."""
    for match in _IN_PROPERTIES.finditer(text):
        if int(match[1]):
            yield match[1]


def _in_columns(text: str) -> Iterator[str]:
    """Of tables with commas or bars: the cells below a heading that names such a number."""
    for mark in (",", "|"):
        places: list[int] = []
        width = 0
        for line in text.splitlines():
            cells = line.split(mark)
            if len(cells) < 3:
                continue
            headings = [n for n, cell in enumerate(cells) if _COLUMN.fullmatch(cell)]
            if headings:
                places, width = headings, len(cells)
            elif places and len(cells) >= width:
                for place in places:
                    yield from _value(cells[place])


def _value(cell: str) -> Iterator[str]:
    value = cell.strip().strip('"')
    bare = re.sub(r"[^0-9A-Za-z]", "", value.removeprefix("0x").removeprefix("0X"))
    if len(bare) >= _SHORTEST and bare.strip("0") and value.lower() not in _NO_NUMBER:
        yield value


_HEX = "0-9A-Fa-f"
# A pod's uid stands behind the letters `pod`, of which the last is a digit too.
_UUID = rf"[{_HEX}]{{8}}(?:[-_][{_HEX}]{{4}}){{3}}[-_][{_HEX}]{{12}}(?![{_HEX}])"
_LONG_HEX = rf"(?:(?<=pod)|(?<![0-9A-Za-z]))[{_HEX}]{{32,128}}(?![0-9A-Za-z])"  # containers, static pods
_HIP_UUID = rf"(?<=GPU-)[{_HEX}]{{16}}(?![{_HEX}-])"  # AMD: a unique id behind NVIDIA's prefix
_MAC = rf"(?<![\w:.])(?:[{_HEX}]{{2}}:){{5}}[{_HEX}]{{2}}(?![\w:.])"
_IPV6 = (
    rf"(?<![\w:.-])(?:(?:[{_HEX}]{{1,4}}:){{7}}[{_HEX}]{{1,4}}"
    rf"|[{_HEX}]{{1,4}}(?::[{_HEX}]{{1,4}}){{0,6}}::[{_HEX}]{{1,4}}(?::[{_HEX}]{{1,4}}){{0,5}})(?![\w:.])"
)
_OCTET = r"(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_IPV4 = rf"(?<![\w.])(?:{_OCTET}\.){{3}}{_OCTET}(?![\w.])"
# Versions of four numbers look like addresses; the word before them says what they are.
_VERSION_BEFORE = re.compile(
    r"(?:version|firmware|bios|driver|release|(?<![a-z])smi)\W{0,40}$", re.IGNORECASE
)
_NO_ADDRESS = re.compile(r"0\.0\.0\.0|127\.|255\.")
_EXAMPLE_NETWORKS = ("192.0.2", "198.51.100", "203.0.113")  # kept free for documentation

_LONG = 10  # from here on a value is told from others also within a longer word
# Names that are everywhere and identify nobody.
_COMMON_NAMES = frozenset(
    {
        *declarations(),
        *(name for vendor in declarations().values() for name in vendor.account_names),
        "admin",
        "azureuser",
        "cloud-user",
        "core",
        "debian",
        "ec2-user",
        "fedora",
        "gpu",
        "localhost",
        "node",
        "npu",
        "opc",
        "python",
        "rocky",
        "root",
        "system",
        "test",
        "ubuntu",
        "user",
        "vagrant",
    }
)
_SHORTEST_NAME = 3


@dataclass(frozen=True, slots=True)
class NodeNames:
    """What this node and its people are called."""

    hosts: tuple[str, ...] = ()
    users: tuple[str, ...] = ()


class Mask:
    def __init__(self, names: NodeNames | None = None) -> None:
        names = names or NodeNames()
        self._numbers: dict[str, dict[str, int]] = {}  # kind -> value -> its number
        self._serials: dict[str, str] = {}  # as it stands in an output -> its mask
        self._hosts = _host_masks(names.hosts)
        users = dict.fromkeys(user.lower() for user in names.users if _is_telling(user))
        self._users = {user: f"user{number}" for number, user in enumerate(users, 1)}
        self._pattern: re.Pattern[str] | None = None

    def learn(self, texts: Iterable[str]) -> None:
        """Meet the numbers that are known by their names in one output and stand bare in another: all outputs
        must be learnt before the first is masked."""
        texts = list(texts)
        for text in texts:
            for value in serials_in(text):
                for form in (value.lower(), value.lower().removeprefix("0x")):
                    self._serials.setdefault(form, self._serial(form))
        for text in texts:
            for value in decimal_ids_in(text):
                hidden = self._serial(f"{int(value):x}")
                self._serials.setdefault(value, str(int(hidden, 16)))
        self._pattern = None

    def apply(self, source: str, text: str) -> str:
        text = without_command_lines(source, text)
        if source == "proc-mountinfo":
            text = container_mounts(text)
        return self.hide(text)

    def hide(self, text: str) -> str:
        """One pass, so that a mask is never masked again."""
        if self._pattern is None:
            self._pattern = self._compiled()
        return self._pattern.sub(self._replacement, text)

    def _compiled(self) -> "re.Pattern[str]":
        kinds = {
            "uuid": _UUID,
            "serial": _any(self._serials),
            "hex": f"{_LONG_HEX}|{_HIP_UUID}",
            "mac": _MAC,
            "ipv6": _IPV6,
            "ipv4": _IPV4,
            "host": _any(self._hosts, whole_words=True),
            "user": _any(self._users, whole_words=True),
        }
        return re.compile("|".join(f"(?P<{kind}>{pattern})" for kind, pattern in kinds.items() if pattern))

    def _replacement(self, match: "re.Match[str]") -> str:
        kind, found = str(match.lastgroup), match[0]
        masks: dict[str, Callable[[], str]] = {
            "uuid": lambda: self._uuid(found),
            "serial": lambda: self._like(self._serials[found.lower()], found),
            "hex": lambda: self._hex(found),
            "mac": lambda: self._mac(found),
            "ipv6": lambda: f"2001:db8::{self._number('ipv6', found.lower()):x}",
            "ipv4": lambda: self._ipv4(match),
            "host": lambda: self._hosts[found.lower()],
            "user": lambda: self._users[found.lower()],
        }
        return masks[kind]()

    def _number(self, kind: str, value: str) -> int:
        met = self._numbers.setdefault(kind, {})
        return met.setdefault(value, len(met) + 1)

    def _uuid(self, found: str) -> str:
        digits = re.sub("[-_]", "", found).lower()
        if not digits.strip("0"):
            return found  # somebody has masked it before
        hidden = f"00000000000040008000{self._number('uuid', digits):012x}"
        places = iter(hidden.upper() if found != found.lower() else hidden)
        return "".join(character if character in "-_" else next(places) for character in found)

    def _hex(self, found: str) -> str:
        if not found.strip("0"):
            return found
        hidden = f"{self._number('hex', found.lower()):0{len(found)}x}"
        return hidden.upper() if found != found.lower() else hidden

    def _mac(self, found: str) -> str:
        if found.lower() in ("00:00:00:00:00:00", "ff:ff:ff:ff:ff:ff"):
            return found
        number = self._number("mac", found.lower())
        return f"02:00:00:00:{number >> 8 & 0xFF:02x}:{number & 0xFF:02x}"

    def _ipv4(self, match: "re.Match[str]") -> str:
        found = match[0]
        before = match.string[max(0, match.start() - 60) : match.start()].rpartition("\n")[2]
        if _NO_ADDRESS.match(found) or _VERSION_BEFORE.search(before):
            return found
        place = self._number("ipv4", found) - 1
        return f"{_EXAMPLE_NETWORKS[place // 254 % len(_EXAMPLE_NETWORKS)]}.{place % 254 + 1}"

    def _serial(self, value: str) -> str:
        """Same length, digits for digits: `1650123456789` becomes `1000000000001`. The same number with and
        without 0x, in capitals or not, is the same."""
        bare = value.lower().removeprefix("0x")
        number = self._number("serial", bare)
        prefix = value[: len(value) - len(bare)]
        hexadecimal = re.fullmatch(r"[0-9a-f -]+", bare) is not None
        shape = [_blank(character, hexadecimal=hexadecimal) for character in bare]
        free = [place for place, character in enumerate(shape) if character in "0x"]
        for place, digit in zip(reversed(free), reversed(str(number)), strict=False):
            shape[place] = digit
        if free and shape[free[0]] == "0":
            shape[free[0]] = "1"  # so that a bare number does not begin with 0, which JSON refuses
        return prefix.lower() + "".join(shape)

    @staticmethod
    def _like(hidden: str, found: str) -> str:
        """In the letters of what it stands for."""
        if found.upper() != found:
            return hidden
        return hidden.upper().replace("0X", found[:2], 1) if hidden.startswith("0x") else hidden.upper()


def _blank(character: str, *, hexadecimal: bool) -> str:
    if character.isdigit() or (hexadecimal and character.isalpha()):
        return "0"
    return "x" if character.isalpha() else character


def _any(values: Iterable[str], *, whole_words: bool = False) -> str:
    """Longer values first: one may begin another."""
    parts = []
    for value in sorted(values, key=lambda v: (-len(v), v)):
        escaped = re.escape(value)
        if whole_words or len(value) < _LONG:
            escaped = rf"(?<![0-9A-Za-z]){escaped}(?![0-9A-Za-z])"
        parts.append(escaped)
    return f"(?i:{'|'.join(parts)})" if parts else ""


def _host_masks(hosts: Iterable[str]) -> dict[str, str]:
    """The whole name, its first word, and the domain: `gpu-7.example.org` is `node1.domain1`."""
    masks: dict[str, str] = {}
    shorts: dict[str, str] = {}
    domains: dict[str, str] = {}
    for host in dict.fromkeys(host.lower() for host in hosts):
        short, _, domain = host.partition(".")
        if _is_telling(short):
            masks.setdefault(short, shorts.setdefault(short, f"node{len(shorts) + 1}"))
        if domain:
            masks.setdefault(domain, domains.setdefault(domain, f"domain{len(domains) + 1}.invalid"))
            if short in masks:
                masks[host] = f"{masks[short]}.{masks[domain]}"
    return masks


def _is_telling(name: str) -> bool:
    return len(name) >= _SHORTEST_NAME and name.lower() not in _COMMON_NAMES and not name.isdecimal()
