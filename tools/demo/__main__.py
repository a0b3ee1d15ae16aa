"""`python -m tools.demo`: runs the demo until it is interrupted, and prints its addresses."""

import os
import signal
import sys
import time
from pathlib import Path
from types import FrameType
from typing import Any

from accelscope.simulate import CompileError
from tools.demo import BadSetting, ChildEnded, Demo, Settings
from tools.demo.folder import demo_folder

_ACCELSCOPE = Path(sys.executable).with_name("accelscope")
_CHECK_SECONDS = 0.5


def say(text: str) -> None:
    print(f"demo: {text}", flush=True)


def event(text: str) -> None:
    print(f"  {time.strftime('%H:%M:%S')}  {text}", flush=True)


def where_to_look(demo: Demo) -> str:
    alerts = demo.alerts_url or f"not here: {_why_no_prometheus(demo)}"
    accelscope = (
        _ACCELSCOPE.relative_to(Path.cwd()) if _ACCELSCOPE.is_relative_to(Path.cwd()) else _ACCELSCOPE
    )
    return f"""
  page        {demo.page_url}/
  idle pods   {demo.page_url}/idle
  API         {demo.page_url}/docs
  Prometheus  {alerts}
  one agent   {demo.agent_url}/metrics   {demo.agent_url}/snapshot

  in another terminal:
    {accelscope} top --fleet {demo.page_url}
    {accelscope} top {demo.agent_url}
    {accelscope} top --config-file {demo.lab.settings_file}
    curl -s '{demo.page_url}/api/v1/summary?group_by=cluster,model'
"""


def _why_no_prometheus(demo: Demo) -> str:
    return "it is not installed" if demo.settings.prometheus else "PROMETHEUS=no"


def summary(demo: Demo) -> str:
    total: Any = demo.ask("/api/v1/summary")["total"]
    vendors = len(demo.ask("/api/v1/summary?group_by=vendor")["groups"])
    nodes, devices = total["nodes"], total["devices"]
    return f"{len(demo.fleet.clusters)} clusters, {nodes} nodes, {devices} devices of {vendors} vendors"


def run(settings: Settings, folder: Path) -> None:
    began = time.monotonic()

    def progress(text: str) -> None:
        say(f"{time.monotonic() - began:4.1f} s  {text}")

    with Demo(folder, settings, story=False, progress=progress, events=event) as demo:
        progress(f"ready: {summary(demo)}")
        print(where_to_look(demo))
        end = f"for {settings.seconds:g} s" if settings.seconds else "until Ctrl-C"
        say(f"running {end}; what happens:")
        demo.begin_story()
        until = time.monotonic() + (settings.seconds or float("inf"))
        while time.monotonic() < until:
            demo.check()
            time.sleep(_CHECK_SECONDS)
        end_quietly()


def end_quietly() -> None:
    """Ignores further signals while the demo ends."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


class Interrupted(BaseException):
    """The demo received a signal to end."""


def interrupt(_number: int, _frame: FrameType | None) -> None:
    end_quietly()
    raise Interrupted


def main() -> int:
    try:
        settings = Settings.of(os.environ)
    except BadSetting as error:
        print(f"demo: {error}", file=sys.stderr)
        return 2
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupt)
    try:
        with demo_folder() as folder:
            run(settings, folder)
    except Interrupted:
        print("\ndemo: ended", flush=True)
    except (ChildEnded, CompileError) as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:  # whoever read what we say has gone; the rest was tidied up
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


if __name__ == "__main__":
    sys.exit(main())
