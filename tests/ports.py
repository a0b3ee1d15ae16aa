"""Ports for programs that do not tell which one they took."""

import random
import socket

# Not among those that kernels give to who asks for any, nor among Kubernetes' own for services.
_PORTS = range(20_000, 30_000)


def free_port() -> int:
    """One that was free a moment ago, and that nobody gets by chance."""
    for port in random.SystemRandom().sample(_PORTS, len(_PORTS)):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
    raise AssertionError(f"no port of {_PORTS} is free")
