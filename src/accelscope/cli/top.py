"""`accelscope top`: accelerators and their processes in a terminal."""

import argparse
import json
import locale
import logging
import os
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import field, fields, make_dataclass
from typing import IO, TYPE_CHECKING, Any

from accelscope.agent.settings import GROUPS_FOR_READING, AgentSettings
from accelscope.cli.connection import add_connection
from accelscope.cli.output import ArgumentsError, missing, refuse, to_the_end
from accelscope.config import ConfigError, Duration, Setting, WholeNumber, add_arguments, argument, load
from accelscope.config.settings import settings_of
from accelscope.top.view.frame import Choices, Pane, alerts, header, panes
from accelscope.top.view.model import History, NodeView, View, ViewKind
from accelscope.top.view.table import Line, RenderContext, Span, Tone, place, plain, row_line, title_line
from accelscope.top.view.text import ASCII, UNICODE, Glyphs, clean, cut

if TYPE_CHECKING:
    from accelscope.top.sources.source import Query, ViewSource


# --- one page -------------------------------------------------------------
# One view as plain text or JSON, for pipes and scripts.


WIDE = 240  # columns if the width of the output is unknown


def page(view: View, choices: Choices, context: RenderContext, width: int) -> str:
    return "".join(f"{line}\n" for line in _lines(view, choices, context, width))


def _lines(view: View, choices: Choices, context: RenderContext, width: int) -> Iterable[str]:
    found = alerts(view, context)
    yield from map(plain, header(view, found, context, width, ""))
    for alert in found:
        yield cut(f"{context.glyphs.alert} {clean(alert.text, context.glyphs)}", width, context.glyphs)
    for pane in panes(view, choices, context):
        yield ""
        yield from map(plain, table(pane, context, width))


def table(pane: Pane[Any], context: RenderContext, width: int) -> list[Line]:
    rows = pane.rows
    if not rows and not pane.entries:
        return [[Span(pane.empty, Tone.DIM)]]
    columns = [column for column in pane.columns if column.name != "trend"]  # needs several readings
    placed = place(columns, rows, width, context)
    lines = [title_line(placed, context, None)] if rows else []
    for entry in pane.entries:
        if entry.row is not None:
            lines.append(row_line(placed, entry.row, context))
        elif entry.heading is not None:
            lines.append(entry.heading)
    return lines


def was_read(view: View) -> bool:
    """Whether anything could be read."""
    if view.error is not None:
        return False
    return view.overview is not None or any(node.read and node.error is None for node in view.nodes)


SCHEMA = "1.0"  # major.minor: a new key increments the minor version, a changed meaning the major version


def document(view: View) -> dict[str, Any]:
    """For --json. The documents of agents and fleets are included unchanged."""
    made: dict[str, Any] = {"schema": SCHEMA, "kind": view.kind.value, "at": view.at}
    if view.kind is ViewKind.FLEET:
        made |= {"source": view.title, "error": view.error}
        if view.overview is not None:
            return made | dict(view.overview.documents)
        return made | {"nodes": [_node_document(node, "node") for node in view.nodes]}
    return made | {"nodes": [_node_document(node, "snapshot") for node in view.nodes]}


def _node_document(node: NodeView, key: str) -> dict[str, Any]:
    return {"source": node.source, "error": node.error, "age_seconds": node.age_seconds, key: node.document}


# --- command --------------------------------------------------------------


DESCRIPTION = """\
Show accelerators and the pods, containers and users that use them: of this node,
of agents, or of a fleet. Press ? for help.

  accelscope top                                    this node
  accelscope top http://node1:9400 https://node2:9400
                                                    agents
  accelscope top --fleet http://localhost:8080      a fleet: clusters, nodes, devices
  accelscope top --once                             print the tables once
  accelscope top --json | jq .nodes[0].snapshot.devices[].utilization_ratio
  accelscope top --config-file DIR/agent.yaml       a node of accelscope simulate

This node is read without an agent, with the agent's options, environment variables
and configuration file (see accelscope agent --help). The interactive screen requires
the extra "top"; --once and --json do not. To install it:

  pip install 'accelscope[top]'                     with pip
  pipx runpip accelscope install 'accelscope[top]'  with pipx

Exit code: 0 data was read, 1 no data could be read, 2 invalid option."""

