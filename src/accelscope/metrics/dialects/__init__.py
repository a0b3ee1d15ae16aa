"""Other exporters' names beside the native ones, so that existing dashboards and alerts go on working.

The vendors declare their dialects; each is loaded only where it is chosen. `docs/dialects.md` is made from
them.
"""

from collections.abc import Mapping, Sequence

from accelscope.metrics.dialects.dialect import Dialect, DialectError
from accelscope.vendors import dialect_declarations
from accelscope.vendors.declaration import VendorSetting

__all__ = ["NAMES", "OPTIONS", "Dialect", "DialectError", "conflict", "load", "option_without_dialect"]

NAMES: tuple[str, ...] = tuple(dialect_declarations())
OPTIONS: tuple[VendorSetting, ...] = tuple(
    sorted(
        (option for declared in dialect_declarations().values() for option in declared.options),
        key=lambda option: option.name,
    )
)


def conflict(names: Sequence[str]) -> str | None:
    """Why these cannot be on one page together, if they cannot."""
    for one, declared in dialect_declarations().items():
        for other in declared.same_names:
            if one in names and other in names:
                return f"{one} and {other} have the same names in different units: choose one"
    return None


def option_without_dialect(
    names: Sequence[str], options: Mapping[str, str]
) -> tuple[VendorSetting, str] | None:
    """A file that is given in vain, and the dialect that would read it."""
    for name, declared in dialect_declarations().items():
        for option in declared.options:
            if option.watched and option.of(options) and name not in names:
                return option, name
    return None


def load(names: Sequence[str], **options: str) -> tuple[Dialect, ...]:
    """Raises DialectError where a file that an option names cannot be read or is malformed."""
    return tuple(dialect_declarations()[name].load()(options) for name in names)
