"""Pages that are guarded by a real API server's word: who may read them is a matter of RBAC."""

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.agent_process import AgentProcess
from tests.e2e.kubernetes.accounts import Account, Rule, account
from tests.e2e.kubernetes.cluster import PATIENCE_SECONDS, Cluster
from tests.waiting import wait_until

from accelscope.simulate import SimulatedNode

REVIEW: list[Rule] = [
    {"apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"], "verbs": ["create"]},
    {"apiGroups": ["authorization.k8s.io"], "resources": ["subjectaccessreviews"], "verbs": ["create"]},
]
READ_METRICS: Rule = {"nonResourceURLs": ["/metrics"], "verbs": ["get"]}


@pytest.fixture(scope="module")
def reviewer(cluster: Cluster) -> Iterator[Account]:
    with account(cluster, "reviewer", REVIEW) as made:
        yield made


@pytest.fixture(scope="module")
def reader(cluster: Cluster) -> Iterator[Account]:
    with account(cluster, "reader", [READ_METRICS]) as made:
        yield made


@pytest.fixture(scope="module")
def stranger(cluster: Cluster) -> Iterator[Account]:
    """With a token, and without any right."""
    with account(cluster, "stranger") as made:
        yield made


@pytest.fixture(scope="module")
def agent(reviewer: Account, frozen_node: SimulatedNode, folder: Path) -> Iterator[AgentProcess]:
    file = folder / "agent.yaml"
    file.write_text("tokenReview: true\n")
    settings = {
        **frozen_node.agent_settings(),
        **reviewer.settings(folder / "token"),
        "config_file": str(file),
    }
    with AgentProcess(settings, folder / "agent") as running:
        yield running


def status(agent: AgentProcess, path: str, token: str | None) -> int:
    answer = agent.get(path) if token is None else agent.get(path, authorization=f"Bearer {token}")
    return answer.status


def until_status(agent: AgentProcess, path: str, token: str, wanted: int) -> None:
    """A review may not be had in time on a busy machine (503), and RBAC takes a moment to be known (403)."""
    wait_until(lambda: status(agent, path, token) == wanted, f"{path} answers {wanted}", PATIENCE_SECONDS)


def test_rbac_decides_who_reads_what(agent: AgentProcess, reader: Account, stranger: Account) -> None:
    token = reader.token()
    assert status(agent, "/metrics", None) == 401
    until_status(agent, "/metrics", secrets.token_hex(16), 401)
    until_status(agent, "/metrics", stranger.token(), 403)
    until_status(agent, "/metrics", token, 200)
    until_status(agent, "/snapshot", token, 403)
    assert b"accelerator_power_watts" in agent.get("/metrics", authorization=f"Bearer {token}").body


def test_probes_need_no_token(agent: AgentProcess) -> None:
    assert {status(agent, path, None) for path in ("/healthz", "/readyz")} == {200}


def test_a_token_for_somebody_else_is_not_taken(
    cluster: Cluster, agent: AgentProcess, reader: Account
) -> None:
    """One that was made for another service, which that service could show us."""
    until_status(agent, "/metrics", cluster.token_for(reader.name, "--audience=another-service"), 401)


def test_a_token_that_was_revoked_is_refused(cluster: Cluster, agent: AgentProcess) -> None:
    """Its pod is gone: the API server no longer knows the token. One that was let in is let in for another
    minute, so this one is shown for the first time."""
    with account(cluster, "short-lived", [READ_METRICS]) as gone:
        token = gone.token()
        cluster.kubectl("delete", f"pod/{gone.name}", "--wait=true")
        until_status(agent, "/metrics", token, 401)


def test_while_the_api_server_is_away_only_known_tokens_are_let_in(
    cluster: Cluster, agent: AgentProcess, reader: Account, stranger: Account
) -> None:
    known, unknown, refused = reader.token(), reader.token(), stranger.token()
    until_status(agent, "/metrics", known, 200)
    until_status(agent, "/metrics", refused, 403)
    cluster.stop_api_server()
    try:
        until_status(agent, "/metrics", unknown, 503)
        answer = agent.get("/metrics", authorization=f"Bearer {unknown}")
        assert int(answer.headers["retry-after"]) >= 1
        assert status(agent, "/metrics", known) == 200
        assert status(agent, "/metrics", refused) in (403, 503)  # a refusal is kept for some seconds only
        assert status(agent, "/readyz", None) == 200
    finally:
        cluster.start_api_server()
    until_status(agent, "/metrics", unknown, 200)


def test_an_agent_that_may_not_review_says_so(
    stranger: Account, reader: Account, frozen_node: SimulatedNode, tmp_path: Path
) -> None:
    file = tmp_path / "agent.yaml"
    file.write_text("tokenReview: true\n")
    settings = {**frozen_node.agent_settings(), **stranger.settings(tmp_path / "token")}
    with AgentProcess({**settings, "config_file": str(file)}, tmp_path / "agent") as powerless:
        until_status(powerless, "/metrics", reader.token(), 503)
        wait_until(lambda: "right to create tokenreviews" in powerless.log(), "the log names the right")
