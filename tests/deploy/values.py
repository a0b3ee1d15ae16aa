"""Values of the chart that many tests give."""

from typing import Any

VENDORS = ("nvidia", "amd", "ascend", "furiosa")  # each has an agent of its own
NO_AGENTS: dict[str, Any] = {vendor: {"enabled": False} for vendor in VENDORS}
