"""`accelscope discover`: node labels that describe the accelerators of a node."""

import argparse
import json
import logging
import os
import socket
import sys
from collections.abc import Mapping
from pathlib import Path

from accelscope.agent.settings import AgentSettings
from accelscope.cli.output import refuse, to_the_end
from accelscope.config import ConfigError, LoadedSettings, add_arguments, load
from accelscope.model import Snapshot

_FAILED = 1
DESCRIPTION = """\
Read the accelerators of this node once and print node labels that describe them:
number, product, family, memory, versions of driver and firmware, and the machine.
Nothing is written without --apply. The agent keeps the same labels up to date with
--feature-labels.

  accelscope discover                                print the labels
  accelscope discover --apply                        write them to the Node object
  accelscope discover --apply --feature-labels nfd   write a feature file for
                                                     Node Feature Discovery

--apply removes outdated labels that the agent or an earlier --apply has written
with the same --readers. In a pod, set --node-name (NODE_NAME, from the field
spec.nodeName); elsewhere, set --kube-api-url and --kube-token-file too. Writing to
the Node requires the right to patch nodes; a feature file requires none.

Exit code: 0 done (a node without accelerators has no labels), 1 a driver cannot be
read, and nothing is written, or the labels cannot be written, 2 invalid setting."""


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = subparsers.add_parser(
        "discover",
        usage="accelscope discover [-h] [--output {labels,json,nfd}] [--apply] [agent options]",
        help="print or write node labels that describe this node's accelerators",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--output",
        choices=("labels", "json", "nfd"),
        default="labels",
        help="format: one label per line, a JSON document, or a feature file (default labels)",
    )
    parser.add_argument(
        "--apply",
        action="store_true",
        help="write the labels to the Node object, or to a feature file with --feature-labels nfd",
    )
    add_arguments(parser, AgentSettings, listed_by="accelscope agent")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    try:
        loaded = load(AgentSettings, arguments, os.environ)
        writer = _Writer(loaded) if arguments.apply else None
    except ConfigError as error:
        return refuse("discover", error)
    return to_the_end(lambda: _discover(loaded.settings, arguments.output, writer))


def _discover(settings: AgentSettings, form: str, writer: "_Writer | None") -> tuple[int, bool]:
    """The exit code, and whether a call into a driver hangs."""
    from accelscope.agent.assembly import features  # noqa: PLC0415
    from accelscope.agent.collector import read_once  # noqa: PLC0415 - --help and bad settings need none of it

    logging.getLogger("accelscope").addHandler(logging.NullHandler())  # problems are printed below
    node = settings.node_name or socket.gethostname()
    snapshot = read_once(settings, node)
    labels = features(settings)(snapshot)
    print(_written(form, node, labels), end="")
    unread = _unread(snapshot)
    for line in (*unread, *_unfinished(snapshot)):
        print(f"accelscope discover: {line}", file=sys.stderr)
    code = _FAILED if unread else 0
    if writer is not None and not unread:
        code = writer.write(labels)
    return code, any(reader.abandoned_calls for reader in snapshot.readers)


class _Writer:
    """Created before the node is read, so that invalid settings are reported first. Raises ConfigError."""

    def __init__(self, loaded: LoadedSettings[AgentSettings]) -> None:
        from accelscope.agent.assembly import attribution_options, writer_of  # noqa: PLC0415
        from accelscope.kube.client import Client  # noqa: PLC0415

        settings = loaded.settings
        self._writer = writer_of(settings)
        self._node = settings.node_name or socket.gethostname()
        self._folder = Path(settings.feature_file_folder) if settings.feature_labels == "nfd" else None
        self._client: Client | None = None
        if self._folder is None:
            api_server = attribution_options(settings, self._node, os.environ).api_server
            if api_server is None:
                raise ConfigError("--apply: not in a cluster; set --kube-api-url, or --feature-labels nfd")
            self._client = Client(api_server)

    def write(self, labels: Mapping[str, str]) -> int:
        """The exit code."""
        from accelscope.kube.endpoint import KubeError  # noqa: PLC0415
        from accelscope.sinks.labels import apply_labels, write_file  # noqa: PLC0415
        from accelscope.sinks.sink import SinkError  # noqa: PLC0415

        try:
            if self._folder is not None:
                write_file(
                    self._folder, labels, writer=self._writer
                )  # does not expire, because nothing renews it
            elif self._client is not None:
                apply_labels(self._client, self._node, labels, writer=self._writer)
        except (KubeError, SinkError) as error:
            print(f"accelscope discover: {error.reason}: {error}", file=sys.stderr)
            return _FAILED
        finally:
            if self._client is not None:
                self._client.close()
        return 0


def _unread(snapshot: Snapshot) -> list[str]:
    """One line per driver that was found and cannot be read."""
    return [
        f"{reader.vendor}: {reader.reason or 'no device answers'}"
        for reader in snapshot.readers
        if reader.found and not reader.up
    ]


def _unfinished(snapshot: Snapshot) -> list[str]:
    """One line per driver whose tools timed out."""
    return [
        f"{reader.vendor}: a tool timed out, so labels may be missing; increase --reader-timeout"
        for reader in snapshot.readers
        if reader.up and any(counted.reason == "tool_timeout" for counted in reader.errors)
    ]


def _written(form: str, node: str, labels: Mapping[str, str]) -> str:
    from accelscope.sinks.labels import file_text, label_lines  # noqa: PLC0415

    if form == "json":
        return json.dumps({"node": node, "labels": labels}, indent=2) + "\n"
    return file_text(labels) if form == "nfd" else label_lines(labels)
