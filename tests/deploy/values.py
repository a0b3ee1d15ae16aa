"""Values of the chart that several tests use."""

from typing import Any

from accelscope.vendors import declarations

VENDORS = tuple(declarations())  # each has an agent of its own
NO_AGENTS: dict[str, Any] = {vendor: {"enabled": False} for vendor in VENDORS}
