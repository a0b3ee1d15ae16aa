"""Other exporters' names beside the native ones, so that existing dashboards and alerts go on working.

Each dialect is a module with `dialect()`, loaded only where it is asked for. `docs/dialects.md` is made from
them. A new one is a line here and its module.
"""

from collections.abc import Sequence
from importlib import import_module

from accelscope.metrics.dialects.dialect import Dialect, DialectError

__all__ = ["HOSTNAME_LABELS", "NAMES", "Dialect", "DialectError", "conflict", "load"]

_MODULES = {
    "dcgm": "dcgm",
    "amd": "amd",
    "npu-exporter": "npu_exporter",
    "furiosa": "furiosa",
    "furiosa-2025": "furiosa_2025",
    "openshift": "openshift",
    "vgpu": "vgpu",
}
_SAME_NAMES = (("furiosa", "furiosa-2025"),)

NAMES: tuple[str, ...] = tuple(_MODULES)
HOSTNAME_LABELS = ("Hostname", "hostname")  # of dcgm-exporter up to 4.8.2, and from 4.8.3 on


def conflict(names: Sequence[str]) -> str | None:
    """Why these cannot be on one page together, if they cannot."""
    for one, other in _SAME_NAMES:
        if one in names and other in names:
            return f"{one} and {other} have the same names in different units: choose one"
    return None


def load(
    names: Sequence[str],
    *,
    amd_prefix: str = "",
    dcgm_counters: str | None = None,
    dcgm_hostname_label: str = HOSTNAME_LABELS[0],
) -> tuple[Dialect, ...]:
    """Raises DialectError where the counters file cannot be read or is malformed."""
    options: dict[str, dict[str, str | None]] = {
        "dcgm": {"counters_file": dcgm_counters, "hostname_label": dcgm_hostname_label},
        "openshift": {"hostname_label": dcgm_hostname_label},
    }
    loaded = []
    for name in names:
        module = import_module(f"{__name__}.{_MODULES[name]}")
        made: Dialect = module.dialect(**options.get(name, {}))
        loaded.append(made.prefixed(amd_prefix) if name == "amd" and amd_prefix else made)
    return tuple(loaded)
