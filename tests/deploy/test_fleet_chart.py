"""The chart's fleet: settings, permissions and access."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.deploy.clusters_file_keys import SECTIONS, Place, keys_of
from tests.deploy.conftest import Render, Template
from tests.deploy.objects import (
    container,
    fleet,
    fleet_clusters,
    fleet_settings,
    local_rights,
    mounted,
    of_kind,
    rights,
)
from tests.deploy.values import NO_AGENTS
from tests.repository import CHART

from accelscope.config.settings import key_name, settings_of
from accelscope.fleet.api.access import SCOPE_PATHS, AccessScope
from accelscope.fleet.clusters import AddressAccess, ExecEntry, load_clusters
from accelscope.fleet.settings import FleetSettings

TOKENS = {"auth": {"tokensSecretName": "fleet-tokens"}}
ON = {"enabled": True, **TOKENS}
PARIS = {
    "id": "paris",
    "name": "Paris 2",
    "server": {
        "url": "https://paris.example:6443",
        "tokenFile": "/etc/accelscope/secrets/paris/token",
        "caFile": "/etc/accelscope/secrets/paris/ca.crt",
    },
    "sources": {"exec": {"namespaces": ["gpu-operator"], "timeout": "5s", "perSecond": 10}},
}
STORE = {
    "id": "store",
    "capabilities": {"gpu": True},
    "sources": {"prometheus": {"url": "http://prometheus:9090", "matchers": {"cluster": "oslo"}}},
}
PODS = {("pods", "get"), ("pods", "list"), ("pods", "watch")}
NODES = {("nodes", "get"), ("nodes", "list"), ("nodes", "watch")}
PROXY = {("pods/proxy", "get")}
EXEC = {("pods/exec", "get"), ("pods/exec", "create")}
REVIEWS = {("tokenreviews", "create"), ("subjectaccessreviews", "create")}


def test_off_by_default(render: Render) -> None:
    assert not [each for each in render() if "fleet" in each["metadata"]["name"]]


def test_without_agents_nothing_of_the_agents_is_rendered(render: Render) -> None:
    objects = render(
        agents=NO_AGENTS, fleet=ON, scrape={"by": "serviceMonitor"}, networkPolicy={"enabled": True}
    )
    assert all("fleet" in each["metadata"]["name"] for each in objects)
    assert not of_kind(objects, "DaemonSet")


# --- settings ----------------------------------------------------------------------------------------------


def test_fleet_accepts_the_rendered_settings(render: Render, tmp_path: Path) -> None:
    objects = render(fleet={**ON, "port": 8443, "config": {"refreshInterval": "30s", "logLevel": "debug"}})
    settings = fleet_settings(objects, tmp_path)
    pod = fleet(objects)
    assert (settings.refresh_interval, settings.log_level) == (30, "debug")
    assert settings.listen_port == container(pod)["ports"][0]["containerPort"] == 8443
    assert settings.listen_host == "", "all addresses, of both kinds"
    assert settings.tokens_file == f"{mounted(pod, 'tokens')}/tokens.yaml"
    assert settings.state_folder == mounted(pod, "state")
    assert settings.tls_certificate is None
    assert pod["enableServiceLinks"] is False


def test_probes_and_scrapes_use_https(render: Render, tmp_path: Path) -> None:
    objects = render(fleet={**ON, "tls": {"secretName": "fleet-tls"}}, scrape={"by": "podMonitor"})
    settings = fleet_settings(objects, tmp_path)
    folder = mounted(fleet(objects), "tls")
    assert (settings.tls_certificate, settings.tls_key) == (f"{folder}/tls.crt", f"{folder}/tls.key")
    only = container(fleet(objects))
    assert {only[probe]["httpGet"]["scheme"] for probe in ("livenessProbe", "readinessProbe")} == {"HTTPS"}
    [monitor] = [
        each for each in of_kind(objects, "PodMonitor") if each["metadata"]["name"].endswith("fleet")
    ]
    assert monitor["spec"]["podMetricsEndpoints"][0]["scheme"] == "https"


def test_own_cluster_is_read_with_the_fleets_account(render: Render, tmp_path: Path) -> None:
    objects = render(fleet=ON)
    [own] = fleet_clusters(objects, tmp_path).values()
    folder = mounted(fleet(objects), "api-token")
    assert own.id == "own"
    assert own.access == AddressAccess(
        url="https://kubernetes.default.svc", token_file=f"{folder}/token", ca_file=f"{folder}/ca.crt"
    )
    assert own.agents is not None
    assert own.agents.namespace == "metrics", "where the chart puts its agents"
    assert own.annotations is not None
    assert own.exec is None, "as good as root on nodes: only where it is asked for"


def test_other_clusters_are_listed_unchanged(render: Render, tmp_path: Path) -> None:
    objects = render(fleet={**ON, "clusters": [PARIS, STORE], "secrets": ["paris", "oslo-store"]})
    clusters = fleet_clusters(objects, tmp_path)
    given = tmp_path / "given.yaml"
    given.write_text(yaml.safe_dump({"clusters": [PARIS, STORE]}))
    assert list(clusters) == ["own", "paris", "store"]
    assert [clusters["paris"], clusters["store"]] == list(load_clusters(str(given)))
    secrets = {
        each["secret"]["secretName"]: mounted(fleet(objects), each["name"])
        for each in fleet(objects)["volumes"]
        if each["name"].startswith("secret-")
    }
    assert secrets == {name: f"/etc/accelscope/secrets/{name}" for name in ("paris", "oslo-store")}


def test_without_own_cluster_there_is_no_account(render: Render, tmp_path: Path) -> None:
    objects = render(agents=NO_AGENTS, fleet={**ON, "ownCluster": {"enabled": False}, "clusters": [PARIS]})
    assert list(fleet_clusters(objects, tmp_path)) == ["paris"]
    assert rights(objects) == set()
    assert not [each for each in fleet(objects)["volumes"] if each["name"] == "api-token"]


def test_sources_of_the_own_cluster_accept_the_keys_of_the_file(render: Render, tmp_path: Path) -> None:
    own = {
        "agents": {"namespace": "gpus", "via": "direct", "port": 9500},
        "exec": {"enabled": True, "namespaces": ["drivers"], "ttl": "30s"},
        "annotations": {"enabled": False},
        "id": "berlin",
        "name": "Berlin 1",
    }
    [entry] = fleet_clusters(render(fleet={**ON, "ownCluster": own}), tmp_path).values()
    assert (entry.id, entry.name, entry.annotations) == ("berlin", "Berlin 1", None)
    assert entry.agents is not None
    assert (entry.agents.namespace, entry.agents.via, entry.agents.port) == ("gpus", "direct", 9500)
    assert entry.exec == ExecEntry(namespaces=("drivers",), ttl_seconds=30)


@pytest.mark.parametrize(
    ("values", "scheme", "has_token"),
    [
        ({}, "http", False),
        ({"http": {"tls": {"secretName": "tls"}}}, "https", False),
        ({"http": {"tokenSecretName": "token", "tokenReview": True}}, "http", True),
        ({"http": {"tls": {"secretName": "tls"}}, "agents": NO_AGENTS}, "http", False),
    ],
    ids=["open", "https", "token", "no agents here"],
)
def test_agents_of_the_release_are_read_with_their_port_and_tls(
    render: Render, values: dict[str, Any], scheme: str, has_token: bool, tmp_path: Path
) -> None:
    objects = render(fleet=ON, **values)
    agents = fleet_clusters(objects, tmp_path)["own"].agents
    assert agents is not None
    assert agents.scheme == scheme
    expected = f"{mounted(fleet(objects), 'agents-token')}/token" if has_token else None
    assert agents.token_file == expected


def test_agents_of_another_name_are_found(render: Render, tmp_path: Path) -> None:
    objects = render(fleet=ON, nameOverride="gpus")
    agents = fleet_clusters(objects, tmp_path)["own"].agents
    assert agents is not None
    wanted = dict(pair.split("=") for pair in agents.label_selector.split(","))
    for daemonset in of_kind(objects, "DaemonSet"):
        assert wanted.items() <= daemonset["spec"]["template"]["metadata"]["labels"].items()
    [deployment] = of_kind(objects, "Deployment")
    assert not wanted.items() <= deployment["spec"]["template"]["metadata"]["labels"].items()


def test_only_settings_that_need_a_restart_replace_the_pod(render: Render) -> None:
    declared = (CHART / "templates" / "_fleet.tpl").read_text()
    [listed] = re.findall(r'define "accelscope.fleet.reloadable" -}}\n(.+)\n', declared)
    assert set(listed.split()) == {
        key_name(each.name) for each in settings_of(FleetSettings) if each.reloadable and each.in_file
    }

    def stamp(**values: Any) -> Any:
        [deployment] = of_kind(render(agents=NO_AGENTS, fleet={**ON, **values}), "Deployment")
        return deployment["spec"]["template"]["metadata"]["annotations"]["accelscope.io/settings"]

    assert stamp() == stamp(config={"logLevel": "debug"}) == stamp(clusters=[PARIS])
    assert stamp() != stamp(config={"refreshInterval": "30s"})


@pytest.mark.parametrize("place", SECTIONS, ids=".".join)
def test_schema_has_the_keys_of_the_clusters_file(place: Place, tmp_path: Path) -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    known = schema["definitions"]["cluster"]
    for name in place:
        known = known["properties"][name]
    keys = keys_of(place, tmp_path)
    assert set(known["properties"]) == keys
    own = schema["properties"]["fleet"]["properties"]["ownCluster"]["properties"]
    if place[-1:] and place[-1] in own:
        assert set(own[place[-1]]["properties"]) == {"enabled", *keys}


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"fleet": {"enabled": True}}, "fleet.auth: set tokensSecretName"),
        ({"fleet": {**ON, "auth": {"tokensSecretName": "x", "insecureNoAuth": True}}}, "insecureNoAuth"),
        ({"fleet": {**ON, "auth": {"tokenReviewCluster": "oslo"}}}, "no cluster has the id oslo"),
        ({"fleet": {**ON, "ownCluster": {"enabled": False}}}, "fleet.clusters: the list is empty"),
        (
            {
                "fleet": {
                    **ON,
                    "ownCluster": {"agents": {"enabled": False}, "annotations": {"enabled": False}},
                }
            },
            "fleet.ownCluster: enable one of",
        ),
        ({"fleet": {**ON, "clusters": [{**PARIS, "id": "own"}]}}, "two clusters have the id own"),
        ({"fleet": {**ON, "clusters": [{**PARIS, "url": "https://x"}]}}, "url"),
        ({"fleet": {**ON, "clusters": [{"server": PARIS["server"]}]}}, "id"),
        ({"fleet": {**ON, "config": {"listenPort": 80}}}, "fleet.config.listenPort: set fleet.port instead"),
        (
            {"fleet": {**ON, "config": {"stateFolder": "/x"}}},
            "fleet.config.stateFolder: set fleet.state instead",
        ),
        ({"fleet": {**ON, "ownCluster": {"exec": {"namespaces": []}}}}, "namespaces"),
        ({"fleet": {**ON, "serviceAccount": {"create": False}}}, "fleet.serviceAccount.name"),
        ({"fleet": ON, "http": {"tokenReview": True}}, "also set http.tokenSecretName"),
        (
            {"fleet": ON, "http": {"tls": {"secretName": "tls", "clientCASecretName": "ca"}}},
            "set via: direct with clientCertificateFile",
        ),
    ],
)
def test_invalid_values_are_rejected_by_name(
    template: Template, values: dict[str, Any], complaint: str
) -> None:
    done = template(values)
    assert done.returncode != 0
    assert complaint in done.stderr


# --- permissions -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, {"": NODES, "metrics": PODS | PROXY}),
        ({"ownCluster": {"agents": {"namespace": "gpus"}}}, {"": NODES, "gpus": PODS | PROXY}),
        ({"ownCluster": {"agents": {"via": "direct"}}}, {"": NODES, "metrics": PODS}),
        ({"ownCluster": {"agents": {"enabled": False}}}, {"": NODES}),
        (
            {"ownCluster": {"exec": {"enabled": True, "namespaces": ["one", "two"]}}},
            {"": NODES, "metrics": PODS | PROXY, "one": PODS | EXEC, "two": PODS | EXEC},
        ),
        ({"auth": {"tokenReviewCluster": "own"}}, {"": NODES | REVIEWS, "metrics": PODS | PROXY}),
        (
            {"auth": {"tokenReviewCluster": "paris"}, "clusters": [PARIS]},
            {"": NODES, "metrics": PODS | PROXY},
        ),
    ],
    ids=["default", "agents elsewhere", "direct", "no agents", "exec", "reviews here", "reviews there"],
)
def test_every_permission_belongs_to_a_source(
    render: Render, values: dict[str, Any], expected: dict[str, set[tuple[str, str]]]
) -> None:
    objects = render(fleet={**ON, **values})
    assert local_rights(objects, fleet(objects)["serviceAccountName"]) == expected


def test_agents_do_not_get_the_fleets_permissions(render: Render) -> None:
    alone, beside = render(), render(fleet=ON, serviceAccount={"name": ""})
    assert rights(alone, "accelscope") == rights(beside, "accelscope")
    theirs = render(fleet=ON, serviceAccount={"create": False, "name": "theirs"})
    assert fleet(theirs)["serviceAccountName"] == "accelscope-fleet"


def test_roles_for_users_with_reviewed_tokens(render: Render) -> None:
    objects = render(fleet={**ON, "auth": {"tokenReviewCluster": "own"}})
    paths = {
        role["metadata"]["name"]: {path for rule in role["rules"] for path in rule["nonResourceURLs"]}
        for role in of_kind(objects, "ClusterRole")
        if "nonResourceURLs" in role["rules"][0]
    }
    read, admin = SCOPE_PATHS[AccessScope.READ], SCOPE_PATHS[AccessScope.ADMIN]
    assert paths == {
        "fleet-read.accelscope.metrics": {read},
        "fleet-admin.accelscope.metrics": {read, admin},
    }
    assert not {each["roleRef"]["name"] for each in of_kind(objects, "ClusterRoleBinding")} & paths.keys()


def test_only_the_state_folder_is_writable_and_no_unused_token_is_mounted(render: Render) -> None:
    """test_pod_security.py checks the Pod Security level."""
    pod = fleet(render(fleet=ON))
    assert container(pod)["securityContext"]["readOnlyRootFilesystem"] is True
    assert pod["automountServiceAccountToken"] is False
    writable = {mount["name"] for mount in container(pod)["volumeMounts"] if not mount.get("readOnly")}
    assert writable == {"state"}


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (
            {"ownCluster": {"enabled": False}, "clusters": [PARIS]},
            {443, 6443},
        ),
        ({"clusters": [PARIS, STORE]}, {443, 6443, 9090}),
        ({"ownCluster": {"agents": {"via": "direct"}}}, {443, 6443, 9400}),
        ({"ownCluster": {"agents": {"enabled": False, "via": "direct"}}}, {443, 6443}),
        ({"egressPorts": [16443]}, {443, 6443, 16443}),
        (
            {"clusters": [{"id": "s", "sources": {"prometheus": {"url": "http://store/prometheus"}}}]},
            {80, 443, 6443},
        ),
        (
            {
                "clusters": [
                    {"id": "s", "server": {"url": "https://[2001:db8::1]:8443", "proxyUrl": "http://p:3128"}}
                ]
            },
            {443, 3128, 6443, 8443},
        ),
    ],
)
def test_network_policy_allows_the_ports_of_clusters(
    render: Render, values: dict[str, Any], expected: set[int]
) -> None:
    objects = render(agents=NO_AGENTS, fleet={**ON, **values}, networkPolicy={"enabled": True})
    [policy] = of_kind(objects, "NetworkPolicy")
    [names, servers] = policy["spec"]["egress"]
    assert {(each["port"], each["protocol"]) for each in names["ports"]} == {(53, "UDP"), (53, "TCP")}
    assert {each["port"] for each in servers["ports"]} == expected


@pytest.mark.parametrize(("via", "let_in"), [("direct", True), ("proxy", False)])
def test_network_policy_of_agents_allows_direct_access_of_the_fleet(
    render: Render, via: str, let_in: bool
) -> None:
    prometheus = {"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}
    objects = render(
        fleet={**ON, "ownCluster": {"agents": {"via": via}}},
        networkPolicy={"enabled": True, "from": [prometheus]},
    )
    [policy] = [
        each for each in of_kind(objects, "NetworkPolicy") if each["metadata"]["name"] == "accelscope"
    ]
    [rule] = policy["spec"]["ingress"]
    [deployment] = of_kind(objects, "Deployment")
    us = {"podSelector": deployment["spec"]["selector"]}
    assert rule["from"] == [prometheus, *([us] if let_in else [])]


# --- deployment --------------------------------------------------------------------------------------------


def test_never_two_replicas_at_a_time(render: Render) -> None:
    [deployment] = of_kind(render(fleet=ON), "Deployment")
    assert deployment["spec"]["replicas"] == 1
    assert deployment["spec"]["strategy"] == {"type": "Recreate"}


@pytest.mark.parametrize(
    ("state", "volume", "claims"),
    [
        ({}, {"emptyDir": {}}, []),
        ({"size": "1Gi"}, {"persistentVolumeClaim": {"claimName": "accelscope-fleet"}}, ["accelscope-fleet"]),
        ({"existingClaim": "mine"}, {"persistentVolumeClaim": {"claimName": "mine"}}, []),
        ({"existingClaim": "mine", "size": "1Gi"}, {"persistentVolumeClaim": {"claimName": "mine"}}, []),
    ],
)
def test_history_is_stored_in_the_configured_volume(
    render: Render, state: dict[str, str], volume: dict[str, Any], claims: list[str]
) -> None:
    objects = render(fleet={**ON, "state": state})
    [found] = [each for each in fleet(objects)["volumes"] if each["name"] == "state"]
    assert found == {"name": "state", **volume}
    assert [each["metadata"]["name"] for each in of_kind(objects, "PersistentVolumeClaim")] == claims


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ({}, "registry.test/accelscope-fleet:0.1.0"),
        ({"tag": "1"}, "registry.test/accelscope-fleet:1"),
        ({"tag": "1", "fleet": {"tag": "2", "repository": "mine"}}, "registry.test/mine:2"),
    ],
)
def test_fleet_has_its_own_image_in_the_same_registry(
    render: Render, image: dict[str, Any], expected: str
) -> None:
    common = {"registry": "registry.test", **{key: each for key, each in image.items() if key != "fleet"}}
    pod = fleet(render(image=common, fleet={**ON, "image": image.get("fleet", {})}))
    assert container(pod)["image"] == expected


def test_selectors_match_only_their_own_pods(render: Render) -> None:
    objects = render(
        fleet=ON,
        devicePlugin={"enabled": True},
        scrape={"by": "serviceMonitor"},
        networkPolicy={"enabled": True},
    )
    chosen = [each["spec"]["selector"] for each in of_kind(objects, "Service")]
    chosen += [
        each["spec"]["selector"]["matchLabels"] for each in of_kind(objects, "ServiceMonitor", "Deployment")
    ]
    chosen += [each["spec"]["podSelector"]["matchLabels"] for each in of_kind(objects, "NetworkPolicy")]
    labels = [
        each["spec"]["template"]["metadata"]["labels"] for each in of_kind(objects, "DaemonSet", "Deployment")
    ]
    for selector in chosen:
        hit = {each["app.kubernetes.io/component"] for each in labels if selector.items() <= each.items()}
        assert hit == {selector["app.kubernetes.io/component"]}
    assert {each["app.kubernetes.io/component"] for each in chosen} == {"agent", "device-plugin", "fleet"}


@pytest.mark.parametrize(
    ("by", "auth", "annotated", "kinds"),
    [
        ("annotations", TOKENS["auth"], False, set()),
        ("annotations", {"insecureNoAuth": True}, True, set()),
        ("none", {"insecureNoAuth": True}, False, set()),
        ("serviceMonitor", TOKENS["auth"], False, {"ServiceMonitor"}),
        ("podMonitor", TOKENS["auth"], False, {"PodMonitor"}),
    ],
)
def test_fleet_is_scraped_only_if_a_token_can_be_sent(
    render: Render, by: str, auth: dict[str, Any], annotated: bool, kinds: set[str]
) -> None:
    bearer = {"authorization": {"credentials": {"name": "fleet-scrape", "key": "token"}}}
    objects = render(
        agents=NO_AGENTS,
        fleet={"enabled": True, "auth": auth, "scrapeEndpoint": bearer},
        scrape={"by": by, "interval": "30s"},
    )
    [deployment] = of_kind(objects, "Deployment")
    annotations = deployment["spec"]["template"]["metadata"]["annotations"]
    assert annotations.get("prometheus.io/port") == ("8080" if annotated else None)
    monitors = [each for each in objects if each["kind"].endswith("Monitor")]
    assert {each["kind"] for each in monitors} == kinds
    for monitor in monitors:
        [endpoint] = monitor["spec"].get("endpoints") or monitor["spec"]["podMetricsEndpoints"]
        named = {"port": "http", "path": "/metrics", "honorLabels": True}
        assert endpoint == {**named, "interval": "30s", **bearer}


# --- account for a fleet elsewhere -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, {"": NODES, "metrics": PODS | PROXY}),
        ({"agents": {"via": "direct", "namespace": "gpus"}}, {"": NODES, "gpus": PODS}),
        ({"agents": {"enabled": False}}, {"": NODES}),
        (
            {"agents": {"enabled": False}, "exec": {"enabled": True}},
            {"": NODES, "gpu-operator": PODS | EXEC},
        ),
        ({"agents": {"enabled": False}, "tokenReviews": True}, {"": NODES | REVIEWS}),
    ],
    ids=["agents", "direct", "annotations", "exec", "reviews"],
)
def test_reader_has_the_permissions_of_its_sources(
    render: Render, values: dict[str, Any], expected: dict[str, set[tuple[str, str]]]
) -> None:
    objects = render(agents=NO_AGENTS, fleetReader={"enabled": True, **values})
    account = "accelscope-fleet-reader"
    assert {each["metadata"]["name"] for each in of_kind(objects, "ServiceAccount")} == {account}
    assert local_rights(objects, account) == expected
    [secret] = of_kind(objects, "Secret")
    assert secret["type"] == "kubernetes.io/service-account-token"
    assert secret["metadata"]["annotations"] == {"kubernetes.io/service-account.name": account}


def test_reader_without_a_permanent_token(render: Render) -> None:
    assert not of_kind(render(fleetReader={"enabled": True, "tokenSecret": False}), "Secret")


def test_fleet_and_reader_have_separate_accounts(render: Render) -> None:
    """A cluster can run a fleet and be read by another fleet."""
    objects = render(fleet=ON, fleetReader={"enabled": True, "exec": {"enabled": True}})
    seen = [(each["kind"], each["metadata"].get("namespace"), each["metadata"]["name"]) for each in objects]
    assert len(seen) == len(set(seen))
    assert local_rights(objects, "accelscope-fleet") == {"": NODES, "metrics": PODS | PROXY}
