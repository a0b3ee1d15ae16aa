"""The fleet as the chart puts it beside its agents: an image and an account of its own, tokens at every door,
and its list of clusters in a ConfigMap."""

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.e2e.kubernetes.accounts import account
from tests.e2e.kubernetes.agent_image import agent_image, fleet_image
from tests.e2e.kubernetes.cluster import Cluster
from tests.e2e.kubernetes.deployment import (
    ENOUGH_CPU,
    NAMESPACE,
    PATIENCE_SECONDS,
    RELEASE,
    Release,
    labelled,
    namespace,
    on_simulated,
    runtime_class,
)
from tests.e2e.kubernetes.errors import CommandFailed
from tests.e2e.kubernetes.footprint import footprint
from tests.e2e.kubernetes.node import API_SERVICE_ADDRESS
from tests.fleet_process import FleetApi
from tests.waiting import wait_until

from accelscope.simulate import SimulatedNode
from accelscope.simulate.description import read_node

DEPLOYMENT = f"deployment/{RELEASE}-fleet"
PORT = 8080
GPUS = {"node": "gpus", "nvidia": {"devices": [{"model": "a100-40gb", "count": 2}]}}
URL = f"https://{API_SERVICE_ADDRESS}"  # by its address: the node has no name server
ACCOUNT_FILES = "/var/run/secrets/kubernetes.io/serviceaccount"
SERVER = {"url": URL, "tokenFile": f"{ACCOUNT_FILES}/token", "caFile": f"{ACCOUNT_FILES}/ca.crt"}
AGENTS_TOKEN = "/etc/accelscope/agents-token/token"
# The same cluster once more, its agents asked at their own addresses.
STRAIGHT = {
    "id": "straight",
    "server": SERVER,
    "sources": {"agents": {"namespace": NAMESPACE, "via": "direct", "tokenFile": AGENTS_TOKEN}},
}


@dataclass(frozen=True)
class DeployedFleet:
    cluster: Cluster
    release: Release
    values: dict[str, Any]
    port: int  # of this machine, that leads to its Service
    token: str

    def api(self, token: str | None) -> FleetApi:
        return FleetApi(self.port, token)

    @property
    def own(self) -> FleetApi:
        return self.api(self.token)

    def pod(self) -> dict[str, Any]:
        found = self.cluster.get("pods", NAMESPACE)["items"]
        [only] = [each for each in found if each["metadata"]["name"].startswith(f"{RELEASE}-fleet-")]
        return dict(only)

    def until_rolled_out(self) -> None:
        where = f"--namespace={NAMESPACE}"
        words = ("rollout", "status", DEPLOYMENT, where, f"--timeout={PATIENCE_SECONDS:g}s")
        try:
            self.cluster.kubectl(*words, seconds=PATIENCE_SECONDS + 30)
        except CommandFailed as error:
            told = [
                self.cluster.kubectl("describe", "pods", where),
                self.cluster.logs(DEPLOYMENT, "--tail=30", namespace=NAMESPACE),
            ]
            raise AssertionError("\n".join((str(error), *told))) from None