_DURATION = argument(Duration(0.2, 3600))
_LIMIT = argument(WholeNumber(1, 1000))
_EXCLUDED = frozenset({"log_level", "log_format", "collection_interval"})


def _group(metadata: Mapping[str, Any]) -> str:
    """The group of the setting, or of the settings in a mapping, which are all in one group."""
    members: tuple[Setting, ...] = metadata.get("settings") or (metadata["setting"],)
    return members[0].group


# The agent's settings for reading a node, without those of its server and sinks.
NodeSettings = make_dataclass(
    "NodeSettings",
    [
        (each.name, each.type, field(default_factory=each.default_factory, metadata=each.metadata))
        for each in fields(AgentSettings)
        if _group(each.metadata) in GROUPS_FOR_READING and each.name not in _EXCLUDED
    ],
)


def add_options(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> argparse.ArgumentParser:
    parser = subparsers.add_parser(
        "top",
        usage="accelscope top [-h] [URL ... | --fleet URL] [options] [agent options]",
        help="show accelerators and their processes in the terminal",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("urls", metavar="URL", nargs="*", help="URLs of agents (default: this node)")
    parser.add_argument("--fleet", metavar="URL", help="URL of a fleet, such as http://localhost:8080")
    parser.add_argument("--node", metavar="CLUSTER/NODE", help="with --fleet: start with this node")
    parser.add_argument(
        "--limit", type=_LIMIT, metavar="N", help="with --fleet: nodes per page (default 100)"
    )
    parser.add_argument("--once", action="store_true", help="print the tables once and exit")
    parser.add_argument("--json", action="store_true", help="print one JSON document and exit")
    parser.add_argument(
        "--interval",
        type=_DURATION,
        default=2.0,
        metavar="DURATION",
        help="time between two readings, at least 200ms (default 2s)",
    )
    parser.add_argument(
        "--filter",
        default="",
        metavar="TEXT",
        help="show only rows that contain these words in pod, namespace, user or name",
    )
    parser.add_argument(
        "--tree",
        choices=("flat", "pod", "device"),
        default="flat",
        help="grouping of processes (default flat)",
    )
    add_connection(
        parser,
        "Agents and fleet",
        _DURATION,
        token_flags=(
            (
                "--token-file",
                "client_token_file",
                "file with the bearer token; reloaded when it changes",
            ),
        ),
        timeout=5.0,
    )
    _add_looks(parser)
    add_arguments(
        parser,
        NodeSettings,
        listed_by="accelscope agent",
        which="that choose what is read and how it is attributed to pods",
    )
    return parser


def _add_looks(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("Display")
    group.add_argument("--no-color", action="store_true", help="no colours, like NO_COLOR in the environment")
    letters = group.add_mutually_exclusive_group()
    letters.add_argument(
        "--ascii", action="store_true", help="use only ASCII characters, whatever the locale"
    )
    letters.add_argument("--unicode", action="store_true", help="use Unicode characters, whatever the locale")
    group.add_argument(
        "--width",
        type=_LIMIT,
        metavar="COLUMNS",
        help="with --once: width of the tables (default: width of the terminal)",
    )


_NOTHING = 1
_PAGE_SIZE = 100


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    add_options(subparsers).set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    try:
        _check(arguments)
        source, query = _source(arguments)
        # Log messages would disturb the screen, which shows all problems.
        logger = logging.getLogger("accelscope")
        logger.addHandler(logging.NullHandler())
        logger.propagate = False
        show = _once if _looks_once(arguments) else _screen
        if _is_remote(arguments):
            return show(arguments, source, query)
        return to_the_end(lambda: (show(arguments, source, query), _hangs(source)))
    except (ConfigError, ArgumentsError) as error:
        return refuse("top", error)


def _is_remote(arguments: argparse.Namespace) -> bool:
    return bool(arguments.fleet or arguments.urls)


def _looks_once(arguments: argparse.Namespace) -> bool:
    return bool(arguments.json or arguments.once)


def _hangs(source: "ViewSource") -> bool:
    """Whether a call into a driver has not returned."""
    return getattr(source, "abandoned_calls", 0) > 0


def _check(arguments: argparse.Namespace) -> None:
    if arguments.fleet and arguments.urls:
        raise ArgumentsError("--fleet and URLs of agents cannot be combined")
    for flag, value in {"--node": arguments.node, "--limit": arguments.limit}.items():
        if value and not arguments.fleet:
            raise ArgumentsError(f"{flag} requires --fleet")
    if arguments.once and arguments.json:
        raise ArgumentsError("--once and --json cannot be combined")
    given = {
        "--token-file": arguments.client_token_file,
        "--ca-file": arguments.client_ca_file,
        "--client-certificate": arguments.client_certificate,
        "--insecure-skip-tls-verify": arguments.insecure,
    }
    for flag, value in given.items():
        if value and not _is_remote(arguments):
            raise ArgumentsError(f"{flag} requires URLs of agents, or --fleet")
    if arguments.client_key and not arguments.client_certificate:
        raise ArgumentsError("--client-key requires --client-certificate")


def _source(arguments: argparse.Namespace) -> "tuple[ViewSource, Query]":
    from accelscope.top.sources.source import Query  # noqa: PLC0415 - not needed for --help

    if not _is_remote(arguments):
        from accelscope.top.sources.local import LocalSource  # noqa: PLC0415

        names = {declared.name for declared in settings_of(NodeSettings)}
        given = {name: value for name, value in vars(arguments).items() if name in names}
        settings = load(AgentSettings, given, os.environ).settings
        local = LocalSource(settings, os.environ, keep_documents=arguments.json, once=_looks_once(arguments))
        return local, Query()
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
        raise ArgumentsError(str(error)) from None
    if arguments.insecure:
        print("accelscope top: warning: server certificates are not verified", file=sys.stderr)
    if arguments.fleet:
        from accelscope.top.sources.fleet import FleetSource  # noqa: PLC0415

        page_size = arguments.limit or _PAGE_SIZE
        fleet = FleetSource(endpoints[0], timeout_seconds=arguments.timeout, page_size=page_size)
        return fleet, Query(node=_node(arguments.node), text=arguments.filter if not arguments.node else "")
    from accelscope.top.sources.agents import AGENTS_LIMIT, AgentsSource  # noqa: PLC0415

    if len(endpoints) > AGENTS_LIMIT:
        raise ArgumentsError(
            f"too many agents: {len(endpoints)}, at most {AGENTS_LIMIT}; use accelscope fleet"
        )
    if len({endpoint.url for endpoint in endpoints}) < len(endpoints):
        raise ArgumentsError("duplicate URL of an agent")
    return AgentsSource(endpoints, timeout_seconds=arguments.timeout), Query()


def _node(text: str | None) -> tuple[str, str] | None:
    if text is None:
        return None
    cluster, slash, node = text.partition("/")
    if not (cluster and slash and node):
        raise ArgumentsError(f"--node {text}: expected CLUSTER/NODE")
    return cluster, node


def _choices(arguments: argparse.Namespace) -> "Choices":
    from accelscope.top.view.frame import Choices  # noqa: PLC0415
    from accelscope.top.view.processes import Tree  # noqa: PLC0415

    return Choices(text=arguments.filter, tree=Tree[arguments.tree.upper()])


def _glyphs(arguments: argparse.Namespace) -> "Glyphs":
    if arguments.ascii or arguments.unicode:
        return ASCII if arguments.ascii else UNICODE
    return glyphs_for(os.environ)


def _once(arguments: argparse.Namespace, source: "ViewSource", query: "Query") -> int:
    from accelscope.top.sources.source import read_view  # noqa: PLC0415

    source.start()
    try:
        source.settle()
        view = read_view(source, query)
    finally:
        source.stop()
    if arguments.json:
        print(json.dumps(document(view), indent=2))
        for error in [view.error, *(f"{node.source}: {node.error}" for node in view.nodes if node.error)]:
            if error:
                print(f"accelscope top: {clean(error)}", file=sys.stderr)
    else:
        print(_page(arguments, view), end="")
    return 0 if was_read(view) else _NOTHING


def _page(arguments: argparse.Namespace, view: "View") -> str:
    width = arguments.width or columns_of(sys.stdout, os.environ, WIDE)
    history = History()
    history.note(view)
    context = RenderContext(_glyphs(arguments), view.at, history)
    return page(view, _choices(arguments), context, width)


def _screen(arguments: argparse.Namespace, source: "ViewSource", query: "Query") -> int:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise ArgumentsError("the output is not a terminal; use --once or --json")
    if is_dumb(os.environ):
        return _repeated(arguments, source, query)
    if (lacking := missing("top")) is not None:
        raise ArgumentsError(f"{lacking}, or use --once")
    if arguments.no_color or is_colourless(os.environ):
        os.environ["NO_COLOR"] = "1"  # for Textual
    from accelscope.top.screen.app import TopApp  # noqa: PLC0415 - needs the extra

    app = TopApp(
        source,
        query,
        _choices(arguments),
        glyphs=_glyphs(arguments),
        interval_seconds=arguments.interval,
        insecure=arguments.insecure,
    )
    app.run()
    return app.return_code or 0


def _repeated(arguments: argparse.Namespace, source: "ViewSource", query: "Query") -> int:
    """Print the tables again and again, for terminals without cursor movement."""
    from accelscope.top.sources.source import read_view  # noqa: PLC0415

    source.start()
    source.hurry(arguments.interval)
    try:
        source.settle()
        while True:
            print(_page(arguments, read_view(source, query)), flush=True)
            time.sleep(arguments.interval)
    except KeyboardInterrupt:
        return 130
    finally:
        source.stop()


# --- capabilities of the terminal

_COLOURLESS = ("dumb", "vt52", "vt100", "vt102", "vt220", "vt320", "ansi-m", "xterm-mono", "unknown")


def glyphs_for(environ: Mapping[str, str]) -> Glyphs:
    """Unicode if the locale is UTF-8. Python sets LC_CTYPE=C.UTF-8 if the locale is C or missing, which says
    nothing about the terminal."""
    charset = environ.get("LC_ALL") or environ.get("LC_CTYPE") or environ.get("LANG") or "C"
    if charset == "C.UTF-8" and not environ.get("LC_ALL") and environ.get("LANG", "C") in ("", "C", "POSIX"):
        return ASCII
    if charset in ("C", "POSIX"):
        return ASCII
    name = charset.partition("@")[0].partition(".")[2] or locale.getencoding()
    return UNICODE if name.lower().replace("-", "") == "utf8" else ASCII


def is_colourless(environ: Mapping[str, str]) -> bool:
    return bool(environ.get("NO_COLOR")) or environ.get("TERM", "dumb") in _COLOURLESS


def is_dumb(environ: Mapping[str, str]) -> bool:
    """Whether the cursor cannot be moved."""
    return environ.get("TERM", "") in ("", "dumb", "unknown")


def columns_of(output: IO[str], environ: Mapping[str, str], wide: int) -> int:
    """COLUMNS, the width of the terminal, or `wide` for a pipe."""
    columns = environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns) > 0:
        return int(columns)
    try:
        return os.get_terminal_size(output.fileno()).columns or wide
    except (OSError, ValueError):
        return wide
