"""`accelscope compare`: another exporter's page beside the agent's page in its dialect."""

import argparse
import json
import re
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from accelscope.cli.connection import add_connection
from accelscope.cli.output import ArgumentsError, refuse
from accelscope.config import Decimal, Duration, argument
from accelscope.vendors import dialect_declarations

if TYPE_CHECKING:
    from accelscope.compare import KnownDialect, Page, Scrape, Source

_DIFFERENT = 1
_DURATION = argument(Duration(0.2, 3600))
_HOST_AND_PORT = re.compile(r"[^/]+:[0-9]+(/|$)")
_PERCENT = argument(Decimal(0.0, 100.0))

DESCRIPTION = """\
Compare the metrics page of another exporter (OLD) with the agent's page (NEW), to
check before you switch that dashboards and alerts find what they use: names, series,
labels and their values, types, and values with a tolerance for what moves.

  accelscope compare http://node1:9400 http://node1:9410    dcgm-exporter and the agent
  accelscope compare old.prom http://node1:9410             a saved page and the agent
  accelscope compare OLD NEW --interval 3m                  compare the rates of counters
  accelscope compare OLD NEW --ignore '*_VGPU_*' --ignore-label Hostname
                                                            accept known differences
  curl -s node1:9400/metrics | accelscope compare - http://node1:9410

OLD and NEW are URLs (without a path: /metrics), files, or - for standard input. Pages
may be in the text format or OpenMetrics, and compressed with gzip. Both must show the
same node at about the same time: values are compared only for devices that are on
both pages. Start the agent with the dialect of the other exporter (--dialect); which
one that is, is detected from OLD.

Series are matched by the labels that identify a device and its parts. Missing names
are printed with the reason and what to do. Values of counters are not compared: two
pages are never of the same moment. With --interval, their rates are. Further names
and labels of NEW, and help texts, are printed and not counted. Names of the exporter
itself (go_*, process_*, promhttp_*) are ignored.

Exit code: 0 nothing is missing or different, 1 the pages differ, 2 invalid option, or
a page cannot be read."""


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = subparsers.add_parser(
        "compare",
        usage="accelscope compare [-h] OLD NEW [options]",
        help="compare another exporter's page with the agent's page in its dialect",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("old", metavar="OLD", help="URL or file of the other exporter's page, or -")
    parser.add_argument("new", metavar="NEW", help="URL or file of the agent's page, or -")
    parser.add_argument(
        "--dialect",
        choices=tuple(dialect_declarations()),
        metavar="NAME",
        help=f"dialect of OLD, if it is not detected: {', '.join(dialect_declarations())}",
    )
    parser.add_argument(
        "--ignore",
        action="append",
        default=[],
        metavar="NAME",
        help="metric name or pattern to leave out, such as '*_nbr_*'; may be repeated",
    )
    parser.add_argument(
        "--ignore-label",
        action="append",
        default=[],
        metavar="LABEL",
        help="label to leave out, such as Hostname; may be repeated",
    )
    parser.add_argument(
        "--interval",
        type=_DURATION,
        metavar="DURATION",
        help="read both URLs twice with this time between, and compare the rates of counters; use several "
        "times the interval at which both programs collect (dcgm-exporter: 30s)",
    )
    parser.add_argument(
        "--tolerance",
        type=_PERCENT,
        metavar="PERCENT",
        help="of all values (default: by unit, such as 15 points for utilisation and 5%% for used memory)",
    )
    parser.add_argument(
        "--output", choices=("text", "json"), default="text", help="format of the result (default text)"
    )
    add_connection(
        parser,
        "Connections",
        _DURATION,
        token_flags=(
            ("--token-file", "client_token_file", "file with the bearer token for NEW"),
            ("--old-token-file", "old_token_file", "file with the bearer token for OLD"),
        ),
        timeout=10.0,
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from accelscope import compare as comparing  # noqa: PLC0415 - not needed for --help

    try:
        _check(arguments)
        old = _source(arguments, "OLD", arguments.old, arguments.old_token_file)
        new = _source(arguments, "NEW", arguments.new, arguments.client_token_file)
        if arguments.insecure:
            print("accelscope compare: warning: server certificates are not verified", file=sys.stderr)
        scrapes = _scrapes(old, new, arguments.interval)
    except (ArgumentsError, comparing.PageError) as error:
        return refuse("compare", error)
    found = comparing.compare(
        *scrapes,
        _dialect(arguments.dialect, scrapes[0].first),
        ignore=arguments.ignore,
        ignore_labels=arguments.ignore_label,
        tolerance=None if arguments.tolerance is None else arguments.tolerance / 100,
    )
    if arguments.output == "json":
        print(json.dumps(comparing.document(found), indent=2, allow_nan=False))
    else:
        written = comparing.text(found)
        # Replace characters that the terminal cannot show.
        encoding = sys.stdout.encoding or "utf-8"
        print(written.encode(encoding, "replace").decode(encoding))
    return _DIFFERENT if found.differs else 0


def _check(arguments: argparse.Namespace) -> None:
    if arguments.old == arguments.new == "-":
        raise ArgumentsError("only one of OLD and NEW can be standard input")
    if arguments.client_key and not arguments.client_certificate:
        raise ArgumentsError("--client-key requires --client-certificate")


def _dialect(name: str | None, old: "Page") -> "KnownDialect | None":
    from accelscope import compare as comparing  # noqa: PLC0415

    return comparing.detect(old) if name is None else comparing.known(name)


def _source(arguments: argparse.Namespace, side: str, text: str, token_file: str | None) -> "Source":
    from accelscope.compare import Source  # noqa: PLC0415
    from accelscope.kube.endpoint import EndpointError  # noqa: PLC0415
    from accelscope.top.sources.source import Credentials, endpoint_of  # noqa: PLC0415

    if not text:
        raise ArgumentsError(f"{side} is empty; name a URL, a file, or -")
    is_url = text.lower().startswith(("http://", "https://"))
    if not is_url and (text == "-" or Path(text).exists()):
        if token_file is not None:
            raise ArgumentsError(f"a token file for {side} requires a URL; {text} is none")
        return Source(text)
    if "@" in text:  # do not repeat a password
        raise ArgumentsError(
            f"{side} is no file, and a URL must not contain a user or password; use a token file or a "
            "certificate"
        )
    if not is_url and _HOST_AND_PORT.match(text) is None:
        raise ArgumentsError(f"{text}: no such file; a URL begins with http:// or https://")
    credentials = Credentials(
        token_file=token_file,
        ca_file=arguments.client_ca_file,
        client_certificate=arguments.client_certificate,
        client_key=arguments.client_key,
        insecure=arguments.insecure,
    )
    try:
        return Source(text, endpoint_of(text, credentials), arguments.timeout)
    except (EndpointError, ValueError) as error:
        raise ArgumentsError(str(error)) from None


def _scrapes(old: "Source", new: "Source", interval: float | None) -> "tuple[Scrape, Scrape]":
    from accelscope import compare as comparing  # noqa: PLC0415

    if interval is not None and (old.endpoint is None or new.endpoint is None):
        raise ArgumentsError("--interval requires URLs: a saved page does not change")
    begun = time.monotonic()
    first = [comparing.Scrape(page) for page in _read(old, new)]
    if interval is None:
        return first[0], first[1]
    time.sleep(interval)
    seconds = time.monotonic() - begun
    again = [
        replace(scrape, second=page, seconds=seconds)
        for scrape, page in zip(first, _read(old, new), strict=True)
    ]
    return again[0], again[1]


def _read(old: "Source", new: "Source") -> "tuple[Page, Page]":
    """Both at the same time, so that values are of the same moment. The error names each page that cannot be
    read."""
    from accelscope.compare import PageError  # noqa: PLC0415

    with ThreadPoolExecutor(2) as threads:
        reading = threads.submit(old.read), threads.submit(new.read)
    errors = [error for page in reading if isinstance(error := page.exception(), PageError)]
    if errors:
        raise PageError("; ".join(map(str, errors)))
    return reading[0].result(), reading[1].result()
