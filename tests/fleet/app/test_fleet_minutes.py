"""What a fleet does each minute, whatever stores do."""

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

import accelscope.fleet.app as app_module
from accelscope.config import load
from accelscope.fleet.app import FleetProcess
from accelscope.fleet.refresh.engine import Engine
from accelscope.fleet.settings import FleetSettings

START = 1_800_000_000.0


async def hang(_: web.BaseRequest) -> web.StreamResponse:
    await asyncio.sleep(3600)
    raise AssertionError


def test_minutes_pass_while_a_store_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last hour is asked of it after the first minute; every tenth, history is saved."""
    passed = count()
    hurried = partial(Engine, clock=lambda: START + 60 * next(passed) + 59.95)
    monkeypatch.setattr(app_module, "Engine", hurried)
    clusters = tmp_path / "clusters.yaml"

    async def go() -> None:
        async with served(hang) as store:
            source = {"prometheus": {"url": store.url, "timeout": "5m"}}
            clusters.write_text(yaml.safe_dump({"clusters": [{"id": "oslo", "sources": source}]}))
            given = {"clusters_file": str(clusters), "state_folder": str(tmp_path), "port": str(free_port())}
            process = FleetProcess(load(FleetSettings, given, {}), given, {})
            asked_to_end = asyncio.Event()
            running = asyncio.create_task(process.run(asked_to_end))
            while len(store.asked) < 2 or not (tmp_path / "history.accelscope").exists():
                assert not running.done()
                await asyncio.sleep(0.05)
            asked_to_end.set()
            await running

    run(go())
