"""The example configuration with a real Alertmanager: it notifies the right receiver once for each node and
cause, and silences what another alert already covers."""

import json
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.ports import free_port
from tests.waiting import wait_until
from tools.incident.alertmanager import EXAMPLE, command, configuration, program
from tools.incident.receiver import Notification, Receiver
from tools.monitoring.rules.document import ALERTS

NODE = {"cluster": "berlin", "node": "node-1"}
VENDOR = {**NODE, "vendor": "nvidia"}
FACTOR = 30  # group_wait is 1 or 2 seconds
KNOWN = {alert.name: alert for alert in ALERTS}


def alert(name: str, **labels: str) -> dict[str, str]:
    """An alert of these rules with its severity, or one of others."""
    own = {"severity": KNOWN[name].severity.value, **dict(KNOWN[name].labels)} if name in KNOWN else {}
    return {"alertname": name, **own, **labels}


LOST = alert("AcceleratorLost", **VENDOR, cause="lost")
CRITICAL = alert("AcceleratorUnhealthy", **VENDOR, cause="xid_48")
HOT = alert("AcceleratorDegraded", **VENDOR, cause="hot")
ERROR = alert("AcceleratorErrorReported", **VENDOR, cause="xid_31")
DEAF = alert("AcceleratorNotAnswering", **VENDOR, cause="timeout")
IDLE = alert("AcceleratorIdleAllocation", cluster="berlin", namespace="research", pod="train-0")
AGENT = alert("AccelScopeAgentDown", **NODE, job="accelscope")
READER = alert("AccelScopeReaderFailing", **VENDOR)
NODE_DOWN = alert("KubeNodeNotReady", **NODE, severity="warning")


class Alertmanager:
    """A new one for each test, since it remembers alerts."""

    def __init__(self, folder: Path, url: str) -> None:
        if program() is None:
            pytest.skip("Alertmanager is not installed (make e2e installs it)")
        (folder / "alertmanager.yaml").write_text(yaml.safe_dump(configuration(url, FACTOR)))
        port = free_port()
        self._url = f"http://127.0.0.1:{port}/api/v2/alerts"
        self.process = subprocess.Popen(command(folder, port), stderr=subprocess.DEVNULL)
        wait_until(self._is_ready, "Alertmanager answers")

    def _is_ready(self) -> bool:
        try:
            self.alerts()
        except OSError:
            return False
        return True

    def send(self, *alerts: Mapping[str, str]) -> None:
        texts = {"summary": "s", "description": "d"}
        body = json.dumps([{"labels": labels, "annotations": texts} for labels in alerts]).encode()
        request = urllib.request.Request(self._url, body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=30):
            pass

    def alerts(self) -> list[Any]:
        with urllib.request.urlopen(self._url, timeout=30) as answer:
            return list(json.load(answer))

    def silenced(self) -> set[tuple[str, str]]:
        """Name and node of inhibited alerts."""
        return {
            (each["labels"]["alertname"], each["labels"].get("node", ""))
            for each in self.alerts()
            if each["status"]["inhibitedBy"]
        }


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver(0) as running:
        yield running


@pytest.fixture
def manager(tmp_path: Path, receiver: Receiver) -> Iterator[Alertmanager]:
    running = Alertmanager(tmp_path, receiver.url)
    yield running
    running.process.terminate()
    running.process.wait()


def names(notification: Notification) -> list[str]:
    return sorted(each.name for each in notification.alerts)


