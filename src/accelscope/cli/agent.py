"""`accelscope agent`: the node agent."""

import argparse
import os

from accelscope.agent.settings import AgentSettings
from accelscope.cli.output import refuse
from accelscope.config import ConfigError, add_arguments, load

DESCRIPTION = """\
Read the accelerators of this node every few seconds and serve the readings: /metrics for Prometheus,
/snapshot as JSON, /healthz and /readyz for probes.

Each option is also an environment variable (--exporter-port is EXPORTER_PORT) and a key of the YAML file
given by --config-file (exporterPort). Options override environment variables, and these override the file."""


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = subparsers.add_parser(
        "agent",
        help="serve metrics of this node's accelerators for Prometheus",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_arguments(parser, AgentSettings)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from accelscope.agent import app  # noqa: PLC0415 - not needed for --help
    from accelscope.serve import ServeError  # noqa: PLC0415

    given = vars(arguments)
    try:
        loaded = load(AgentSettings, given, os.environ)
        return app.run(loaded, given, os.environ)
    except (ConfigError, ServeError) as error:
        return refuse("agent", error)
