"""Authentication, scopes and visible clusters."""

import json
import os
import time
from pathlib import Path

import pytest
from tests.fleet.api.serving import nvidia, report, serving, snapshot, tokens_file

from accelscope.config import ConfigError
from accelscope.fleet.api.access import (
    AccessControl,
    AccessScope,
    Caller,
    TokensFile,
    check_exposure,
    make_token,
    read_tokens,
)
from accelscope.rate_limit import Rate


def guarded(folder: Path) -> AccessControl:
    return AccessControl(tokens=TokensFile(str(tokens_file(folder))))


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


async def test_only_probes_and_api_documents_are_served_without_a_token(tmp_path: Path) -> None:
    async with serving(access=guarded(tmp_path)) as client:
        for path in (
            "/api/v1/devices",
            "/api/v1/gpu/nodes",
            "/api/v1/stream",
            "/metrics",
            "/api/v1/version",
        ):
            status, headers, _ = await client.ask(path)
            assert (status, headers["WWW-Authenticate"]) == (401, 'Bearer realm="accelscope"')
        for path in ("/healthz", "/readyz", "/docs", "/openapi.json"):
            assert (await client.ask(path))[0] == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        (bearer("reader"), 200),
        ({"Authorization": "bearer reader"}, 200),
        ({"X-AccelScope-Token": "reader"}, 200),
        (bearer("Reader"), 401),
        (bearer("wrong"), 401),
        ({"Authorization": "Basic cmVhZGVyOg=="}, 401),
        ({"Authorization": "Bearer "}, 401),
        (bearer("x" * 9000), 401),
    ],
)
async def test_two_headers_accept_a_token(tmp_path: Path, headers: dict[str, str], status: int) -> None:
    async with serving(access=guarded(tmp_path)) as client:
        assert (await client.ask("/api/v1/nodes", headers=headers))[0] == status


async def test_the_read_scope_does_not_allow_a_refresh(tmp_path: Path) -> None:
    async with serving(access=guarded(tmp_path)) as client:
        path = "/api/v1/clusters/berlin/refresh"
        assert (await client.ask(path, "POST", headers=bearer("reader")))[0] == 403
        assert (await client.ask(path, "POST", headers=bearer("everything")))[0] == 200
        assert client.refreshed == ["berlin"]


async def test_a_limited_token_sees_only_its_clusters(tmp_path: Path) -> None:
    async with serving(access=guarded(tmp_path), token="parisian") as client:
        clusters = await client.get("/api/v1/clusters")
        assert [cluster["id"] for cluster in clusters["items"]] == ["paris", "rome"]
        for name in ("nodes", "devices"):
            page = await client.get(f"/api/v1/{name}")
            assert {item["cluster"] for item in page["items"]} == {"paris"}
        for name in ("pods", "processes", "namespaces", "idle"):
            assert (await client.get(f"/api/v1/{name}"))["total"] == 0
        assert (await client.get("/api/v1/devices?cluster=berlin"))["total"] == 0
        assert (await client.get("/api/v1/devices/columns?fields=cluster"))["rows"] == 1
        assert (await client.get("/api/v1/summary"))["total"]["devices"] == 1
        assert (await client.get("/api/v1/summary?namespace=team-a"))["total"]["devices"] == 0
        assert (await client.get("/api/v1/gpu/nodes")) == []
        summaries = await client.get("/api/v1/gpu/summary")
        assert [summary["cluster_id"] for summary in summaries] == ["paris", "rome"]
        health = await client.get("/api/v1/health")
        assert health["devices"] == []
        assert [cluster["id"] for cluster in health["clusters"]] == ["rome"]
        events = await client.get("/api/v1/events?limit=1000")
        assert {event["cluster"] for event in events["items"]} <= {"paris", "rome"}
        for path in (
            "clusters/berlin",
            "nodes/berlin/alpha",
            "devices/berlin/alpha/nvidia:GPU-0",
            "pods/berlin/team-a/train-0",
            "gpu/nodes/berlin/alpha",
            "gpu/nodes?cluster_id=berlin",
            "gpu/summary?cluster_id=bonn",
        ):
            await client.get(f"/api/v1/{path}", 404)
        await client.get("/metrics", 403)


async def test_an_etag_of_one_token_is_not_valid_for_another(tmp_path: Path) -> None:
    async with serving(access=guarded(tmp_path)) as client:
        _, headers, _ = await client.ask("/api/v1/nodes", headers=bearer("reader"))
        shown = {"If-None-Match": headers["ETag"]}
        assert (await client.ask("/api/v1/nodes", headers=bearer("everything") | shown))[0] == 304
        assert (await client.ask("/api/v1/nodes", headers=bearer("parisian") | shown))[0] == 200
        assert (await client.ask("/api/v1/nodes", headers=shown))[0] == 401