def test_amtool_accepts_the_example() -> None:
    if shutil.which("amtool") is None:
        pytest.skip("amtool is not installed (make e2e installs it)")
    done = subprocess.run(
        ["amtool", "check-config", str(EXAMPLE)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", KNOWN)
def test_severity_decides_the_receiver(name: str) -> None:
    if shutil.which("amtool") is None:
        pytest.skip("amtool is not installed (make e2e installs it)")
    words = ["amtool", "config", "routes", "test", f"--config.file={EXAMPLE}"]
    words += [f"{label}={value}" for label, value in alert(name, **VENDOR).items()]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    wanted = {"critical": "pager", "warning": "tickets", "info": "channel"}
    assert done.stdout.strip() == wanted[KNOWN[name].severity.value]


@pytest.mark.parametrize(
    ("sources", "silenced"),
    [
        # A node that is down silences all that is about it, and nothing about others.
        ([NODE_DOWN], {LOST["alertname"], "AcceleratorDegraded", "AcceleratorErrorReported",
                       "AcceleratorNotAnswering", "AcceleratorUnhealthy", "AccelScopeAgentDown",
                       "AccelScopeReaderFailing"}),
        # An agent that is down silences warnings of its devices, and no page.
        ([], {"AcceleratorDegraded", "AcceleratorErrorReported", "AcceleratorNotAnswering",
              "AccelScopeReaderFailing"}),
    ],
    ids=["a node that is down", "an agent that is down"],
)  # fmt: skip
def test_what_is_down_silences_its_devices(
    manager: Alertmanager, sources: list[dict[str, str]], silenced: set[str]
) -> None:
    own = [LOST, CRITICAL, HOT, ERROR, DEAF, READER, AGENT]
    elsewhere = [{**each, "node": "node-2"} for each in (LOST, HOT, ERROR)]
    other_cluster = [{**HOT, "cluster": "oslo"}]
    manager.send(*sources, *own, *other_cluster, IDLE)
    wait_until(lambda: len(manager.alerts()) == len(sources) + 9, "all are known")
    wait_until(lambda: manager.silenced() == {(name, "node-1") for name in silenced}, "those are silenced")
    manager.send(*elsewhere)
    wait_until(
        lambda: manager.silenced() >= {("AcceleratorDegraded", "node-2")}, "the lost device silences there"
    )


@pytest.mark.parametrize(
    ("source", "target", "is_silenced"),
    [
        (LOST, HOT, True),
        (LOST, ERROR, True),
        (LOST, DEAF, True),
        (LOST, CRITICAL, False),
        (LOST, {**HOT, "node": "node-2"}, False),
        (LOST, {**HOT, "vendor": "amd"}, False),
        (LOST, IDLE, False),
        (CRITICAL, {**HOT, "cause": "xid_48"}, True),
        (CRITICAL, HOT, False),
        (READER, DEAF, True),
        (READER, {**DEAF, "vendor": "amd"}, False),
        (READER, LOST, False),
        (HOT, LOST, False),
        (alert("AccelScopeAgentDown", cluster="berlin", job="j", instance="i"), IDLE, False),
    ],
)
def test_an_alert_silences_what_it_covers(
    manager: Alertmanager, source: dict[str, str], target: dict[str, str], is_silenced: bool
) -> None:
    manager.send(source, target)
    # Later ones that are silenced: then the first ones were looked at too.
    manager.send({**LOST, "node": "last"}, {**HOT, "node": "last"})
    wait_until(lambda: ("AcceleratorDegraded", "last") in manager.silenced(), "the last is silenced")
    found = [bool(each["status"]["inhibitedBy"]) for each in manager.alerts() if each["labels"] == target]
    assert found == [is_silenced]


def test_one_notification_for_each_node_and_cause(manager: Alertmanager, receiver: Receiver) -> None:
    """Also if Prometheus sends the alert again, with other devices in its text."""
    down = [{**AGENT, "node": f"node-{number}"} for number in range(20, 30)]
    manager.send(CRITICAL, {**CRITICAL, "node": "node-2"}, {**HOT, "node": "node-3"}, *down)
    manager.send(CRITICAL)
    wait_until(lambda: len(receiver.received) >= 4, "they are sent")
    manager.send(IDLE)
    wait_until(lambda: receiver.received[-1].path == "/channel", "a later one is sent")
    sent = sorted((each.path, names(each)) for each in receiver.received[:-1])
    assert sent == [
        ("/pager", ["AcceleratorUnhealthy"]),
        ("/pager", ["AcceleratorUnhealthy"]),
        ("/tickets", ["AccelScopeAgentDown"] * 10),
        ("/tickets", ["AcceleratorDegraded"]),
    ]
