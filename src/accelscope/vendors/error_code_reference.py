"""The reference page of error codes, docs/error-codes.md."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from importlib import import_module
from itertools import groupby
from urllib.parse import urlsplit

from accelscope.vendors import declarations
from accelscope.vendors.common import pcie_errors
from accelscope.vendors.common.error_codes import ErrorCode

_HEAD = """\
# Error codes

<!-- Made from src/accelscope/vendors/*/error_codes.py by `make docs`. Do not edit. -->

What the error codes of the vendors mean, how severe they are, and what to do first. Each row is from the
public document in its last column, in our own words. The same facts are in the errors of a device in the
[fleet API](fleet-api.md#deviceerror), on the device's page of the fleet, and in `accelscope doctor`.

- **Severity**: *critical* and *warning* decide the device's health. *Info* does not: an application's error,
  for example, does not make a GPU unhealthy.
- **Cause**: the usual one; empty if the vendor states none.
- **Lasts until**: what ends a lasting error. Empty: it is over when it has happened; a warning is then shown
  for ten minutes.
- A code that is not listed is a warning, because nothing is known about it.
"""
_TABLE = """
| code | meaning | severity | cause | lasts until | what to do | source |
|---|---|---|---|---|---|---|
"""
_UNTIL = {
    "reset": "reset",
    "driver_reload": "reload of the driver",
    "reboot": "reboot",
    "replacement": "replacement",
    None: "",
}
_PCIE = """
## PCIe

Errors that Linux counts for each PCIe device (AER), in its kernel log and in files such as
`/sys/bus/pci/devices/*/aer_dev_fatal`. `accelscope doctor` shows them; the agent does not read them.
"""


def reference() -> str:
    parts = [_HEAD]
    for vendor in declarations().values():
        if vendor.error_codes:
            module = import_module(f"{vendor.package}.{vendor.error_codes}")
            parts.append(f"\n## {vendor.title}\n{_table(module.documented())}")
    parts += [_PCIE, _table(pcie_errors.documented())]
    return "".join(parts)


def _table(entries: Iterable[ErrorCode]) -> str:
    """Entries that differ in nothing but the code share a row."""
    groups: dict[ErrorCode, list[str]] = {}
    for entry in entries:
        groups.setdefault(replace(entry, code=""), []).append(entry.code)
    return _TABLE + "".join(_row(entry, codes) for entry, codes in groups.items())


def _row(entry: ErrorCode, codes: Sequence[str]) -> str:
    link = f"[{urlsplit(entry.source).hostname}]({entry.source})"
    cells = (
        _listed(codes),
        entry.meaning,
        entry.severity,
        entry.origin or "",
        _UNTIL[entry.until],
        entry.action,
        link,
    )
    return "| " + " | ".join(cells) + " |\n"


def _listed(codes: Sequence[str]) -> str:
    """Numbers that follow each other as a range."""
    if not all(code.isdecimal() for code in codes):
        return ", ".join(f"`{code}`" for code in codes)
    return ", ".join(_spans(sorted(map(int, codes))))


def _spans(numbers: Sequence[int]) -> Iterator[str]:
    for _, pairs in groupby(enumerate(numbers), lambda pair: pair[1] - pair[0]):
        span = [number for _, number in pairs]
        if len(span) > 2:
            yield f"`{span[0]}` to `{span[-1]}`"
        else:
            yield from (f"`{number}`" for number in span)
