"""Run a coroutine in a test: in a loop of its own, that ends, with all that it began, in bounded time."""

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
