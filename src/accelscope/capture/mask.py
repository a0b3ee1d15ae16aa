"""Masks the values that identify a node, its devices and its users.

The same value gets the same mask in all files of an archive, of the same form and length, so that outputs can
still be joined and parsed. Masks are numbered in the order of first occurrence: a hash of a serial number
could be guessed. PCI addresses stay.

Forms that several tools use are here, those of one vendor's tools in its capture plan. All are looked for in
every output: a new tool must not need an entry in a list for its secrets to be hidden.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from accelscope.capture.plan import plans
from accelscope.parsing import sources
from accelscope.vendors import declarations
from accelscope.vendors.common.values import program_in_title

# Command lines are cut down to the program's name: arguments contain secrets, paths contain names of people.
# The width of tables stays.

_JSON_KEYS = r"cmd|cmdline|command|command_line|process_name"
_JSON = re.compile(rf'("(?:{_JSON_KEYS})"\s*:\s*")((?:[^"\\]|\\.)*)(")', re.IGNORECASE)
_JSON_NAME = re.compile(r'("name"\s*:\s*")((?:[^"\\]|\\.)*)(")')
_INDENTED = re.compile(r"^([ \t]+NAME:[ \t]*)(.*?)([ \t]*)$", re.MULTILINE)
_ENVIRONMENT = re.compile(r"^\s*(?:[A-Za-z_]\w*=\S*(?:\s+|$))+")  # `TOKEN=secret python3`
# Texts instead of a name, with or without brackets. They contain blanks or a slash and would be cut. They
# stay together: several vendors' tools print most of them, and none names a vendor.
_NO_NAME = re.compile(
    r"(?:n/a|no data|(?:function )?not found|not supported|not available|no permission"
    r"|insufficient permissions|unknown error|gpu is lost|gpu requires reset|driver not loaded)[.]?",
    re.IGNORECASE,
)
_HEADINGS = frozenset({"cmd", "command", "process name", "process_name"})


def without_command_lines(source: str, text: str) -> str:
    for pattern in (_JSON, *(pattern for plan in plans() for pattern in plan.command_lines)):
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
    """Shorten the cells below a heading for programs, in tables with commas or bars."""
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
    """A command may contain the mark itself: additional cells belong to it."""
    extra = len(cells) - width
    command = mark.join(cells[place : place + extra + 1])
    fill: Callable[[str], str] = (lambda cell: cell.ljust(len(command))) if mark == "|" else str
    lead = command[: len(command) - len(command.lstrip())]
    return mark.join([*cells[:place], fill(lead + _program(command)), *cells[place + extra + 1 :]])


# Of a process's mountinfo only the lines that identify its container are kept. The other lines, and the end
# of each line after the type of the file system, name volumes and servers.

_CONTAINER_MOUNT = re.compile(
    r" - cgroup2? |/etc/hosts |/etc/hostname |/dev/termination-log |/etc-hosts |/sandboxes/[^/ ]+/hostname "
)
_MOUNT_SOURCE = re.compile(r"( - (?!cgroup2? )\S+) .*")  # `filer.corp:/export rw,addr=10.1.2.3`


def container_mounts(text: str) -> str:
    lines = (line for line in text.splitlines(keepends=True) if " - " in line)
    return "".join(
        _MOUNT_SOURCE.sub(r"\1 - -", line, count=1)
        for line in lines
        if _CONTAINER_MOUNT.search(f"{line.rstrip()} ")
    )


# Serial numbers and other numbers that identify a device have no form of their own: the name beside them
# identifies them.

_SERIAL_NAMES = (
    r"[\w. ]{0,24}serial(?:[ _]?(?:number|no\.?))?",
    r"s/n",
    r"(?:device[_ ])?sn",
    r"unique[ _]id",
)
_SHORTEST_SERIAL = 4
_NO_NUMBER = frozenset(
    {"n/a", "[n/a]", "none", "unknown", "not supported", "[not supported]", "null", "error"}
)


@cache
def _serial_patterns() -> tuple[tuple[re.Pattern[str], ...], re.Pattern[str]]:
    """Patterns of a value beside its name, and of the heading of a column."""
    names = "|".join((*_SERIAL_NAMES, *(name for plan in plans() for name in plan.serial_names)))
    name = f"(?:{names})"
    beside = (
        rf"<{name}>\s*([^<>\s][^<>]*?)\s*</",  # XML
        rf'"{name}:?"\s*:\s*"?([^",{{}}\[\]\n]+)',  # JSON
        rf"^[ \t]*{name}[ \t]*:[ \t]*(\S.*?)[ \t]*$",
        rf"^=== \S*/{name}\n(\S.*)$",  # a file of a captured tree
    )
    flags = re.IGNORECASE | re.MULTILINE
    return tuple(re.compile(pattern, flags) for pattern in beside), re.compile(rf"\s*{name}\s*", flags)


def serials_in(text: str) -> Iterator[str]:
    patterns, heading = _serial_patterns()
    for pattern in patterns:
        for match in pattern.finditer(text):
            yield from _serial_value(match[1])
    yield from _serials_in_columns(text, heading)


def decimal_serials_in(text: str) -> Iterator[str]:
    """Serial numbers in decimal, which other outputs of the same vendor contain in hexadecimal."""
    for pattern in (pattern for plan in plans() for pattern in plan.decimal_serials):
        for match in pattern.finditer(text):
            if int(match[1]):
                yield match[1]


def _serials_in_columns(text: str, heading: "re.Pattern[str]") -> Iterator[str]:
    """The cells below a heading for such a number, in tables with commas or bars."""
    for mark in (",", "|"):
        places: list[int] = []
        width = 0
        for line in text.splitlines():
            cells = line.split(mark)
            if len(cells) < 3:
                continue
            headings = [n for n, cell in enumerate(cells) if heading.fullmatch(cell)]
            if headings:
                places, width = headings, len(cells)
            elif places and len(cells) >= width:
                for place in places:
                    yield from _serial_value(cells[place])


def _serial_value(cell: str) -> Iterator[str]:
    value = cell.strip().strip('"')
    bare = re.sub(r"[^0-9A-Za-z]", "", value.removeprefix("0x").removeprefix("0X"))
    if len(bare) >= _SHORTEST_SERIAL and bare.strip("0") and value.lower() not in _NO_NUMBER:
        yield value


_HEX = "0-9A-Fa-f"
# A pod's uid follows the letters `pod`, the last of which is a hexadecimal digit too.
_UUID = rf"[{_HEX}]{{8}}(?:[-_][{_HEX}]{{4}}){{3}}[-_][{_HEX}]{{12}}(?![{_HEX}])"
_LONG_HEX = rf"(?:(?<=pod)|(?<![0-9A-Za-z]))[{_HEX}]{{32,128}}(?![0-9A-Za-z])"  # containers, static pods
_MAC = rf"(?<![\w:.])(?:[{_HEX}]{{2}}:){{5}}[{_HEX}]{{2}}(?![\w:.])"
_IPV6 = (
    rf"(?<![\w:.-])(?:(?:[{_HEX}]{{1,4}}:){{7}}[{_HEX}]{{1,4}}"
    rf"|[{_HEX}]{{1,4}}(?::[{_HEX}]{{1,4}}){{0,6}}::[{_HEX}]{{1,4}}(?::[{_HEX}]{{1,4}}){{0,5}})(?![\w:.])"
)
_OCTET = r"(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_IPV4 = rf"(?<![\w.])(?:{_OCTET}\.){{3}}{_OCTET}(?![\w.])"
# Versions of four numbers look like addresses; the word before them distinguishes them.
_VERSION_BEFORE = re.compile(
    r"(?:version|firmware|bios|driver|release|(?<![a-z])smi)\W{0,40}$", re.IGNORECASE
)
_NO_ADDRESS = re.compile(r"0\.0\.0\.0|127\.|255\.")
_EXAMPLE_NETWORKS = ("192.0.2", "198.51.100", "203.0.113")  # reserved for documentation

_LONG = 10  # characters from which a value is also masked within a longer word
# Frequent names that identify no one.
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
    """Names of this node and its users."""

    hosts: tuple[str, ...] = ()
    users: tuple[str, ...] = ()


class Mask:
    def __init__(self, names: NodeNames | None = None) -> None:
        names = names or NodeNames()
        self._numbers: dict[str, dict[str, int]] = {}  # kind -> value -> its number
        self._serials: dict[str, str] = {}  # value in an output -> its mask
        self._hosts = _host_masks(names.hosts)
        users = dict.fromkeys(user.lower() for user in names.users if _is_identifying(user))
        self._users = {user: f"user{number}" for number, user in enumerate(users, 1)}
        self._pattern: re.Pattern[str] | None = None

    def learn(self, texts: Iterable[str]) -> None:
        """Collect the serial numbers of all outputs before the first is masked: an output may contain a
        number without the name that another output has beside it."""
        texts = list(texts)
        for text in texts:
            for value in serials_in(text):
                for form in (value.lower(), value.lower().removeprefix("0x")):
                    self._serials.setdefault(form, self._serial(form))
        for text in texts:
            for value in decimal_serials_in(text):
                hidden = self._serial(f"{int(value):x}")
                self._serials.setdefault(value, str(int(hidden, 16)))
        self._pattern = None

    def apply(self, source: str, text: str) -> str:
        text = without_command_lines(source, text)
        if source == "proc-mountinfo":
            text = container_mounts(text)
        return self.hide(text)

    def hide(self, text: str) -> str:
        """In one pass, so that a mask is never masked again."""
        if self._pattern is None:
            self._pattern = self._compiled()
        return self._pattern.sub(self._replacement, text)

    def _compiled(self) -> "re.Pattern[str]":
        kinds = {
            "uuid": _UUID,
            "serial": _any(self._serials),
            "hex": "|".join((_LONG_HEX, *(form for plan in plans() for form in plan.hex_ids))),
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
        numbers = self._numbers.setdefault(kind, {})
        return numbers.setdefault(value, len(numbers) + 1)

    def _uuid(self, found: str) -> str:
        digits = re.sub("[-_]", "", found).lower()
        if not digits.strip("0"):
            return found  # it is masked already
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
        """Same length, digits for digits: `1650123456789` becomes `1000000000001`. Prefix 0x and case do not
        matter."""
        bare = value.lower().removeprefix("0x")
        number = self._number("serial", bare)
        prefix = value[: len(value) - len(bare)]
        hexadecimal = re.fullmatch(r"[0-9a-f -]+", bare) is not None
        shape = [_blank(character, hexadecimal=hexadecimal) for character in bare]
        free = [place for place, character in enumerate(shape) if character in "0x"]
        for place, digit in zip(reversed(free), reversed(str(number)), strict=False):
            shape[place] = digit
        if free and shape[free[0]] == "0":
            shape[free[0]] = "1"  # JSON does not allow a number with a leading 0
        return prefix.lower() + "".join(shape)

    @staticmethod
    def _like(hidden: str, found: str) -> str:
        """In upper case if the value is."""
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
        if _is_identifying(short):
            masks.setdefault(short, shorts.setdefault(short, f"node{len(shorts) + 1}"))
        if domain:
            masks.setdefault(domain, domains.setdefault(domain, f"domain{len(domains) + 1}.invalid"))
            if short in masks:
                masks[host] = f"{masks[short]}.{masks[domain]}"
    return masks


def _is_identifying(name: str) -> bool:
    return len(name) >= _SHORTEST_NAME and name.lower() not in _COMMON_NAMES and not name.isdecimal()
