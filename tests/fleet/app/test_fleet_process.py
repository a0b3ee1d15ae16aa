"""`accelscope fleet` as the child process that users start."""

import asyncio
import json
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml
from aiohttp import web
from prometheus_client.parser import text_string_to_metric_families
from tests.files import put
from tests.fleet.api_server.served import Handler, served, status
from tests.fleet.loop import run
from tests.fleet.sources.stub_cluster import StubCluster, answering, node
from tests.kube.reviews import Reviews
from tests.ports import free_port

from accelscope.cli import output
from accelscope.cli.main import main
from accelscope.fleet.api.access import SCOPE_PATHS, AccessScope, TokensFile
from accelscope.kube.token_review import ACCESS_REVIEWS, TOKEN_REVIEWS

DOCUMENT = json.loads(
    (Path(__file__).parents[2] / "agent" / "snapshots" / "1.1" / "nvidia-sick.json").read_text()
)
TOKEN = "the-cluster-s-own-token"


def stub() -> StubCluster:
    cluster = StubCluster()
    cluster.nodes["node-0"] = node("node-0", gpus=8)
    cluster.add_agent("agent-0", "node-0", answering(DOCUMENT, tag='"1"', age=1.0))
    cluster.refusal = lambda request: (
        status(401, f"{TOKEN} was expected")
        if request.headers.get("Authorization") != f"Bearer {TOKEN}"
        else None
    )
    return cluster


def clusters_file(folder: Path, **urls: str) -> Path:
    token = folder / "cluster.token"
    token.write_text(TOKEN)
    entries = [
        {
            "id": id_,
            "simulated": True,
            "server": {"url": url, "tokenFile": str(token)},
            "sources": {"agents": {}, "annotations": {}},
        }
        for id_, url in urls.items()
    ]
    path = folder / "clusters.yaml"
    path.write_text(yaml.safe_dump({"clusters": entries}))
    return path


class Fleet:
    def __init__(self, process: asyncio.subprocess.Process, port: int) -> None:
        self.process = process
        self.url = f"http://127.0.0.1:{port}"
        self.output = ""

    async def get(self, path: str, **options: Any) -> tuple[int, str]:
        async with aiohttp.ClientSession() as client, client.get(self.url + path, **options) as answer:
            return answer.status, await answer.text()

    async def json(self, path: str, **options: Any) -> Any:
        code, text = await self.get(path, **options)
        assert code == 200, text
        return json.loads(text)

    async def until_ready(self) -> None:
        for _ in range(600):
            assert self.process.returncode is None, await self.ended()
            try:
                if (await self.get("/readyz"))[0] == 200:
                    return
            except aiohttp.ClientConnectionError:
                pass
            await asyncio.sleep(0.1)
        raise AssertionError("it was never ready")

    async def until_said(self, words: str) -> None:
        assert self.process.stderr is not None
        async with asyncio.timeout(60):
            while words not in self.output:
                line = await self.process.stderr.readline()
                assert line, self.output
                self.output += line.decode()

    async def ended(self) -> str:
        assert self.process.stderr is not None
        self.output += (await self.process.stderr.read()).decode()
        await self.process.wait()
        return self.output


@asynccontextmanager
async def fleet(*options: str) -> AsyncIterator[Fleet]:
    port = free_port()
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "accelscope",
        "fleet",
        "--listen-port",
        str(port),
        *options,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield Fleet(process, port)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        process._transport.close()  # type: ignore[attr-defined]


