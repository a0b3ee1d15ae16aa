"""`accelscope top`: what accelerators do, and who does it, in a terminal."""

import argparse
import json
import locale
import logging
import os
import sys
import time
from collections.abc import Mapping
from dataclasses import field, fields, make_dataclass
from typing import IO, TYPE_CHECKING, Any

from accelscope.agent.settings import AgentSettings
from accelscope.cli.output import Refused, missing, refuse, to_the_end
from accelscope.config import ConfigError, Duration, Setting, WholeNumber, add_arguments, argument, load
from accelscope.config.settings import settings_of
from accelscope.top.view.text import ASCII, UNICODE, Glyphs

if TYPE_CHECKING:
    from accelscope.top.sources.source import Question, Source
    from accelscope.top.view.frame import Choices
    from accelscope.top.view.shown import View
    from accelscope.top.view.text import Glyphs


# --- top options ------------------------------------------------------------
# The options of `accelscope top`: its own, and the agent's that say how a node is read.


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


_NOTHING = 1
_PAGE_SIZE = 100


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    add_options(subparsers).set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    try:
        _check(arguments)
        source, question = _source(arguments)
        # What it would say is on the screen.
        logger = logging.getLogger("accelscope")
        logger.addHandler(logging.NullHandler())
        logger.propagate = False
        show = _once if _looks_once(arguments) else _screen
        if _is_remote(arguments):
            return show(arguments, source, question)
        return to_the_end(lambda: (show(arguments, source, question), _hangs(source)))
    except (ConfigError, Refused) as error:
        return refuse("top", error)


def _is_remote(arguments: argparse.Namespace) -> bool:
    return bool(arguments.fleet or arguments.urls)


def _looks_once(arguments: argparse.Namespace) -> bool:
    return bool(arguments.json or arguments.once)


def _hangs(source: "Source") -> bool:
    """A call into one of this node's drivers."""
    return getattr(source, "abandoned_calls", 0) > 0


def _check(arguments: argparse.Namespace) -> None:
    if arguments.fleet and arguments.urls:
        raise Refused("--fleet and URLs of agents exclude each other: give one or the other")
    for flag, value in {"--node": arguments.node, "--limit": arguments.limit}.items():
        if value and not arguments.fleet:
            raise Refused(f"{flag} needs --fleet")
    if arguments.once and arguments.json:
        raise Refused("--once and --json exclude each other")
    given = {
        "--token-file": arguments.client_token_file,
        "--ca-file": arguments.client_ca_file,
        "--client-certificate": arguments.client_certificate,
        "--insecure-skip-tls-verify": arguments.insecure,
    }
    for flag, value in given.items():
        if value and not _is_remote(arguments):
            raise Refused(f"{flag} is for agents and fleets: give a URL, or --fleet")
    if arguments.client_key and not arguments.client_certificate:
        raise Refused("--client-key needs --client-certificate")


def _source(arguments: argparse.Namespace) -> "tuple[Source, Question]":
    from accelscope.top.sources.source import Question  # noqa: PLC0415 - --help needs none of it

    if not _is_remote(arguments):
        from accelscope.top.sources.local import LocalSource  # noqa: PLC0415

        names = {declared.name for declared in settings_of(NodeSettings)}
        given = {name: value for name, value in vars(arguments).items() if name in names}
        settings = load(AgentSettings, given, os.environ).settings
        local = LocalSource(settings, os.environ, keep_documents=arguments.json, once=_looks_once(arguments))
        return local, Question()
    from accelscope.kube.endpoint import EndpointError  # noqa: PLC0415
    from accelscope.top.sources.source import Credentials, endpoint_of  # noqa: PLC0415

    credentials = Credentials(
        token_file=arguments.client_token_file,
        ca_file=arguments.client_ca_file,
        client_certificate=arguments.client_certificate,
        client_key=arguments.client_key,
        insecure=arguments.insecure,
    )
    try:
        endpoints = [endpoint_of(url, credentials) for url in arguments.urls or [arguments.fleet]]
    except (EndpointError, ValueError) as error:
        raise Refused(str(error)) from None
    if arguments.insecure:
        print("accelscope top: certificates are NOT checked: whoever answers is believed", file=sys.stderr)
    if arguments.fleet:
        from accelscope.top.sources.fleet import FleetSource  # noqa: PLC0415

        page_size = arguments.limit or _PAGE_SIZE
        fleet = FleetSource(endpoints[0], timeout_seconds=arguments.timeout, page_size=page_size)
        return fleet, Question(
            node=_node(arguments.node), text=arguments.filter if not arguments.node else ""
        )
    from accelscope.top.sources.agents import MOST_AGENTS, AgentsSource  # noqa: PLC0415

    if len(endpoints) > MOST_AGENTS:
        raise Refused(f"{len(endpoints)} agents are more than {MOST_AGENTS}: that is for accelscope fleet")
    if len({endpoint.url for endpoint in endpoints}) < len(endpoints):
        raise Refused("an agent's URL is given twice")
    return AgentsSource(endpoints, timeout_seconds=arguments.timeout), Question()


