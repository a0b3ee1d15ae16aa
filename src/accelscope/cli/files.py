"""`accelscope files`: the chart, manifests, dashboards, rules and units that are installed with the
program."""

import argparse
import os
import re
import shutil
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import NoReturn

import accelscope
from accelscope.cli.output import ArgumentsError, refuse

# Name -> path below the folder, description.
FILES = {
    "chart": ("chart", "Helm chart of agent, device plugin and fleet, including dashboards and rules"),
    "dashboards": ("chart/dashboards", "Grafana dashboards"),
    "examples": ("examples", "a pod that requests an accelerator"),
    "manifests": ("manifests", "the rendered chart, for kubectl apply"),
    "rules": ("chart/rules", "Prometheus recording rules and alerts"),
    "systemd": ("systemd", "systemd unit of the agent, for machines without Kubernetes"),
}
_RUNBOOKS = re.compile(r"https?://[^#\s]+")  # as in the chart's schema
# An alert of the generated rules, up to its annotations.
_ALERT = re.compile(r"^  - alert: (\w+)\n(?:    .*\n)*?    annotations:\n", re.MULTILINE)
_WIDTH = max(map(len, FILES))
_LISTING = "\n".join(f"  {name:<{_WIDTH}}  {meaning}" for name, (_, meaning) in FILES.items())
DESCRIPTION = f"""\
Print the path of files that are installed with this version, or copy them:

{_LISTING}

  accelscope files                        list them
  accelscope files chart                  print the path: helm install accelscope "$(accelscope files chart)"
  accelscope files dashboards --to DIR    copy them
  accelscope files rules --to DIR --runbook-base-url https://wiki.example.org/accelscope/alerts
                                          copy them, with links to your copy of docs/alerts.md

Exit code: 0 done, 2 the files are not installed or cannot be copied."""


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = subparsers.add_parser(
        "files",
        help="locate or copy the chart, manifests, dashboards, rules and systemd unit",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", nargs="?", choices=tuple(FILES), metavar="NAME", help="one of those above")
    parser.add_argument("--to", type=Path, metavar="DIR", help="copy to this folder, which must not exist")
    parser.add_argument(
        "--runbook-base-url",
        metavar="URL",
        help="with rules and --to: URL of your copy of docs/alerts.md, for the runbook_url of each alert",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    try:
        _print_or_copy(arguments.name, arguments.to, runbooks=arguments.runbook_base_url)
    except ArgumentsError as refusal:
        return refuse("files", refusal)
    return 0


def _print_or_copy(name: str | None, copy: Path | None, *, runbooks: str | None) -> None:
    if runbooks is not None and (name != "rules" or copy is None):
        raise ArgumentsError("--runbook-base-url requires: rules --to DIR")
    if runbooks is not None and not _RUNBOOKS.fullmatch(runbooks):
        raise ArgumentsError(f"--runbook-base-url {runbooks}: expected an http or https URL without #")
    if name is None and copy is not None:
        raise ArgumentsError(f"--to requires a NAME: {', '.join(FILES)}")
    if name is None:
        print(_LISTING)
        return
    folder = installed_files()
    if folder is None:
        raise ArgumentsError(
            "this installation, such as a container image, has no files; use a wheel or the sources"
        )
    found = folder / FILES[name][0]
    if copy is None:
        print(found)
    elif copy.exists():
        raise ArgumentsError(f"{copy} already exists; choose another folder with --to")
    else:
        _copy(found, copy, partial(_linked, runbooks) if runbooks else None)


def _linked(runbooks: str, rules: str) -> str:
    """Rules with the annotation `runbook_url`, as the chart adds it."""

    def with_link(alert: re.Match[str]) -> str:
        return f"{alert[0]}      runbook_url: {runbooks}#{alert[1].lower()}\n"

    return _ALERT.sub(with_link, rules)


def _copy(found: Path, copy: Path, change: Callable[[str], str] | None) -> None:
    """All of it or nothing. `change`: of the text of each file."""
    place = copy
    with ExitStack() as undo:
        try:
            for folder in [each for each in (copy, *copy.parents) if not each.exists()][::-1]:
                folder.mkdir(exist_ok=folder is not copy)
                undo.callback(_remove_if_empty, folder)
            undo.callback(shutil.rmtree, copy, ignore_errors=True)
            for folder_name, _, names in os.walk(found, followlinks=True, onerror=_fail):
                folder = copy / Path(folder_name).relative_to(found)
                place = folder
                folder.mkdir(exist_ok=folder == copy)
                for name in names:
                    place = folder / name
                    shutil.copy2(Path(folder_name, name), place)
                    if change is not None:
                        place.write_text(change(place.read_text()))
        except OSError as error:
            raise ArgumentsError(f"cannot write {place}: {error.strerror or error}") from None
        undo.pop_all()


def _fail(error: OSError) -> NoReturn:
    raise error


def _remove_if_empty(folder: Path) -> None:
    with suppress(OSError):
        folder.rmdir()


def installed_files() -> Path | None:
    """Next to the modules if installed from a wheel (see setup.py), otherwise in the repository."""
    package = Path(accelscope.__file__).resolve().parent
    return next((each for each in (package / "files", package.parents[1] / "deploy") if each.is_dir()), None)
