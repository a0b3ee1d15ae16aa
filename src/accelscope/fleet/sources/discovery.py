"""Pods, or nodes, that a source needs to know of before it can ask anything."""

import asyncio
import time
from typing import Any

from accelscope.fleet.api_server import Informer
from accelscope.fleet.report import SourceOutcome
from accelscope.fleet.sources.round import joined
from accelscope.kube.errors import Reason

_PATIENCE_SECONDS = 15.0
_LOOK_SECONDS = 0.05
_NO_LIST = f"the API server did not send the list of them within {_PATIENCE_SECONDS:g} s"


async def not_found_yet(*followed: Informer[Any]) -> SourceOutcome | None:
    """Why there is nothing to go by: none of them has had a whole list yet. None: one at least has."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not any(one.synced.is_set() for one in followed):
        if all(one.error is not None for one in followed) or time.monotonic() > deadline:
            error = joined(one.error for one in followed)
            if error is None:
                return SourceOutcome(up=False, reason=Reason.TIMEOUT, text=_NO_LIST)
            return SourceOutcome(up=False, reason=error.reason, text=error.text)
        await asyncio.sleep(_LOOK_SECONDS)
    return None
