"""`accelscope doctor`: what was looked for on this node, what was found, and what to do."""

import argparse
import json
import os
import sys

from accelscope.agent.settings import AgentSettings
from accelscope.cli.output import refuse, to_the_end
from accelscope.config import ConfigError, Loaded, add_arguments, load

DESCRIPTION = """\
Looks at this node as the agent would, and says what was found, what is missing
and what to do about it. Give it the agent's options, environment and file, so
that it looks at what the agent would use; in Kubernetes, run it in the agent's
own container:

  kubectl exec -n NAMESPACE POD -- accelscope doctor

Exit code: 0 all is fine (notes included: a node without a driver is no fault),
1 there are warnings, 2 there are errors or a setting is bad."""


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = subparsers.add_parser(
        "doctor",
        usage="accelscope doctor [-h] [--json] [the agent's options]",
        help="say what was looked for on this node, what was found, and what to do",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--json", action="store_true", help="print a JSON document instead of text")
    add_arguments(parser, AgentSettings)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    try:
        loaded = load(AgentSettings, arguments, os.environ)
    except ConfigError as error:
        return refuse("doctor", error)
    return to_the_end(lambda: _examine(loaded, as_json=arguments.json))


def _examine(loaded: Loaded[AgentSettings], *, as_json: bool) -> tuple[int, bool]:
    """The exit code, and whether something hangs."""
    from accelscope import doctor  # noqa: PLC0415 - --help and bad settings need none of it

    subject = doctor.Subject(loaded=loaded, environ=os.environ)
    report = doctor.examine(subject, doctor.areas_for(loaded.settings))
    if as_json:
        print(json.dumps(doctor.document(report), indent=2))
    else:
        written = doctor.text(report)
        # A terminal that cannot show a driver's word must not keep the rest from being read.
        encoding = sys.stdout.encoding or "utf-8"
        print(written.encode(encoding, "replace").decode(encoding))
    return report.exit_code, report.hung
