"""The options of `accelscope top`: its own, and the agent's that say how a node is read."""

import argparse
from collections.abc import Mapping
from dataclasses import field, fields, make_dataclass
from typing import Any

from accelscope.agent.settings import AgentSettings
from accelscope.config import Duration, Setting, WholeNumber, add_arguments, argument

DESCRIPTION = """\
Shows what accelerators do and which pod, container or user does it: of this node,
of agents, or of a fleet. Keys are listed at the bottom and with ?.

  accelscope top                                    this node, read here
  accelscope top http://node1:9400 https://node2:9400
                                                    agents, through their /snapshot
  accelscope top --fleet http://localhost:8080      a fleet: clusters, nodes, devices
  accelscope top --once                             one table, as plain text
  accelscope top --json | jq .nodes[0].snapshot.devices[].utilization_ratio
  accelscope top --config-file DIR/agent.yaml       a node of accelscope simulate

This node is read by the agent's own readers, with the agent's options, environment
and file (see accelscope agent --help); no agent has to run. The screen needs the
extra top; --once and --json do not. Where accelscope is installed:

  pip install 'accelscope[top]'                     with pip
  pipx runpip accelscope install 'accelscope[top]'  with pipx

Exit code: 0 something was read, 1 nothing could be read, 2 an option is bad."""

_DURATION = argument(Duration(0.2, 3600))
_LIMIT = argument(WholeNumber(1, 1000))
_GROUPS = ("General", "Collection", "Attribution", "Kubernetes", "Paths")
_NOT_HERE = frozenset({"log_level", "log_format", "collection_interval"})


def _group(metadata: Mapping[str, Any]) -> str:
    """Of a field's setting, or of the settings that a field holds, which are in one group."""
    members: tuple[Setting, ...] = metadata.get("settings") or (metadata["setting"],)
    return members[0].group


# The agent's settings that say how a node is read; those about its server and its sinks say nothing here.
NodeSettings = make_dataclass(
    "NodeSettings",
    [
        (each.name, each.type, field(default_factory=each.default_factory, metadata=each.metadata))
        for each in fields(AgentSettings)
        if _group(each.metadata) in _GROUPS and each.name not in _NOT_HERE
    ],
)


def add_options(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> argparse.ArgumentParser:
    parser = subparsers.add_parser(
        "top",
        usage="accelscope top [-h] [URL ... | --fleet URL] [options] [the agent's options for this node]",
        help="show in the terminal what accelerators do, and who does it",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("urls", metavar="URL", nargs="*", help="agents; none: this node")
    parser.add_argument("--fleet", metavar="URL", help="a fleet's API, such as http://localhost:8080")
    parser.add_argument("--node", metavar="CLUSTER/NODE", help="with --fleet: begin with this node")
    parser.add_argument(
        "--limit", type=_LIMIT, metavar="N", help="with --fleet: nodes on a page (default 100)"
    )
    parser.add_argument("--once", action="store_true", help="print one table and end")
    parser.add_argument("--json", action="store_true", help="print one JSON document and end")
    parser.add_argument(
        "--interval",
        type=_DURATION,
        default=2.0,
        metavar="DURATION",
        help="between two readings, from 200ms (default 2s)",
    )
    parser.add_argument(
        "--filter",
        default="",
        metavar="TEXT",
        help="only what has these words in pod, user, name or namespace",
    )
    parser.add_argument(
        "--tree",
        choices=("flat", "pod", "device"),
        default="flat",
        help="how processes are grouped (default flat)",
    )
    _add_connection(parser)
    _add_looks(parser)
    add_arguments(parser, NodeSettings)
    return parser


def _add_connection(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("Agents and fleet")
    group.add_argument(
        "--token-file",
        dest="client_token_file",
        metavar="PATH",
        help="bearer token to show; re-read on change",
    )
    group.add_argument(
        "--ca-file",
        dest="client_ca_file",
        metavar="PATH",
        help="certificates that https servers are checked against; those that the system trusts if not given",
    )
    group.add_argument("--client-certificate", metavar="PATH", help="to show to servers that ask for one")
    group.add_argument("--client-key", metavar="PATH", help="its private key")
    group.add_argument(
        "--insecure-skip-tls-verify",
        dest="insecure",
        action="store_true",
        help="do not check certificates. Whoever answers gets the token. It is said on the screen.",
    )
    group.add_argument(
        "--timeout",
        type=_DURATION,
        default=5.0,
        metavar="DURATION",
        help="that an answer may take in all (default 5s)",
    )


def _add_looks(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("Looks")
    group.add_argument("--no-color", action="store_true", help="no colours; as NO_COLOR in the environment")
    letters = group.add_mutually_exclusive_group()
    letters.add_argument(
        "--ascii", action="store_true", help="draw with ASCII characters, whatever the locale says"
    )
    letters.add_argument(
        "--unicode", action="store_true", help="draw with lines and blocks, whatever the locale says"
    )
    group.add_argument(
        "--width",
        type=_LIMIT,
        metavar="COLUMNS",
        help="with --once: how wide; the terminal's, or wide in a pipe",
    )
