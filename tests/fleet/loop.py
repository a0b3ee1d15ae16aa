"""Runs a coroutine of a test in its own loop, which ends with all its tasks in bounded time."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from tests.waiting import PATIENCE_SECONDS

T = TypeVar("T")


def run(coroutine: Coroutine[Any, Any, T], seconds: float = PATIENCE_SECONDS) -> T:
    async def bounded() -> T:
        async with asyncio.timeout(seconds):
            return await coroutine

    return asyncio.run(bounded())
