"""What the bare install lacks, and how to get it."""

from importlib.util import find_spec

# Extra -> the modules that its commands import, of every package that it asks for.
EXTRAS = {
    "device-plugin": ("grpc", "google.protobuf"),
    "fleet": ("aiohttp", "msgspec", "numpy"),
    "top": ("textual",),
}


def missing(extra: str) -> str | None:
    """One line on what is not installed and what to do; None where all of it is there."""
    for module in EXTRAS[extra]:
        if not _is_installed(module):
            return f"{module} is not installed; install the extra: pip install 'accelscope[{extra}]'"
    return None


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # the package that it is in
        return False
