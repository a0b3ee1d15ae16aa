"""`accelscope top`: what accelerators do, and who does it, in a terminal."""

import argparse
import json
import logging
import os
import sys
import time
from typing import TYPE_CHECKING

from accelscope.agent.settings import AgentSettings
from accelscope.cli.ending import to_the_end
from accelscope.cli.extras import missing
from accelscope.cli.refusal import Refused, refuse
from accelscope.cli.top_options import NodeSettings, add_options
from accelscope.config import ConfigError, load
from accelscope.config.settings import settings_of

if TYPE_CHECKING:
    from accelscope.top.sources.source import Question, Source
    from accelscope.top.view.frame import Choices
    from accelscope.top.view.shown import View
    from accelscope.top.view.text import Glyphs

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
    from accelscope.top.sources.client import Credentials, endpoint_of  # noqa: PLC0415

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
    from accelscope.top.view.tree import Tree  # noqa: PLC0415

    return Choices(text=arguments.filter, tree=Tree[arguments.tree.upper()])


def _glyphs(arguments: argparse.Namespace) -> "Glyphs":
    from accelscope.top.terminal import glyphs_for  # noqa: PLC0415
    from accelscope.top.view.text import ASCII, UNICODE  # noqa: PLC0415

    if arguments.ascii or arguments.unicode:
        return ASCII if arguments.ascii else UNICODE
    return glyphs_for(os.environ)


def _once(arguments: argparse.Namespace, source: "Source", question: "Question") -> int:
    from accelscope.top import once  # noqa: PLC0415
    from accelscope.top.document import document  # noqa: PLC0415
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
    from accelscope.top.terminal import columns_of  # noqa: PLC0415
    from accelscope.top.view.history import History  # noqa: PLC0415
    from accelscope.top.view.table import Setting  # noqa: PLC0415

    width = arguments.width or columns_of(sys.stdout, os.environ, once.WIDE)
    history = History()
    history.note(view)
    setting = Setting(_glyphs(arguments), view.at, history)
    return once.page(view, _choices(arguments), setting, width)


def _screen(arguments: argparse.Namespace, source: "Source", question: "Question") -> int:
    from accelscope.top.terminal import is_colourless, is_dumb  # noqa: PLC0415

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
