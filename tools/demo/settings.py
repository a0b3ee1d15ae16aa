"""Settings of the demo, from environment variables."""

import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from accelscope.simulate import DescriptionError, load_node

HOST = "127.0.0.1"
_PREFERRED = {"PORT": 8080, "AGENT_PORT": 9400, "PROMETHEUS_PORT": 9090}
_MOST_NODES = 10_000


class BadSetting(ValueError):
    """An invalid value; the message names the variable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    node: str = "nvidia-shared"  # that the real agent runs on: a ready-made one or a YAML file
    nodes: int = 48  # simulated ones, in all clusters
    seconds: float | None = None  # None: until it is interrupted
    prometheus: bool = True  # where it is installed
    scrape_seconds: int = 15  # between two scrapes, and looks at the rules
    # None: the usual one where it is free, else any; 0: any
    port: int | None = None  # of the page
    agent_port: int | None = None
    prometheus_port: int | None = None

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> Self:
        """Raises BadSetting."""
        usual = cls()
        node = environ.get("NODE") or usual.node
        try:
            load_node(node)
        except DescriptionError as error:
            raise BadSetting(f"NODE={node}: {error}") from None
        return cls(
            node=node,
            nodes=_whole(environ, "NODES", 1, _MOST_NODES) or usual.nodes,
            seconds=_seconds(environ),
            prometheus=environ.get("PROMETHEUS") != "no",
            port=_port(environ, "PORT"),
            agent_port=_port(environ, "AGENT_PORT"),
            prometheus_port=_port(environ, "PROMETHEUS_PORT"),
        )

    def ports(self) -> tuple[int, int, int]:
        """Of page, agent and Prometheus: all different, and free a moment ago."""
        taken: list[int] = []
        chosen = (self.port, self.agent_port, self.prometheus_port)
        for given, usual in zip(chosen, _PREFERRED.values(), strict=True):
            taken.append(given or free_port(usual if given is None else None, taken))
        return taken[0], taken[1], taken[2]


def free_port(preferred: int | None, taken: list[int]) -> int:
    """The preferred port if it is free, else any."""
    if preferred is not None and preferred not in taken and is_free(preferred):
        return preferred
    while True:
        with socket.socket() as probe:
            probe.bind((HOST, 0))
            port = int(probe.getsockname()[1])
        if port not in taken:
            return port


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # what has just ended does not count
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def _whole(environ: Mapping[str, str], name: str, least: int, most: int) -> int | None:
    text = environ.get(name)
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and least <= int(text) <= most):
        raise BadSetting(f"{name}={text}: expected a whole number from {least} to {most}")
    return int(text)


def _port(environ: Mapping[str, str], name: str) -> int | None:
    port = _whole(environ, name, 0, 65_535)
    if port and not is_free(port):
        raise BadSetting(f"{name}={port}: somebody else listens there")
    return port


def _seconds(environ: Mapping[str, str]) -> float | None:
    text = environ.get("DEMO_SECONDS")
    if not text:
        return None
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < 1e9:
        raise BadSetting(f"DEMO_SECONDS={text}: expected a number of seconds")
    return seconds or None
