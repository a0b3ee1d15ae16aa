"""The pace of sources, which leaves the event loop to other tasks."""

import asyncio
from collections import Counter

from accelscope.fleet.sources.round import LoopThrottle, RequestPacer

TASKS = 100


class Passes:
    """Counts passes of the event loop."""

    def __init__(self) -> None:
        self.number = 0
        self._loop = asyncio.get_running_loop()
        self._next = self._loop.call_soon(self._count)

    def _count(self) -> None:
        self.number += 1
        self._next = self._loop.call_soon(self._count)

    def close(self) -> None:
        self._next.cancel()


async def test_few_requests_start_in_one_iteration_of_the_loop() -> None:
    share, pace, passes = LoopThrottle(), RequestPacer(1e9), Passes()
    begun: Counter[int] = Counter()

    async def begin() -> None:
        await share.wait(pace)
        begun[passes.number] += 1

    async with asyncio.TaskGroup() as group:
        for _ in range(TASKS):
            group.create_task(begin())
    passes.close()
    assert begun.total() == TASKS
    assert max(begun.values()) <= 16


async def test_a_cancelled_waiter_does_not_block_others() -> None:
    share, pace = LoopThrottle(), RequestPacer(1e9)
    waiting = [asyncio.create_task(share.wait(pace)) for _ in range(TASKS)]
    await asyncio.sleep(0)
    for task in waiting[10:90]:
        task.cancel()
    ended = await asyncio.gather(*waiting, return_exceptions=True)
    assert [isinstance(one, asyncio.CancelledError) for one in ended] == (
        [False] * 10 + [True] * 80 + [False] * 10
    )


async def test_one_response_is_decoded_in_an_iteration_of_the_loop() -> None:
    share, passes = LoopThrottle(), Passes()
    worked: Counter[int] = Counter()

    async def work() -> None:
        async with share.piece():
            worked[passes.number] += 1

    async with asyncio.TaskGroup() as group:
        for _ in range(TASKS):
            group.create_task(work())
    passes.close()
    assert worked.total() == TASKS
    assert max(worked.values()) == 1
