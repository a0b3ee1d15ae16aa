"""`accelscope agent`: the node agent."""

import argparse
import os

from accelscope.agent.settings import AgentSettings
from accelscope.cli.output import refuse
from accelscope.config import ConfigError, add_arguments, load

DESCRIPTION = """\
Reads this node's accelerators every few seconds and serves what it found: /metrics for Prometheus,
/snapshot as JSON, /healthz and /readyz for probes.

Every option is also an environment variable (--exporter-port = EXPORTER_PORT) and a key of the YAML file that
--config-file names (exporterPort). An option on the command line goes before the environment, and that
before the file."""


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = subparsers.add_parser(
        "agent",
        help="read this node's accelerators and serve Prometheus",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_arguments(parser, AgentSettings)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from accelscope.agent import app  # noqa: PLC0415 - --help needs none of it
    from accelscope.serve import ServeError  # noqa: PLC0415

    given = vars(arguments)
    try:
        loaded = load(AgentSettings, given, os.environ)
        return app.run(loaded, given, os.environ)
    except (ConfigError, ServeError) as error:
        return refuse("agent", error)
