"""How labels and numbers are written; both formats want the same."""

import math
from collections.abc import Iterable


def escape(value: str) -> str:
    """A label's value as both formats want it."""
    if "\\" in value or '"' in value or "\n" in value:
        return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return value


def label_text(pairs: Iterable[tuple[str, str]]) -> str:
    return ",".join(f'{name}="{escape(value)}"' for name, value in pairs)


def number_text(number: float) -> str:
    """The shortest text that reads back to the same number; whole numbers without a fraction."""
    if not math.isfinite(number):
        raise ValueError(f"{number} is no reading")
    whole = int(number)
    return str(whole) if whole == number and abs(number) < 2**63 else repr(number)


def decimal_text(number: float, decimals: int) -> str:
    """With so many digits after the point, as C's `%f` writes it."""
    if not math.isfinite(number):
        raise ValueError(f"{number} is no reading")
    return f"{number:.{decimals}f}"
