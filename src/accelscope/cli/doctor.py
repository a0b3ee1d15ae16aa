"""`accelscope doctor`: what was looked for on this node, what was found, and what to do."""

import argparse
import json
import os
import sys
from typing import NoReturn

from accelscope.agent.settings import AgentSettings
from accelscope.cli.refusal import refuse
from accelscope.config import ConfigError, add_arguments, load

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
    from accelscope import doctor  # noqa: PLC0415 - --help and bad settings need none of it

    try:
        loaded = load(AgentSettings, arguments, os.environ)
    except ConfigError as error:
        return refuse("doctor", error)
    subject = doctor.Subject(loaded=loaded, environ=os.environ)
    report = doctor.examine(subject, doctor.areas_for(loaded.settings))
    if arguments.json:
        print(json.dumps(doctor.document(report), indent=2))
    else:
        written = doctor.text(report)
        # A terminal that cannot show a driver's word must not keep the rest from being read.
        encoding = sys.stdout.encoding or "utf-8"
        print(written.encode(encoding, "replace").decode(encoding))
    if report.hung:
        sys.stdout.flush()
        _end_at_once(report.exit_code)
    return report.exit_code


def _end_at_once(code: int) -> NoReturn:
    """A thread inside a driver call would keep the interpreter from ending."""
    from accelscope.readers.tool import end_running_tools, start_no_more_tools  # noqa: PLC0415 - as above

    start_no_more_tools()
    end_running_tools()
    os._exit(code)