def test_a_fleet_serves_until_sigterm(tmp_path: Path) -> None:
    async def go() -> None:
        async with (
            stub().running() as server,
            fleet(
                "--clusters-file",
                str(clusters_file(tmp_path, berlin=server.url, nowhere="http://127.0.0.1:9")),
                "--state-folder",
                str(tmp_path),
            ) as running,
        ):
            await running.until_ready()
            clusters = {each["id"]: each for each in (await running.json("/api/v1/clusters"))["items"]}
            assert clusters["berlin"]["reachable"] is True
            assert clusters["berlin"]["devices"] == len(DOCUMENT["devices"])
            assert clusters["nowhere"]["reachable"] is False
            assert clusters["nowhere"]["reason"] == "unreachable"
            [gpus] = [
                each for each in await running.json("/api/v1/gpu/nodes") if each["cluster_id"] == "berlin"
            ]
            assert gpus["node_name"] == "node-0"
            assert gpus["simulated"] is True
            assert (await running.get("/healthz"))[0] == 200
            _, page = await running.get("/metrics")
            samples = {
                (sample.name, *sorted(sample.labels.items())): sample.value
                for family in text_string_to_metric_families(page)
                for sample in family.samples
            }
            assert samples["accelscope_fleet_cluster_up", ("cluster", "berlin")] == 1
            assert samples["accelscope_fleet_cluster_up", ("cluster", "nowhere")] == 0
            up = ("accelscope_fleet_source_up", ("cluster", "berlin"), ("source", "agents"))
            assert samples[up] == 1
            assert samples["accelscope_fleet_nodes", ("cluster", "berlin"), ("state", "fresh")] == 1
            running.process.send_signal(signal.SIGTERM)
            output = await running.ended()
            assert running.process.returncode == 0
            assert TOKEN not in output
            assert "Traceback" not in output
            assert output.count("cluster is unreachable") == 1

    run(go(), 90)


def test_a_changed_settings_file_is_applied(tmp_path: Path) -> None:
    settings = tmp_path / "fleet.yaml"
    settings.write_text("logLevel: info\n")
    clusters = clusters_file(tmp_path, nowhere="http://127.0.0.1:9")

    async def go() -> None:
        async with fleet("--clusters-file", str(clusters), "--config-file", str(settings)) as running:
            await running.until_said("serves 1 clusters")
            put(settings, "logLevel: loud\n")
            await running.until_said("the new settings file is bad, the old settings stay")
            put(settings, "logLevel: debug\nagentsAtOnce: 3\n")
            await running.until_said("settings that need a restart: agentsAtOnce")
            await running.until_said("the settings file was taken up changed=logLevel")
            put(settings, "logLevel: debug\n")
            await running.until_said("settings that no longer need a restart: agentsAtOnce")

    run(go(), 90)


def test_requests_without_a_token_are_rejected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fleet", "token", "create", "grafana", "--cluster", "berlin"]) == 0
    made = capsys.readouterr()
    token = made.out.strip()
    assert token not in made.err
    tokens = tmp_path / "tokens.yaml"
    tokens.write_text("tokens:\n" + made.err.partition("tokens:\n")[2])
    caller = TokensFile(str(tokens)).caller(token)
    assert caller is not None
    assert (caller.name, caller.clusters) == ("grafana", frozenset({"berlin"}))

    async def go() -> None:
        async with (
            stub().running() as server,
            fleet(
                "--clusters-file",
                str(clusters_file(tmp_path, berlin=server.url, paris=server.url)),
                "--tokens-file",
                str(tokens),
            ) as running,
        ):
            await running.until_ready()
            assert (await running.get("/api/v1/clusters"))[0] == 401
            shown = {"Authorization": f"Bearer {token}"}
            clusters = await running.json("/api/v1/clusters", headers=shown)
            assert [each["id"] for each in clusters["items"]] == ["berlin"]
            running.process.send_signal(signal.SIGINT)
            output = await running.ended()
            assert running.process.returncode == 0
            assert token not in output

    run(go(), 90)


def vouching_for(token: str) -> Handler:
    """An API server with one user, who may read."""
    reviews = Reviews({token: "ann"}, {"ann": {SCOPE_PATHS[AccessScope.READ]}})

    async def answer(request: web.BaseRequest) -> web.Response:
        if request.path in (TOKEN_REVIEWS, ACCESS_REVIEWS):
            return web.json_response(reviews.answer(request.path, await request.read()))
        return status(404, "not found")

    return answer


