"""How an agent is reached: through the API server's pod proxy, or straight at its pod's address."""

from collections.abc import Mapping
from typing import Protocol

from accelscope.fleet.api_server import Reply, Session, pod_proxy_path
from accelscope.fleet.api_server.objects import AgentPod
from accelscope.fleet.clusters import AddressAccess, AgentsEntry
from accelscope.kube.errors import KubeError, Reason

_PATH = "/snapshot"
_PORT_NAME = "metrics"  # of the agent's container, by our chart


class Reach(Protocol):
    """`get` raises KubeError. The limit is for what is decompressed."""

    async def get(self, pod: AgentPod, headers: Mapping[str, str], limit_bytes: int) -> Reply: ...

    async def close(self) -> None: ...


class ProxyReach:
    """The API server talks to agents for us: it must be let to their port, and we to `pods/proxy`."""

    def __init__(self, session: Session, entry: AgentsEntry) -> None:
        self._session = session
        self._entry = entry

    async def get(self, pod: AgentPod, headers: Mapping[str, str], limit_bytes: int) -> Reply:
        path = pod_proxy_path(pod.namespace, pod.name, port_of(pod, self._entry), _PATH, self._entry.scheme)
        return await self._session.get(path, headers=headers, limit_bytes=limit_bytes)

    async def close(self) -> None:
        """The session is not ours."""


class DirectReach:
    """One pool of connections for all agents of a cluster; CA and client certificate are for all of them."""

    def __init__(self, entry: AgentsEntry, *, connections: int, timeout_seconds: float) -> None:
        self._entry = entry
        access = AddressAccess(
            url=f"{entry.scheme}://agents.invalid",  # each request says which
            ca_file=entry.ca_file,
            insecure_skip_tls_verify=entry.insecure_skip_tls_verify,
            tls_server_name=entry.tls_server_name,
            client_certificate_file=entry.client_certificate_file,
            client_key_file=entry.client_key_file,
            plain_http=True,
        )
        # Without the environment: the proxy that it names is not for addresses of pods.
        self._session = Session(access, connections=connections, timeout_seconds=timeout_seconds, environ={})

    async def get(self, pod: AgentPod, headers: Mapping[str, str], limit_bytes: int) -> Reply:
        if pod.ip is None:
            raise KubeError(Reason.UNREACHABLE, f"the pod {pod.name} has no address")
        host = f"[{pod.ip}]" if ":" in pod.ip else pod.ip
        at = f"{self._entry.scheme}://{host}:{port_of(pod, self._entry)}"
        return await self._session.get(_PATH, headers=headers, limit_bytes=limit_bytes, at=at)

    async def close(self) -> None:
        await self._session.close()


def port_of(pod: AgentPod, entry: AgentsEntry) -> int:
    """The entry's where it says another than the usual; else the pod's own word for it."""
    usual = AgentsEntry().port
    return entry.port if entry.port != usual else pod.ports.get(_PORT_NAME, usual)