async def test_a_change_in_a_hidden_cluster_does_not_change_the_generation(tmp_path: Path) -> None:
    async with serving(access=guarded(tmp_path)) as client:
        paths = ("/api/v1/nodes", "/api/v1/summary", "/api/v1/gpu/summary", "/api/v1/clusters")

        async def seen(token: str) -> list[object]:
            found: list[object] = []
            for path in paths:
                _, headers, content = await client.ask(path, headers=bearer(token))
                answer = json.loads(content)
                found += [headers["ETag"], answer["generation"] if isinstance(answer, dict) else None]
            found.append((await client.get("/api/v1/version", headers=bearer(token)))["generation"])
            return found

        limited, whole = await seen("parisian"), await seen("reader")
        client.store.take("berlin", report(snapshot("alpha", (nvidia(0),))))
        assert await seen("parisian") == limited
        assert all(a != b for a, b in zip(await seen("reader"), whole, strict=True) if a is not None)
        before = await seen("parisian")
        client.store.take("paris", report(snapshot("louvre", (nvidia(0),))))
        after = await seen("parisian")
        assert all(a != b for a, b in zip(after, before, strict=True) if a is not None)


async def test_events_of_a_hidden_cluster_are_not_returned(tmp_path: Path) -> None:
    async with serving(access=guarded(tmp_path)) as client:

        async def seen(token: str) -> tuple[object, ...]:
            answer = await client.get("/api/v1/events", headers=bearer(token))
            url = f"{client.base}/api/v1/stream"
            async with client.session.get(url, headers=bearer(token)) as stream:
                lines = [(await stream.content.readline()).decode() for _ in range(5)]
            [id_] = [line for line in lines if line.startswith("id: ")]
            return answer["first"], answer["last"], answer["next"], id_

        def change(cluster: str, node: str) -> None:
            for devices in ((nvidia(0),), ()):
                client.store.take(cluster, report(snapshot(node, devices)))

        limited, whole = await seen("parisian"), await seen("reader")
        change("berlin", "alpha")
        assert await seen("parisian") == limited
        assert (await seen("reader"))[1:] != whole[1:]
        change("paris", "louvre")
        assert (await seen("parisian"))[1:] != limited[1:]
        after = (await client.get("/api/v1/events", headers=bearer("parisian")))["next"]
        change("paris", "louvre")
        later = await client.get(f"/api/v1/events?after={after}", headers=bearer("parisian"))
        assert {event["cluster"] for event in later["items"]} == {"paris"}


async def test_only_unknown_tokens_are_rate_limited_by_address(tmp_path: Path) -> None:
    access = AccessControl(
        tokens=TokensFile(str(tokens_file(tmp_path))), failed_logins=Rate(per_second=0.01, burst=3)
    )
    async with serving(access=access) as client:
        wrong = [(await client.ask("/api/v1/nodes", headers=bearer(f"guess-{n}")))[0] for n in range(5)]
        assert wrong == [401, 401, 401, 429, 429]
        assert (await client.ask("/api/v1/nodes", headers=bearer("reader")))[0] == 200
        assert access.rejected_tokens == 3


async def test_a_changed_tokens_file_is_applied_and_an_invalid_one_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("accelscope.fleet.api.access.LOOK_SECONDS", 0.0)
    path = tokens_file(tmp_path)
    good = path.read_text()
    async with serving(access=guarded(tmp_path)) as client:

        async def status() -> int:
            return (await client.ask("/api/v1/nodes", headers=bearer("reader")))[0]

        path.write_text("tokens: []\n")
        assert await status() == 401
        path.write_text(good)
        assert await status() == 200
        path.write_text("tokens: [{name: x}]\n")
        assert await status() == 200


def test_a_new_token_works_until_it_expires(tmp_path: Path) -> None:
    made = make_token("ci", scopes=[AccessScope.READ], clusters=["berlin"], expires="2030-01-01T00:00:00Z")
    assert made.token not in made.entry
    path = tmp_path / "tokens.yaml"
    path.write_text("tokens:\n" + made.entry)
    moment = [1_800_000_000.0]
    tokens = TokensFile(str(path), clock=lambda: moment[0])
    caller = tokens.caller(made.token)
    assert caller is not None
    assert (caller.name, caller.clusters) == ("ci", frozenset({"berlin"}))
    assert not caller.may(AccessScope.ADMIN)
    moment[0] = 1_900_000_000.0
    assert tokens.caller(made.token) is None
    with pytest.raises(ConfigError, match=r"expires: .* is not a time with a time zone"):
        make_token("ci", expires="tomorrow")