def _node(text: str | None) -> tuple[str, str] | None:
    if text is None:
        return None
    cluster, slash, node = text.partition("/")
    if not (cluster and slash and node):
        raise Refused(f"--node {text}: not CLUSTER/NODE")
    return cluster, node


def _choices(arguments: argparse.Namespace) -> "Choices":
    from accelscope.top.view.frame import Choices  # noqa: PLC0415
    from accelscope.top.view.processes import Tree  # noqa: PLC0415

    return Choices(text=arguments.filter, tree=Tree[arguments.tree.upper()])


def _glyphs(arguments: argparse.Namespace) -> "Glyphs":
    from accelscope.top.view.text import ASCII, UNICODE  # noqa: PLC0415

    if arguments.ascii or arguments.unicode:
        return ASCII if arguments.ascii else UNICODE
    return glyphs_for(os.environ)


def _once(arguments: argparse.Namespace, source: "Source", question: "Question") -> int:
    from accelscope.top import once  # noqa: PLC0415
    from accelscope.top.once import document  # noqa: PLC0415
    from accelscope.top.sources.source import look  # noqa: PLC0415
    from accelscope.top.view.text import clean  # noqa: PLC0415

    source.start()
    try:
        source.settle()
        view = look(source, question)
    finally:
        source.stop()
    if arguments.json:
        print(json.dumps(document(view), indent=2))
        for error in [view.error, *(f"{node.source}: {node.error}" for node in view.nodes if node.error)]:
            if error:
                print(f"accelscope top: {clean(error)}", file=sys.stderr)
    else:
        print(_page(arguments, view), end="")
    return 0 if once.was_read(view) else _NOTHING


def _page(arguments: argparse.Namespace, view: "View") -> str:
    from accelscope.top import once  # noqa: PLC0415
    from accelscope.top.view.history import History  # noqa: PLC0415
    from accelscope.top.view.table import Setting  # noqa: PLC0415

    width = arguments.width or columns_of(sys.stdout, os.environ, once.WIDE)
    history = History()
    history.note(view)
    setting = Setting(_glyphs(arguments), view.at, history)
    return once.page(view, _choices(arguments), setting, width)


def _screen(arguments: argparse.Namespace, source: "Source", question: "Question") -> int:

    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise Refused("this is no terminal: give --once or --json")
    if is_dumb(os.environ):
        return _repeated(arguments, source, question)
    if (lacking := missing("top")) is not None:
        raise Refused(f"{lacking}, or give --once")
    if arguments.no_color or is_colourless(os.environ):
        os.environ["NO_COLOR"] = "1"  # which Textual asks for
    from accelscope.top.screen.app import TopApp  # noqa: PLC0415 - needs the extra

    app = TopApp(
        source,
        question,
        _choices(arguments),
        glyphs=_glyphs(arguments),
        interval_seconds=arguments.interval,
        insecure=arguments.insecure,
    )
    app.run()
    return app.return_code or 0


def _repeated(arguments: argparse.Namespace, source: "Source", question: "Question") -> int:
    """A terminal whose cursor cannot be placed gets one table after the other."""
    from accelscope.top.sources.source import look  # noqa: PLC0415

    source.start()
    source.hurry(arguments.interval)
    try:
        source.settle()
        while True:
            print(_page(arguments, look(source, question)), flush=True)
            time.sleep(arguments.interval)
    except KeyboardInterrupt:
        return 130
    finally:
        source.stop()


# --- terminal ------------------------------------------------------------
# What the terminal can show, as far as its environment tells.


# Terminals without colours, only bold and reverse: nothing that is shown is told by colour alone.
_COLOURLESS = ("dumb", "vt52", "vt100", "vt102", "vt220", "vt320", "ansi-m", "xterm-mono", "unknown")


def glyphs_for(environ: Mapping[str, str]) -> Glyphs:
    """UTF-8 only where the locale says so. Python itself puts LC_CTYPE=C.UTF-8 into the environment where
    it finds a locale of C or none: that is not what the terminal says."""
    told = environ.get("LC_ALL") or environ.get("LC_CTYPE") or environ.get("LANG") or "C"
    if told == "C.UTF-8" and not environ.get("LC_ALL") and environ.get("LANG", "C") in ("", "C", "POSIX"):
        return ASCII
    if told in ("C", "POSIX"):
        return ASCII
    name = told.partition("@")[0].partition(".")[2] or locale.getencoding()
    return UNICODE if name.lower().replace("-", "") == "utf8" else ASCII


def is_colourless(environ: Mapping[str, str]) -> bool:
    return bool(environ.get("NO_COLOR")) or environ.get("TERM", "dumb") in _COLOURLESS


def is_dumb(environ: Mapping[str, str]) -> bool:
    """Whether its cursor cannot be placed."""
    return environ.get("TERM", "") in ("", "dumb", "unknown")


def columns_of(output: IO[str], environ: Mapping[str, str], wide: int) -> int:
    """How wide a table may be: COLUMNS, the terminal's own, or wide for a pipe."""
    told = environ.get("COLUMNS", "")
    if told.isdecimal() and int(told) > 0:
        return int(told)
    try:
        return os.get_terminal_size(output.fileno()).columns or wide
    except (OSError, ValueError):
        return wide
