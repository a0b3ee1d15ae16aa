"""API servers and other HTTP servers over asyncio: requests with limits, watches, commands in pods."""

from accelscope.fleet.api_server.answer import ExecResult, Reply
from accelscope.fleet.api_server.followed import Followed
from accelscope.fleet.api_server.proxy import pod_proxy_path
from accelscope.fleet.api_server.session import Session

__all__ = ["ExecResult", "Followed", "Reply", "Session", "pod_proxy_path"]
