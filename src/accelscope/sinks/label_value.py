"""Texts of drivers and machines as values that Kubernetes takes for a label."""

import re

MOST_CHARACTERS = 63
_NOT_ALLOWED = re.compile(r"[^A-Za-z0-9._-]+")
_ENDS = "._-"  # allowed within, not at either end


def label_value(text: str) -> str | None:
    """`NVIDIA H100 80GB HBM3` as `NVIDIA-H100-80GB-HBM3`; None where nothing is left."""
    written = _NOT_ALLOWED.sub("-", text).lstrip(_ENDS)[:MOST_CHARACTERS].rstrip(_ENDS)
    return written or None
