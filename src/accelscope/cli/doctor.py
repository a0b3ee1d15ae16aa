"""`accelscope doctor`: checks a node and explains problems."""

import argparse
import json
import os
import sys

from accelscope.agent.settings import AgentSettings
from accelscope.cli.output import refuse, to_the_end
from accelscope.config import ConfigError, LoadedSettings, add_arguments, load

DESCRIPTION = """\
Check this node with the settings of the agent, and print what was found, what is
missing and how to fix it. Use the same options, environment variables and
configuration file as the agent. In Kubernetes, run it in the container of the agent:

  kubectl exec -n NAMESPACE POD -- accelscope doctor

--cross-check also runs the vendors' own tools and compares each value that they print
with the reader's value of the same moment. The reader is read before and after the
tool, and does not use the tool itself. One line per tool if all values agree. For each
value that differs: device, field, both values, tolerance, a possible explanation and
what to do. Values that only one side has are counted (--json).

Exit code: 0 no problems (a node without a driver is not one), 1 warnings, 2 errors or
an invalid setting."""


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = subparsers.add_parser(
        "doctor",
        usage="accelscope doctor [-h] [--json] [--cross-check] [agent options]",
        help="check this node and explain problems",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--json", action="store_true", help="print a JSON document instead of text")
    parser.add_argument(
        "--cross-check",
        action="store_true",
        help="compare the values of the readers with those that the vendors' tools print",
    )
    add_arguments(parser, AgentSettings, listed_by="accelscope agent")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    try:
        loaded = load(AgentSettings, arguments, os.environ)
    except ConfigError as error:
        return refuse("doctor", error)
    return to_the_end(lambda: _examine(loaded, as_json=arguments.json, cross_check=arguments.cross_check))


def _examine(loaded: LoadedSettings[AgentSettings], *, as_json: bool, cross_check: bool) -> tuple[int, bool]:
    """The exit code, and whether a call hangs."""
    from accelscope import doctor  # noqa: PLC0415 - not needed for --help and invalid settings

    subject = doctor.Subject(loaded=loaded, environ=os.environ)
    report = doctor.examine(subject, doctor.areas_for(loaded.settings, cross_check=cross_check))
    if as_json:
        print(json.dumps(doctor.document(report), indent=2))
    else:
        written = doctor.text(report)
        # Replace characters that the terminal cannot show.
        encoding = sys.stdout.encoding or "utf-8"
        print(written.encode(encoding, "replace").decode(encoding))
    return report.exit_code, report.hung
