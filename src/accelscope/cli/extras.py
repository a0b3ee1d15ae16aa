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
            return f"{module} is not installed; install the extra where accelscope is: {_ways(extra)}"
    return None


def _ways(extra: str) -> str:
    """Into the environment that runs accelscope, which with pipx is not the user's."""
    wanted = f"'accelscope[{extra}]'"
    return f"pip install {wanted} (with pipx: pipx runpip accelscope install {wanted})"


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # the package that it is in
        return False
