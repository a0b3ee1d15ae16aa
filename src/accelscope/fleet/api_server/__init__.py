"""The asyncio client of API servers and other HTTP servers: requests, informers, commands in pods."""

from accelscope.fleet.api_server.http import Reply
from accelscope.fleet.api_server.session import ExecResult, Informer, Session, pod_proxy_path

__all__ = ["ExecResult", "Informer", "Reply", "Session", "pod_proxy_path"]