def made_token(folder: Path) -> str:
    """By the command of the documentation; the file is for the Secret."""
    command = [sys.executable, "-m", "accelscope", "fleet", "token", "create", "grafana"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    (folder / "tokens.yaml").write_text("tokens:\n" + done.stderr.partition("tokens:\n")[2])
    return done.stdout.strip()


@pytest.fixture(scope="module")
def fleet(cluster: Cluster, folder: Path) -> Iterator[DeployedFleet]:
    cluster.import_image(agent_image())
    cluster.import_image(fleet_image())
    gpus = SimulatedNode(read_node(yaml.safe_dump(GPUS)), folder / "gpus")
    gpus.build(at=1000.0)
    token = made_token(folder)
    values = {
        "agents": {"nvidia": {**on_simulated(gpus), "resources": ENOUGH_CPU}},
        "http": {"tokenSecretName": "agents-token"},
        "config": {"collectionInterval": "1s"},
        "fleet": {
            "enabled": True,
            "ownCluster": {"url": URL},
            "clusters": [STRAIGHT],
            "auth": {"tokensSecretName": "fleet-tokens", "tokenReviewCluster": "own"},
            "config": {"refreshInterval": "2s"},
        },
    }
    with ExitStack() as stack:
        stack.enter_context(namespace(cluster))
        stack.enter_context(labelled(cluster, "agents.accelscope.io/nvidia=true"))
        stack.enter_context(runtime_class(cluster, "nvidia"))
        where = f"--namespace={NAMESPACE}"
        secret = ("create", "secret", "generic", where)
        cluster.kubectl(*secret, "agents-token", "--from-literal=token=the-agents-own-token")
        cluster.kubectl(*secret, "fleet-tokens", f"--from-file={folder / 'tokens.yaml'}")
        release = Release(cluster, folder)
        stack.callback(release.remove)
        release.put(values)
        forward = stack.enter_context(cluster.forward(f"service/{RELEASE}-fleet", PORT, NAMESPACE))
        release.agent("nvidia").until_rolled_out()
        deployed = DeployedFleet(cluster, release, values, forward.port, token)
        deployed.until_rolled_out()
        yield deployed


@pytest.mark.parametrize("id_", ["own", "straight"])
def test_it_reads_agents_that_ask_for_a_token(fleet: DeployedFleet, id_: str) -> None:
    """Through the API server, which passes no Authorization on, and straight."""
    fleet.own.until(
        id_,
        lambda view: view["devices"] == 2 and all(source["up"] for source in view["sources"]),
        "both GPUs are there, and every source works",
        PATIENCE_SECONDS,
    )
    assert {(row["source"], row["state"]) for row in fleet.own.devices(id_)} == {("agents", "fresh")}
    where = f"/api/v1/gpu/nodes?cluster_id={id_}"
    wait_until(lambda: all(node["labels"] for node in fleet.own.get(where)), "the Node object is there")
    [node] = fleet.own.get(where)
    assert node["labels"]["kubernetes.io/hostname"] == fleet.cluster.node_name


def test_its_door_is_shut(fleet: DeployedFleet) -> None:
    for token in (None, "a-token-that-nobody-made"):
        assert fleet.api(token).ask("/api/v1/clusters").status == 401
    assert fleet.api(None).ask("/readyz").status == 200


def test_its_page_is_in_the_image_and_open(fleet: DeployedFleet) -> None:
    page = fleet.api(None).ask("/")
    assert (page.status, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    scripts = re.findall(r'src="(/assets/[^"]+)"', page.body.decode())
    assert scripts
    for path in scripts:
        assert fleet.api(None).ask(path).status == 200


def test_accounts_of_the_cluster_are_let_in_by_its_roles(fleet: DeployedFleet) -> None:
    cluster = fleet.cluster
    role = f"fleet-read.{RELEASE}.{NAMESPACE}"
    with account(cluster, "onlooker") as onlooker:
        api = fleet.api(onlooker.token())
        wait_until(
            lambda: api.ask("/api/v1/clusters").status == 403, "no role is bound to it", PATIENCE_SECONDS
        )
        binding = ("create", "clusterrolebinding", "e2e-onlooker", f"--clusterrole={role}")
        cluster.kubectl(*binding, f"--serviceaccount={onlooker.namespace}:{onlooker.name}")
        wait_until(lambda: api.ask("/api/v1/clusters").status == 200, "its role lets it in", PATIENCE_SECONDS)
        assert api.ask("/api/v1/clusters/own/refresh", "POST").status == 403, "it may read only"


def test_it_runs_with_no_privilege(fleet: DeployedFleet) -> None:
    said = fleet.cluster.exec(DEPLOYMENT, "cat", "/proc/self/status", namespace=NAMESPACE).splitlines()
    status = {name: text.split() for name, _, text in (line.partition(":") for line in said)}
    assert {int(status[name][0], 16) for name in ("CapEff", "CapPrm", "CapBnd", "CapAmb")} == {0}
    assert (status["NoNewPrivs"], status["Seccomp"], set(status["Uid"])) == (["1"], ["2"], {"65532"})
    with pytest.raises(CommandFailed, match="Read-only file system"):
        fleet.cluster.exec(DEPLOYMENT, "touch", "/tmp/file", namespace=NAMESPACE)


def test_another_list_of_clusters_is_taken_up_without_a_restart(fleet: DeployedFleet) -> None:
    before = fleet.pod()["metadata"]["name"]
    more = {**fleet.values["fleet"], "clusters": [STRAIGHT, {**STRAIGHT, "id": "again"}]}
    fleet.release.put({**fleet.values, "fleet": more})

    def listed() -> set[str]:
        return {each["id"] for each in fleet.own.get("/api/v1/clusters")["items"]}

    wait_until(lambda: listed() == {"own", "straight", "again"}, "the new one is there", PATIENCE_SECONDS)
    fleet.own.until("again", lambda view: view["devices"] == 2, "both GPUs are there", PATIENCE_SECONDS)
    pod = fleet.pod()
    assert pod["metadata"]["name"] == before
    assert [each["restartCount"] for each in pod["status"]["containerStatuses"]] == [0]


def test_it_stays_within_what_it_asks_for(fleet: DeployedFleet, capsys: pytest.CaptureFixture[str]) -> None:
    cost = footprint(fleet.cluster, NAMESPACE, fleet.pod()["metadata"]["name"])
    with capsys.disabled():
        print(
            f"\ne2e: the fleet's pod with three clusters of one node, each read every 2 s: working set "
            f"{cost.working_set_bytes / 2**20:.1f} MiB, {cost.cores * 1000:.1f} m of CPU"
        )
    assert cost.working_set_bytes < 256 << 20
    assert cost.cores < 0.5