def test_token_reviews_follow_the_list_of_clusters(tmp_path: Path) -> None:
    listed = clusters_file(tmp_path, own="http://127.0.0.1:9")

    def list_as(**urls: str) -> None:
        (tmp_path / "next").mkdir(exist_ok=True)
        put(listed, clusters_file(tmp_path / "next", **urls).read_text())

    async def go() -> None:
        async with served(vouching_for("t-first")) as first, served(vouching_for("t-second")) as second:
            list_as(own=first.url)
            options = ("--clusters-file", str(listed), "--token-review-cluster", "own")
            async with fleet(*options) as running:

                async def statuses() -> list[int]:
                    shown = [{"Authorization": f"Bearer {token}"} for token in ("t-first", "t-second")]
                    return [(await running.get("/api/v1/nodes", headers=headers))[0] for headers in shown]

                await running.until_ready()
                assert await statuses() == [200, 401]
                list_as(own=second.url)
                await running.until_said("the access to the cluster that reviews tokens has changed")
                assert await statuses() == [401, 200]
                list_as(another=second.url)
                await running.until_said("was removed from the list")
                assert await statuses() == [503, 503]
                running.output = ""
                list_as(own=second.url)
                await running.until_said("the access to the cluster that reviews tokens has changed")
                assert await statuses() == [401, 200]
                running.process.send_signal(signal.SIGTERM)
                assert "Traceback" not in await running.ended()
                assert running.process.returncode == 0

    run(go(), 90)


@pytest.mark.parametrize(
    ("options", "output"),
    [
        (["--listen-port", "eighty"], "--listen-port"),
        (["--refresh-interval", "0"], "--refresh-interval"),
        (
            ["--listen-host", "0.0.0.0"],
            "set --tokens-file or --token-review-cluster, listen on 127.0.0.1, or set --insecure-no-auth",
        ),
        (["--tls-key", "key.pem"], "--tls-certificate"),
        (["--stale-after", "2h"], "--forget-after"),
        (["--token-review-cluster", "paris"], "paris"),
        (["--tokens-file", "{folder}/nothing.yaml"], "nothing.yaml"),
        (["--state-folder", "{folder}/nothing"], "--state-folder"),
        (["--kube-context", "berlin"], "--clusters-file"),
        (["--clusters-file", "{folder}/nothing.yaml"], "nothing.yaml"),
        (["--config-file", "{folder}/nothing.yaml"], "nothing.yaml"),
    ],
)
def test_invalid_options_are_reported_in_one_line(
    options: list[str], output: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    listed = ["--clusters-file", str(clusters_file(tmp_path, berlin="http://127.0.0.1:9"))]
    given = [option.format(folder=tmp_path) for option in options]
    assert main(["fleet", *listed, *given]) == 2
    error = capsys.readouterr().err
    assert error.startswith("accelscope fleet: ")
    assert error.count("\n") == 1
    assert output in error


def test_a_port_in_use_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        path = clusters_file(tmp_path, berlin="http://127.0.0.1:9")
        assert main(["fleet", "--clusters-file", str(path), "--listen-port", str(port)]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    problem = f"cannot listen on 127.0.0.1:{port}: Address already in use; choose another with --listen-port"
    assert error == f"accelscope fleet: {problem}"


def test_without_the_extra_the_error_names_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(output, "find_spec", lambda name: None)
    assert main(["fleet", "--clusters-file", str(tmp_path / "clusters.yaml")]) == 2
    assert "pip install 'accelscope[fleet]'" in capsys.readouterr().err
    assert main(["fleet", "token", "create", "somebody"]) == 2


@pytest.mark.parametrize("name", ["", "a b", "../x", "x" * 64])
def test_an_invalid_token_name_is_rejected(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fleet", "token", "create", name]) == 2
    assert "is not a name of letters" in capsys.readouterr().err
