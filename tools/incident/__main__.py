"""`python -m tools.incident`: plays one round of the demo for two sets of rules at once, and prints what each
receiver of the example routing gets."""

import argparse
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tools.demo import Demo, Settings
from tools.demo.children import Children, answers
from tools.demo.prometheus import command as prometheus_command
from tools.demo.prometheus import configuration as prometheus_configuration
from tools.demo.prometheus import rule_files
from tools.demo.settings import free_port
from tools.demo.story import ROUND_SECONDS
from tools.demo.targets import Targets
from tools.incident import alertmanager
from tools.incident.receiver import Notification, Receiver

BEFORE = "a7c9553"  # version 0.1.0
_RULES = "deploy/chart/rules"
_SCRAPE_SECONDS = 5
_TARGETS_SECONDS = 5.0
_RANGE = re.compile(r"(\[)([0-9smh]+)(\])|(offset )([0-9smh]+)")
_AGE = re.compile(r"(time\(\) - [^<>]*[<>] )(\d+)")  # a limit for the age of an event
_COUNTED = ("pager", "tickets", "channel")


@dataclass(frozen=True, slots=True)
class Side:
    """A Prometheus with its rules, and its Alertmanager."""

    name: str
    rules: dict[str, str]  # name of the file -> text


def faster(rules: str, factor: int) -> str:
    """Rules whose `for`, time ranges and limits of ages are shorter. Ranges of days stay."""

    def shorter(match: re.Match[str]) -> str:
        duration = match[2] or match[5]
        return f"{match[1] or match[4]}{alertmanager.accelerated(duration, factor)}{match[3] or ''}"

    def younger(match: re.Match[str]) -> str:
        return f"{match[1]}{int(match[2]) // factor}"

    document = yaml.safe_load(_AGE.sub(younger, _RANGE.sub(shorter, rules)))
    for group in document["groups"]:
        for rule in group["rules"]:
            if "for" in rule:
                rule["for"] = alertmanager.accelerated(rule["for"], factor)
    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True)


def of_commit(commit: str) -> dict[str, str]:
    def shown(name: str) -> str:
        path = f"{commit}:{_RULES}/{name}"
        return subprocess.run(["git", "show", path], capture_output=True, text=True, check=True).stdout

    return {name: shown(name) for name in ("recording.yaml", "alerts.yaml")}


def start(side: Side, demo: Demo, children: Children, *, receiver: str, factor: int) -> None:
    """Starts Alertmanager and Prometheus."""
    own = demo.folder / side.name
    own.mkdir()
    manager_port, prometheus_port = free_port(None, []), free_port(None, [])
    routing = alertmanager.configuration(f"{receiver}/{side.name}", factor)
    (own / "alertmanager.yaml").write_text(yaml.safe_dump(routing))
    children.start(f"alertmanager {side.name}", *alertmanager.command(own, manager_port))
    for name, text in side.rules.items():
        (own / name).write_text(faster(text, factor))
    clusters = yaml.safe_load(demo.clusters_file.read_text())["clusters"]
    fleet_port = int(demo.page_url.rpartition(":")[2])
    document: dict[str, Any] = prometheus_configuration(
        demo.folder, clusters, fleet_port=fleet_port, interval_seconds=_SCRAPE_SECONDS
    )
    document["rule_files"] = [str(own / name) for name in side.rules]
    managers = [{"static_configs": [{"targets": [f"127.0.0.1:{manager_port}"]}]}]
    document["alerting"] = {"alertmanagers": managers}
    (own / "prometheus.yaml").write_text(yaml.safe_dump(document, sort_keys=False))
    child = children.start(f"prometheus {side.name}", *prometheus_command(own, prometheus_port))
    children.wait_for(child, lambda: answers(f"http://127.0.0.1:{prometheus_port}/-/ready"))