HASH = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("", "no tokens"),
        ("token: []", 'unknown key "token"'),
        ("tokens: none", "tokens: not a list"),
        ("tokens: [plain]", r"tokens\[0\]: not a mapping"),
        ("tokens: [{name: x}]", r"tokens\[0\].sha256: missing; expected 64 hex"),
        (f"tokens: [{{name: 'a b', sha256: {HASH}}}]", r"tokens\[0\].name: .* is not a name of letters"),
        (
            f"tokens: [{{name: a, sha256: {HASH}, scope: read}}]",
            r'tokens\[0\]: unknown key "scope"; allowed: name.*; did you mean scopes',
        ),
        (
            f"tokens: [{{name: a, sha256: {HASH}, scopes: [write]}}]",
            r'scopes\[0\]: "write" is not one of read, admin',
        ),
        (f"tokens: [{{name: a, sha256: {HASH}, scopes: []}}]", "scopes: empty"),
        (f"tokens: [{{name: a, sha256: {HASH}, clusters: berlin}}]", "clusters: not a list"),
        (f"tokens: [{{name: a, sha256: {HASH}, clusters: }}]", "clusters: empty; omit clusters"),
        (
            f"tokens: [{{name: a, sha256: {HASH}, clusters: ['*']}}]",
            r'"\*" is not the id of a cluster.*omit clusters',
        ),
        (f"tokens: [{{name: a, sha256: {HASH}, clusters: ['a,b']}}]", '"a,b" is not the id of a cluster'),
        (f"tokens: [{{name: a, sha256: {HASH}, expires: 2027-01-01}}]", "expires: .* is not a time"),
        (f"tokens: [{{name: a, sha256: {HASH}}}, {{name: b, sha256: {HASH}}}]", "same sha256 is used twice"),
        ("tokens: [", "not valid YAML"),
    ],
)
def test_the_error_names_the_file_and_the_invalid_entry(tmp_path: Path, content: str, expected: str) -> None:
    path = tmp_path / "tokens.yaml"
    path.write_text(content)
    with pytest.raises(ConfigError, match=expected) as raised:
        read_tokens(str(path))
    assert str(raised.value).startswith(str(path))
    assert HASH not in str(raised.value)
    assert "\n" not in str(raised.value)


def test_the_error_for_an_unknown_key_contains_its_line(tmp_path: Path) -> None:
    path = tmp_path / "tokens.yaml"
    path.write_text(
        f"tokens:\n  - name: a\n    sha256: {HASH}\n  - name: b\n    sha256: {HASH}\n    scope: read\n"
    )
    with pytest.raises(ConfigError) as raised:
        read_tokens(str(path))
    assert str(raised.value).startswith(f'{path}:6: tokens[1]: unknown key "scope"; allowed: name, sha256,')


@pytest.mark.parametrize(
    ("host", "guarded_by_tokens", "insecure", "fine"),
    [
        ("127.0.0.1", False, False, True),
        ("::1", False, False, True),
        ("localhost", False, False, True),
        ("0.0.0.0", False, False, False),
        ("", False, False, False),
        ("::", False, False, False),
        ("fleet.example", False, False, False),
        ("0.0.0.0", True, False, True),
        ("0.0.0.0", False, True, True),
    ],
)
def test_listening_on_the_network_requires_tokens_or_an_explicit_option(
    host: str, guarded_by_tokens: bool, insecure: bool, fine: bool
) -> None:
    if fine:
        check_exposure(host=host, guarded=guarded_by_tokens, insecure_no_auth=insecure)
    else:
        with pytest.raises(ConfigError, match="insecure-no-auth"):
            check_exposure(host=host, guarded=guarded_by_tokens, insecure_no_auth=insecure)


@pytest.mark.parametrize(
    ("host", "status"),
    [("localhost:8080", 200), ("127.0.0.1", 200), ("[::1]:8080", 200), ("rebound.example", 403), ("", 403)],
)
async def test_a_local_server_without_tokens_rejects_other_host_names(host: str, status: int) -> None:
    async with serving(access=AccessControl(local=True)) as client:
        assert (await client.ask("/api/v1/nodes", headers={"Host": host}))[0] == status


def test_token_lookup_is_fast(tmp_path: Path) -> None:
    entries = "".join(make_token(f"t{number}").entry for number in range(500))
    path = tmp_path / "tokens.yaml"
    path.write_text("tokens:\n" + entries)
    tokens = TokensFile(str(path))
    began = time.thread_time()
    assert tokens.caller(os.urandom(8).hex()) is None
    assert time.thread_time() - began < 0.5


def test_callers_share_a_view_only_if_they_see_the_same_clusters() -> None:
    seen = [
        None,
        frozenset("*"),
        frozenset(("all",)),
        frozenset(),
        frozenset(("a,b",)),
        frozenset(("a", "b")),
    ]
    views = {Caller(name="x", scopes=frozenset(), clusters=clusters).view for clusters in seen}
    assert len(views) == len(seen)
    one, other = (Caller(name=name, scopes=frozenset(), clusters=frozenset("ab")) for name in "xy")
    assert one.view == other.view


async def test_the_accelscope_header_takes_precedence_over_authorization(tmp_path: Path) -> None:
    async with serving(access=guarded(tmp_path)) as client:
        both = {**bearer("reader"), "X-AccelScope-Token": "parisian"}
        _, headers, content = await client.ask("/api/v1/clusters", headers=both)
        assert b"paris" in content
        assert b"berlin" not in content
        assert headers["Vary"] == "Accept-Encoding, Authorization, X-AccelScope-Token"
        both = {**bearer("reader"), "X-AccelScope-Token": "wrong"}
        assert (await client.ask("/api/v1/clusters", headers=both))[0] == 401
