"""Everything that must look random and stay the same: derived from the seed and a path of names.

A hash rather than a random generator: what one part of a node gets does not depend on how many others there
are, so that adding a device or a process leaves the rest as it was.
"""

from hashlib import sha256


def digest(seed: int, *path: object) -> bytes:
    return sha256("/".join(map(str, (seed, *path))).encode()).digest()


def fraction(seed: int, *path: object) -> float:
    """A number in [0, 1)."""
    return int.from_bytes(digest(seed, *path)[:7], "big") / (1 << 56)


def between(low: float, high: float, seed: int, *path: object) -> float:
    return low + (high - low) * fraction(seed, *path)


def whole(low: int, high: int, seed: int, *path: object) -> int:
    """A whole number from low to high, both included."""
    return low + int(fraction(seed, *path) * (high - low + 1))


def uuid(seed: int, *path: object) -> str:
    text = digest(seed, *path).hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:32]}"


def hex_id(seed: int, *path: object) -> str:
    """64 hexadecimal digits, as container ids have."""
    return digest(seed, *path).hex()