def play(sides: tuple[Side, ...], settings: Settings, factor: int, seconds: float) -> list[Notification]:
    with (
        tempfile.TemporaryDirectory(prefix="accelscope-incident-") as name,
        Receiver(0) as receiver,
        Demo(Path(name), settings, story=False, progress=say, events=say) as demo,
        Children(Path(name)) as children,
    ):
        targets = Targets(Path(name), yaml.safe_load(demo.clusters_file.read_text())["clusters"])
        targets.write()
        for side in sides:
            start(side, demo, children, receiver=receiver.url, factor=factor)
        time.sleep(4 * _SCRAPE_SECONDS)
        demo.begin_story()
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            demo.check()
            children.check()
            targets.write()
            time.sleep(_TARGETS_SECONDS)
        return list(receiver.received)


def say(text: str) -> None:
    print(f"  {text}", file=sys.stderr, flush=True)


# --- report -----------------------------------------------------------------------------------------------


def counts(side: str, received: list[Notification]) -> str:
    """One line per receiver."""
    lines = []
    for name in _COUNTED:
        of_receiver = [each for each in received if each.path == f"/{side}/{name}"]
        new = [each for each in of_receiver if each.firing]
        alerts = {tuple(sorted(a.labels.items())) for each in new for a in each.alerts if a.firing}
        lines.append(
            f"  {name:8} {len(new):4} notifications, {len(of_receiver) - len(new):3} about the end, "
            f"{len(alerts):4} different alerts"
        )
    return "\n".join(lines)


def kinds(side: str, received: list[Notification]) -> str:
    """Alerts by name."""
    alerts = {
        (alert.name, tuple(sorted(alert.labels.items())))
        for each in received
        if each.path.startswith(f"/{side}/")
        for alert in each.alerts
        if alert.firing
    }
    return "\n".join(f"  {count:4} {name}" for name, count in sorted(Counter(n for n, _ in alerts).items()))


def texts(side: str, received: list[Notification], *, whole: bool) -> str:
    """Each alert once, when it is first notified. `whole`: with the description."""
    known, lines = set(), []
    for each in received:
        if not each.path.startswith(f"/{side}/"):
            continue
        for alert in each.alerts:
            key = (each.path, tuple(sorted(alert.labels.items())))
            if not alert.firing or key in known:
                continue
            known.add(key)
            receiver = each.path.rpartition("/")[2]
            lines.append(f"  [{receiver}] {alert.name}: {alert.annotations['summary']}")
            if whole:
                lines += [f"      {line}" for line in alert.annotations["description"].splitlines()]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(prog="make incident", description=__doc__)
    parser.add_argument("--commit", default=BEFORE, help="commit with the rules to compare with")
    parser.add_argument("--nodes", type=int, default=24, help="simulated nodes in three clusters")
    parser.add_argument("--factor", type=int, default=10, help="how much shorter waiting times are")
    parser.add_argument("--seconds", type=float, default=ROUND_SECONDS, help="how long to watch")
    arguments = parser.parse_args()
    sides = (
        Side("before", of_commit(arguments.commit)),
        Side("after", {Path(name).name: Path(name).read_text() for name in rule_files()}),
    )
    settings = Settings(nodes=arguments.nodes, prometheus=False, port=0, agent_port=0)
    received = play(sides, settings, arguments.factor, arguments.seconds)
    print(
        f"One round of the demo ({arguments.seconds:g} s) with {arguments.nodes} nodes, scraped and "
        f"evaluated every {_SCRAPE_SECONDS} s.\n"
        f"Time is shortened by {arguments.factor}: `for`, ranges, offsets and ages of the rules, group_wait\n"
        "and group_interval of the routing. Not shortened: ranges of days, idle time (3600 s), and\n"
        "the incident itself. Both sets of rules read the same agents, those of the working tree.\n"
    )
    for side in sides:
        where = f"rules of {arguments.commit}" if side.name == "before" else "rules of the working tree"
        mine = [each for each in received if each.path.startswith(f"/{side.name}/")]
        whole = side.name == "after"
        print(f"{side.name}: {where}: {sum(each.firing for each in mine)} notifications")
        print(
            *(counts(side.name, received), kinds(side.name, received)),
            texts(side.name, received, whole=whole),
            sep="\n\n",
        )
        print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
