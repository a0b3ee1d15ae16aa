"""The fleet continues to record history despite hanging stores and unexpected errors."""

import asyncio
from functools import partial
from itertools import count
from pathlib import Path

import pytest
import yaml
from aiohttp import web
from tests.fleet.api_server.served import served
from tests.fleet.loop import run
from tests.ports import free_port
from tests.waiting import PATIENCE_SECONDS

import accelscope.fleet.app as app_module
from accelscope.config import Reloader, load
from accelscope.fleet.app import FleetProcess
from accelscope.fleet.refresh import Engine
from accelscope.fleet.settings import FleetSettings

START = 1_800_000_000.0


async def hang(_: web.BaseRequest) -> web.StreamResponse:
    await asyncio.sleep(3600)
    raise AssertionError


async def test_minutes_are_recorded_while_a_store_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store is queried for the last hour after the first minute; history is saved every ten minutes."""
    passed = count()
    hurried = partial(Engine, clock=lambda: START + 60 * next(passed) + 59.95)
    monkeypatch.setattr(app_module, "Engine", hurried)
    clusters = tmp_path / "clusters.yaml"
    async with served(hang) as store:
        source = {"prometheus": {"url": store.url, "timeout": "5m"}}
        clusters.write_text(yaml.safe_dump({"clusters": [{"id": "oslo", "sources": source}]}))
        given = {
            "clusters_file": str(clusters),
            "state_folder": str(tmp_path),
            "listen_port": str(free_port()),
        }
        process = FleetProcess(load(FleetSettings, given, {}), given, {})
        asked_to_end = asyncio.Event()
        running = asyncio.create_task(process.run(asked_to_end))
        while len(store.requests) < 2 or not (tmp_path / "history.accelscope").exists():
            assert not running.done()
            await asyncio.sleep(0.05)
        asked_to_end.set()
        await running


def test_an_error_while_checking_files_does_not_end_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    looked = count()

    def broken(_: object) -> None:
        next(looked)
        raise RuntimeError("unexpected")

    monkeypatch.setattr(app_module, "_CHECK_FILES_SECONDS", 0.02)
    monkeypatch.setattr(Reloader, "poll", broken)
    clusters = tmp_path / "clusters.yaml"
    source = {"prometheus": {"url": "http://127.0.0.1:9"}}
    clusters.write_text(yaml.safe_dump({"clusters": [{"id": "oslo", "sources": source}]}))

    async def go() -> None:
        given = {"clusters_file": str(clusters), "listen_port": str(free_port())}
        process = FleetProcess(load(FleetSettings, given, {}), given, {})
        asked_to_end = asyncio.Event()
        running = asyncio.create_task(process.run(asked_to_end))
        async with asyncio.timeout(PATIENCE_SECONDS):
            while sum(record.exc_info is not None for record in caplog.records) < 2:
                assert not running.done()
                await asyncio.sleep(0.02)
        asked_to_end.set()
        await running

    run(go())
    assert next(looked) >= 2
