"""`accelscope files`: what is installed beside the program for clusters, dashboards and services."""

import argparse
import os
import shutil
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import NoReturn

import accelscope
from accelscope.cli.output import Refused, refuse

# Name -> where below the folder, and what it is.
FILES = {
    "chart": ("chart", "Helm chart of agent, device plugin and fleet, with dashboards and rules in it"),
    "dashboards": ("chart/dashboards", "dashboards for Grafana"),
    "examples": ("examples", "a pod that asks for an accelerator"),
    "manifests": ("manifests", "what the chart makes, for kubectl apply"),
    "rules": ("chart/rules", "recording rules and alerts for Prometheus"),
    "systemd": ("systemd", "unit of the agent, for machines without Kubernetes"),
}
_WIDTH = max(map(len, FILES))
_LISTING = "\n".join(f"  {name:<{_WIDTH}}  {meaning}" for name, (_, meaning) in FILES.items())
DESCRIPTION = f"""\
Tells where the files are that came with this version of the program, or copies them:

{_LISTING}

  accelscope files                        what there is
  accelscope files chart                  where it is: helm install accelscope "$(accelscope files chart)"
  accelscope files dashboards --to DIR    a copy to change or to keep

Exit code: 0 done, 2 they are not there or cannot be copied."""


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    parser = subparsers.add_parser(
        "files",
        help="say where chart, manifests, dashboards, rules and unit are, or copy them",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", nargs="?", choices=tuple(FILES), metavar="NAME", help="one of those above")
    parser.add_argument(
        "--to", type=Path, metavar="DIR", help="copy it there; a folder that does not exist yet"
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    try:
        _tell(arguments.name, arguments.to)
    except Refused as refusal:
        return refuse("files", refusal)
    return 0


def _tell(name: str | None, copy: Path | None) -> None:
    if name is None and copy is not None:
        raise Refused(f"--to needs a NAME: {', '.join(FILES)}")
    if name is None:
        print(_LISTING)
        return
    folder = installed_files()
    if folder is None:
        raise Refused("this installation has none, as in container images; a wheel and the sources have them")
    found = folder / FILES[name][0]
    if copy is None:
        print(found)
    elif copy.exists():
        raise Refused(f"{copy} is there already: name another folder with --to")
    else:
        _copy(found, copy)


def _copy(found: Path, copy: Path) -> None:
    """All of it or nothing."""
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
        except OSError as error:
            raise Refused(f"cannot write {place}: {error.strerror or error}") from None
        undo.pop_all()


def _fail(error: OSError) -> NoReturn:
    raise error


def _remove_if_empty(folder: Path) -> None:
    with suppress(OSError):
        folder.rmdir()


def installed_files() -> Path | None:
    """Beside the modules where they come from a wheel (setup.py puts them there), else in the repository."""
    package = Path(accelscope.__file__).resolve().parent
    return next((each for each in (package / "files", package.parents[1] / "deploy") if each.is_dir()), None)
