"""The chart's ValidatingAdmissionPolicy in a real API server: of the right to patch nodes it leaves an agent
the Node that its token names, and the keys that are switched on."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.agent_process import AgentProcess
from tests.e2e.kubernetes.accounts import Account, Rule, start_pod
from tests.e2e.kubernetes.api import Reply
from tests.e2e.kubernetes.cluster import PATIENCE_SECONDS, Cluster
from tests.repository import CHART
from tests.waiting import wait_until

from accelscope.simulate import SimulatedNode
from accelscope.simulate.description import read_node
from accelscope.sinks.documents import DEVICES
from accelscope.vendors.ascend import NPU_METRICS

OTHER_NODE = "another"
RELEASE = "own-node"
VALUES = {
    "image": {"registry": "registry.test"},
    "attribution": {"hostPID": False, "pods": "off", "podResources": False},
    "nodeObject": {
        "npuAnnotation": True,
        "featureLabels": "node",
        "featureDomains": ["accelscope.io", "beta.furiosa.ai"],
    },
}
RIGHTS = ("ServiceAccount", "ClusterRole", "ClusterRoleBinding")
POLICY = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
MIXED = {
    "node": "mixed",
    "ascend": {"devices": [{"model": "910b3", "count": 2}]},
    "furiosa": {"furiosactl": "0.10", "devices": [{"model": "warboy"}]},
}
MERGE_PATCH = "application/merge-patch+json"
PATCH_STATUS: Rule = {"apiGroups": [""], "resources": ["nodes/status"], "verbs": ["patch"]}
APPLY_PATCH = "application/apply-patch+yaml"


# Whose end would be the Node's.
OWNER = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "name": "owner",
    "uid": "00000000-0000-4000-8000-000000000000",
}


def annotation(name: str, value: str | None = "x") -> dict[str, Any]:
    return {"metadata": {"annotations": {name: value}}}


def label(name: str, value: str | None = "x") -> dict[str, Any]:
    return {"metadata": {"labels": {name: value}}}


@pytest.fixture(scope="module")
def agents(cluster: Cluster, folder: Path) -> Iterator[Account]:
    """The account of the chart that may write most, that of agents of NPUs, with its rights and its policy;
    and a second Node beside the real one."""
    values = folder / "values.yaml"
    values.write_text(yaml.safe_dump(VALUES))
    rendered = cluster.helm("template", RELEASE, str(CHART), "--validate", f"--values={values}")
    objects = [each for each in yaml.safe_load_all(rendered) if each is not None]
    kept = [each for each in objects if each["kind"] in (*RIGHTS, *POLICY)]
    assert {each["kind"] for each in kept} == {*RIGHTS, *POLICY}
    name, others = sorted(
        (each["metadata"]["name"] for each in kept if each["kind"] == "ServiceAccount"), key=len, reverse=True
    )
    assert name == f"{others}-npu-annotation"
    cluster.apply(*kept, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": OTHER_NODE}})
    made = Account(cluster, name)
    try:
        start_pod(made)
        wait_until(
            lambda: (
                write(made, cluster.node_name, annotation(NPU_METRICS)).status == 200
                and write(made, OTHER_NODE, annotation(NPU_METRICS)).status != 200
            ),
            "rights and policy are in force",
            PATIENCE_SECONDS,
        )
        yield made
    finally:
        made.remove()
        texts = "\n---\n".join(yaml.safe_dump(each) for each in kept)
        cluster.kubectl("delete", "--filename=-", "--ignore-not-found", input=texts)
        cluster.kubectl("delete", f"node/{OTHER_NODE}")
        cluster.kubectl("annotate", f"node/{cluster.node_name}", f"{NPU_METRICS}-", "example.com/theirs-")


def write(
    by: Account, node: str, change: dict[str, Any], *, token: str | None = None, part: str = ""
) -> Reply:
    path = f"/api/v1/nodes/{node}{part}"
    return by.cluster.api.request("PATCH", path, change, token=token or by.token(), content_type=MERGE_PATCH)


def apply_labels(cluster: Cluster, labels: dict[str, str], *, token: str | None = None) -> Reply:
    """As the agent does; without a token, in its name by somebody who may do everything."""
    about = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": cluster.node_name, "labels": labels}}
    path = f"/api/v1/nodes/{cluster.node_name}?fieldManager=accelscope&force=true"
    return cluster.api.request("PATCH", path, about, token=token, content_type=APPLY_PATCH)


def test_the_agent_writes_all_that_it_has_to(cluster: Cluster, agents: Account, tmp_path: Path) -> None:
    node = SimulatedNode(read_node(yaml.safe_dump(MIXED)), tmp_path / "node")
    node.build(at=100.0)
    file = tmp_path / "agent.yaml"
    file.write_text("npuAnnotation: true\n")
    settings = {
        **node.agent_settings(),
        **agents.settings(tmp_path / "token"),
        "config_file": str(file),
        "feature_labels": "node",
        "feature_domains": "accelscope.io,beta.furiosa.ai",
    }
    expected = {"accelscope.io/ascend.count": "2", "beta.furiosa.ai/npu.count": "1"}
    with AgentProcess(settings, tmp_path / "agent") as agent:

        def stands_there() -> bool:
            metadata = cluster.get(f"node/{cluster.node_name}")["metadata"]
            return NPU_METRICS in metadata["annotations"] and expected.items() <= metadata["labels"].items()

        wait_until(stands_there, "annotation and labels are there", PATIENCE_SECONDS)
        wait_until(lambda: all(sink.up for sink in agent.snapshot().sinks), "the page says so too")
        assert {(sink.sink, sink.errors) for sink in agent.snapshot().sinks} == {
            ("annotation", ()),
            ("labels", ()),
        }
    # And takes them away again.
    reply = apply_labels(cluster, {}, token=agents.token())
    assert reply.status == 200, reply
    assert not expected.keys() & cluster.get(f"node/{cluster.node_name}")["metadata"]["labels"].keys()
    assert write(agents, cluster.node_name, annotation(NPU_METRICS, None)).status == 200


def test_what_was_written_before_the_policy_was_narrowed_can_be_removed(
    cluster: Cluster, agents: Account
) -> None:
    """Of a domain and of an annotation that are off here: the agent applies what is left, the rest goes."""
    before = {
        "accelscope.io/ascend.count": "2",
        "beta.furiosa.ai/npu.count": "1",
        "furiosa.ai/npu.count": "1",
    }
    narrow = {name: value for name, value in before.items() if not name.startswith("furiosa.ai/")}
    assert apply_labels(cluster, before).status == 200
    annotations = [DEVICES, f"{DEVICES}.ascend"]
    cluster.kubectl("annotate", f"node/{cluster.node_name}", *(f"{name}=[]" for name in annotations))
    try:
        reply = apply_labels(cluster, narrow, token=agents.token())
        assert reply.status == 200, reply
        labels = cluster.get(f"node/{cluster.node_name}")["metadata"]["labels"]
        assert {name: labels[name] for name in before.keys() & labels.keys()} == narrow
        assert apply_labels(cluster, before, token=agents.token()).status in (403, 422)
        for name in annotations:
            assert write(agents, cluster.node_name, annotation(name, "changed")).status in (403, 422)
            assert write(agents, cluster.node_name, annotation(name, None)).status == 200
        assert (
            not set(annotations) & cluster.get(f"node/{cluster.node_name}")["metadata"]["annotations"].keys()
        )
    finally:
        apply_labels(cluster, {})
        cluster.kubectl("annotate", f"node/{cluster.node_name}", *(f"{name}-" for name in annotations))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (annotation("example.com/other"), "its own annotations only"),
        (annotation(DEVICES), "its own annotations only"),  # a feature that is off
        (annotation("node.alpha.kubernetes.io/ttl", None), "its own annotations only"),
        (annotation("example.com/theirs", "changed"), "its own annotations only"),
        (label("example.com/other"), "its own labels only"),
        (label("furiosa.ai/npu.count"), "its own labels only"),  # a domain that is off
        (label("node-role.kubernetes.io/control-plane"), "its own labels only"),
        (label("kubernetes.io/hostname", "elsewhere"), "its own labels only"),
        (label("kubernetes.io/hostname", None), "its own labels only"),
        ({"spec": {"unschedulable": True}}, "annotations and labels only"),
        (
            {"spec": {"taints": [{"key": "example.com/t", "effect": "NoExecute"}]}},
            "annotations and labels only",
        ),
        ({"metadata": {"finalizers": ["example.com/held"]}}, "annotations and labels only"),
        ({"metadata": {"ownerReferences": [OWNER]}}, "annotations and labels only"),
        # Who owns which field, which everybody's server-side apply goes by.
        ({"metadata": {"managedFields": [{}]}}, "annotations and labels only"),
        ({"metadata": {"annotations": None}}, "its own annotations only"),
        ({"metadata": {"labels": None}}, "its own labels only"),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_another_change_of_its_own_node_is_refused(
    cluster: Cluster, agents: Account, change: dict[str, Any], said: str
) -> None:
    cluster.kubectl("annotate", f"node/{cluster.node_name}", "example.com/theirs=kept", "--overwrite")
    before = cluster.get(f"node/{cluster.node_name}")
    reply = write(agents, cluster.node_name, change)
    assert reply.status in (403, 422), reply
    assert said in reply.json()["message"]
    after = cluster.get(f"node/{cluster.node_name}")
    for part in ("labels", "annotations", "finalizers", "ownerReferences"):
        assert after["metadata"].get(part) == before["metadata"].get(part)
    assert after["spec"] == before["spec"]


@pytest.mark.parametrize(
    "change",
    [annotation("example.com/other"), annotation(NPU_METRICS), label("example.com/other")],
    ids=["foreign-annotation", "own-annotation", "foreign-label"],
)
def test_the_way_through_the_status_is_closed(
    cluster: Cluster, agents: Account, change: dict[str, Any]
) -> None:
    """By RBAC, and by the policy where somebody gave the account that right: a write to the status of a Node
    reaches its metadata."""
    before = cluster.get(f"node/{cluster.node_name}")["metadata"]
    refusal = write(agents, cluster.node_name, change, part="/status")
    assert refusal.status == 403
    agents.grant(PATCH_STATUS)
    try:
        wait_until(
            lambda: (
                "metadata of its Node and nothing else"
                in write(agents, cluster.node_name, change, part="/status").json().get("message", "")
            ),
            "the policy refuses it",
            PATIENCE_SECONDS,
        )
    finally:
        agents.withdraw()
    wait_until(
        lambda: (
            "cannot patch resource"
            in write(agents, cluster.node_name, change, part="/status").json()["message"]
        ),
        "the right is gone",
        PATIENCE_SECONDS,
    )
    after = cluster.get(f"node/{cluster.node_name}")["metadata"]
    assert (after["annotations"], after["labels"]) == (before["annotations"], before["labels"])


def test_another_node_is_refused(cluster: Cluster, agents: Account) -> None:
    reply = write(agents, OTHER_NODE, annotation(NPU_METRICS))
    assert reply.status in (403, 422)
    assert (
        f"only the Node that its token names ({cluster.node_name}), not {OTHER_NODE}"
        in reply.json()["message"]
    )
    assert write(agents, OTHER_NODE, label("accelscope.io/ascend.count")).status in (403, 422)


def test_a_token_that_names_no_node_writes_nothing(cluster: Cluster, agents: Account) -> None:
    loose = cluster.token_for(agents.name)
    reply = write(agents, cluster.node_name, annotation(NPU_METRICS), token=loose)
    assert reply.status in (403, 422)
    assert "only the Node that its token names (none)" in reply.json()["message"]


def test_an_agent_with_another_nodes_name_says_what_is_wrong(
    cluster: Cluster, agents: Account, tmp_path: Path
) -> None:
    node = SimulatedNode(read_node(yaml.safe_dump(MIXED)), tmp_path / "node")
    node.build(at=100.0)
    file = tmp_path / "agent.yaml"
    file.write_text("npuAnnotation: true\n")
    settings = {
        **node.agent_settings(),
        **agents.settings(tmp_path / "token"),
        "node_name": OTHER_NODE,
        "config_file": str(file),
        "feature_labels": "node",
    }
    with AgentProcess(settings, tmp_path / "agent") as agent:
        wait_until(
            lambda: all(sink.errors for sink in agent.snapshot().sinks), "both are refused", PATIENCE_SECONDS
        )
        sinks = agent.snapshot().sinks
        assert agent.get("/readyz").status == 200
    assert {(sink.sink, sink.up, sink.reason) for sink in sinks} == {
        ("annotation", False, "forbidden"),
        ("labels", False, "forbidden"),
    }
    assert all("only the Node that its token names" in (sink.error or "") for sink in sinks)


def test_others_write_as_before(cluster: Cluster, agents: Account) -> None:
    cluster.kubectl("annotate", f"node/{OTHER_NODE}", "example.com/free=1")
    cluster.kubectl("label", f"node/{cluster.node_name}", "example.com/free=1")
    cluster.kubectl("label", f"node/{cluster.node_name}", "example.com/free-")
