"""`accelscope fleet`: one API for many clusters."""

import argparse
import os
import sys

from accelscope.cli.output import missing, refuse
from accelscope.config import ConfigError, add_arguments, load
from accelscope.fleet.settings import FleetSettings

DESCRIPTION = """\
Read the accelerators of many clusters and serve them through a web page, a REST API and a live stream.

Without a list, it reads the current cluster of kubectl. --clusters-file is a list of clusters:

    clusters:
      - id: berlin
        kubeconfig: {path: /etc/accelscope/kubeconfig, context: berlin}
      - id: paris
        server:
          url: https://paris.example:6443
          tokenFile: /etc/accelscope/paris.token
          caFile: /etc/accelscope/paris.crt

Each option is also an environment variable (--refresh-interval is REFRESH_INTERVAL) and a key of the YAML
file given by --config-file (refreshInterval).

To create a token for the API, with its entry for --tokens-file:

    accelscope fleet token create NAME"""

_ABOUT_ENTRY = """\
# The token is printed only once. Add this entry, which contains its hash, to --tokens-file.
"""


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = subparsers.add_parser(
        "fleet",
        help="serve the accelerators of many clusters through one API",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_arguments(parser, FleetSettings)
    parser.set_defaults(run=run)
    _add_token_parser(parser)


def _add_token_parser(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=False)
    token = commands.add_parser("token", help="create tokens for the API")
    token_commands = token.add_subparsers(title="commands", metavar="COMMAND", required=True)
    create = token_commands.add_parser(
        "create",
        help="print a new token and its entry for --tokens-file",
        description="Print a new token, which is not stored, and its entry for --tokens-file, which contains "
        "only its hash.",
    )
    create.add_argument("name", metavar="NAME", help="name of the token: letters, digits, - _ and .")
    create.add_argument(
        "--scope", choices=("read", "admin"), default="read", help="permissions of the token (default read)"
    )
    create.add_argument(
        "--cluster",
        action="append",
        metavar="ID",
        help="restrict the token to this cluster; can be repeated (default: all clusters)",
    )
    create.add_argument("--expires", metavar="TIME", help="expiry time, such as 2027-01-01T00:00:00Z")
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
    from accelscope.fleet.api.access import AccessScope, make_token  # noqa: PLC0415 - needs the extra

    try:
        made = make_token(
            arguments.name,
            scopes=(AccessScope(arguments.scope),),
            clusters=arguments.cluster,
            expires=arguments.expires,
        )
    except ConfigError as error:
        return refuse("fleet", error)
    print(made.token)
    print(f"{_ABOUT_ENTRY}tokens:\n{made.entry}", end="", file=sys.stderr)
    return 0
