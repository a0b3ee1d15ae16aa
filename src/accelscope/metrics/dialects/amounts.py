"""From the model's base units to the units of other exporters, rounded as they print them."""

MIB = 2**20


def percent(ratio: float | None) -> int | None:
    """A whole percentage, as most drivers measure it."""
    return None if ratio is None else round(ratio * 100)


def fine_percent(ratio: float | None) -> float | None:
    """A percentage with its fraction, without the noise that multiplying by 100 brings in."""
    return None if ratio is None else round(ratio * 100, 6)


def mebibytes(size: float | None) -> int | None:
    """Whole mebibytes, what is beyond cut off: so do the drivers' libraries."""
    return None if size is None else int(size // MIB)


def megahertz(hertz: float | None) -> int | None:
    return None if hertz is None else round(hertz / 1e6)


def thousandths(value: float | None) -> int | None:
    """Joules as millijoules, celsius as thousandths of a degree, volts as millivolts ..."""
    return None if value is None else round(value * 1000)


def millionths(value: float | None) -> int | None:
    return None if value is None else round(value * 1_000_000)
