"""`accelscope fleet`: many clusters behind one API."""

import argparse
import os
import sys

from accelscope.cli.output import missing, refuse
from accelscope.config import ConfigError, add_arguments, load
from accelscope.fleet.settings import FleetSettings

DESCRIPTION = """\
Reads the accelerators of many clusters and serves them as one: a REST API and a live stream.

Without a list it reads the cluster that kubectl would talk to. --clusters-file names a list:

    clusters:
      - id: berlin
        kubeconfig: {path: /etc/accelscope/kubeconfig, context: berlin}
      - id: paris
        server:
          url: https://paris.example:6443
          tokenFile: /etc/accelscope/paris.token
          caFile: /etc/accelscope/paris.crt

Every option is also an environment variable (--refresh-interval = REFRESH_INTERVAL) and a key of the YAML
file that --config-file names (refreshInterval).

    accelscope fleet token create NAME

makes a token for the API, and the lines for --tokens-file."""

_ABOUT_ENTRY = """\
# The token is shown this once. This is for --tokens-file, which keeps its hash only;
# where it has tokens already, add the entry to their list.
"""


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = subparsers.add_parser(
        "fleet",
        help="serve the accelerators of many clusters as one",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_arguments(parser, FleetSettings)
    parser.set_defaults(run=run)
    _add_token_parser(parser)


def _add_token_parser(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=False)
    token = commands.add_parser("token", help="make tokens for the API")
    token_commands = token.add_subparsers(title="commands", metavar="COMMAND", required=True)
    create = token_commands.add_parser(
        "create",
        help="print a new token, and the lines for --tokens-file",
        description="Prints a new token, which is kept nowhere, and the lines for --tokens-file, which hold "
        "its hash only.",
    )
    create.add_argument("name", metavar="NAME", help="whose token it is: letters, digits, - _ and .")
    create.add_argument(
        "--scope", choices=("read", "admin"), default="read", help="what it may do. Default: read."
    )
    create.add_argument(
        "--cluster",
        action="append",
        metavar="ID",
        help="a cluster that it may see; may be given several times. Default: all.",
    )
    create.add_argument("--expires", metavar="TIME", help="until when, such as 2027-01-01T00:00:00Z")
    create.set_defaults(run=create_token)


def run(arguments: argparse.Namespace) -> int:
    given = vars(arguments)
    try:
        loaded = load(FleetSettings, given, os.environ)
        if (lacking := missing("fleet")) is not None:
            return refuse("fleet", lacking)
        from accelscope.fleet import app  # noqa: PLC0415 - needs the extra

        return app.run(loaded, given, os.environ)
    except ConfigError as error:
        return refuse("fleet", error)


def create_token(arguments: argparse.Namespace) -> int:
    if (lacking := missing("fleet")) is not None:
        return refuse("fleet", lacking)
    from accelscope.fleet.api.access import Scope, make_token  # noqa: PLC0415 - needs the extra

    try:
        made = make_token(
            arguments.name,
            scopes=(Scope(arguments.scope),),
            clusters=arguments.cluster,
            expires=arguments.expires,
        )
    except ConfigError as error:
        return refuse("fleet", error)
    print(made.token)
    print(f"{_ABOUT_ENTRY}tokens:\n{made.entry}", end="", file=sys.stderr)  # with it, a whole file
    return 0
