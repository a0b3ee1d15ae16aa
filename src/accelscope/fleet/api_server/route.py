"""How to reach a server: address, proxy, TLS context and credentials, current while files are rotated."""

import asyncio
import ipaddress
import logging
import os
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from accelscope.config import ConfigError
from accelscope.config.log import fields
from accelscope.filewatch import FileWatch
from accelscope.fleet.api_server.credentials import Credentials, CredentialSource
from accelscope.fleet.clusters.entry import (
    Access,
    Identity,
    KubeconfigAccess,
    Server,
    checked_proxy,
)
from accelscope.fleet.clusters.kubeconfig import resolve
from accelscope.kube.endpoint import PemSource, is_loopback
from accelscope.kube.errors import KubeError, Reason
from accelscope.kube.tls import client_context


class Trust:
    """Makes contexts; the last one is kept until a file of it changes. A new context means new connections,
    so that those made with what was rotated away end by themselves."""

    def __init__(self, server: Server, identity: Identity) -> None:
        self._server = server
        self._identity = identity
        materials = (server.authority, identity.certificate, identity.key)
        paths = {
            material.path for material in materials if material is not None and material.path is not None
        }
        self._watches = [FileWatch(path) for path in sorted(paths)]
        self._kept: tuple[tuple[bytes, bytes] | None, ssl.SSLContext] | None = None
        self._generation = 0

    def look(self) -> None:
        """Notice files that are others than before."""
        changed = [watch.changed() for watch in self._watches]  # each must be asked, hence no lazy any()
        if any(changed):
            self._generation += 1
            self._kept = None

    def kept(self, given: tuple[bytes, bytes] | None) -> ssl.SSLContext | None:
        """The context for this certificate of a plugin (None: there is no such), if it is made already."""
        return self._kept[1] if self._kept is not None and self._kept[0] == given else None

    def make(self, given: tuple[bytes, bytes] | None) -> ssl.SSLContext:
        """Reads files for some milliseconds: not for an event loop. Raises KubeError."""
        generation = self._generation
        certificate, key = self._identity.certificate, self._identity.key
        if given is not None:
            certificate = PemSource("certificate of the credential plugin", content=given[0])
            key = PemSource("key of the credential plugin", content=given[1])
        context = client_context(
            authority=self._server.authority,
            certificate=certificate,
            key=key,
            skip_verify=self._server.skip_tls_verify,
        )
        if generation == self._generation:  # else it is of files that changed meanwhile
            self._kept = (given, context)
        return context


def environment_proxy(url: str, environ: Mapping[str, str]) -> str | None:
    """HTTPS_PROXY or HTTP_PROXY, unless NO_PROXY names the host. Raises ConfigError."""
    parts = urlsplit(url)
    name = f"{parts.scheme}_proxy"
    proxy = environ.get(name.upper()) or environ.get(name)
    host = parts.hostname or ""
    if not proxy or is_loopback(host):
        return None
    port = parts.port or (443 if parts.scheme == "https" else 80)
    exempt = environ.get("NO_PROXY") or environ.get("no_proxy") or ""
    if any(_matches(rule.strip().lower(), host.lower(), port) for rule in exempt.split(",")):
        return None
    return checked_proxy(proxy if "://" in proxy else f"http://{proxy}")


def _matches(rule: str, host: str, port: int) -> bool:
    """`*`, an address, a network, a domain with all below it, `.domain` for those below it only; `:port`
    after them."""
    if rule in ("", "*"):
        return rule == "*"
    address = _address(host)
    if "/" in rule:
        return address is not None and address in (_network(rule) or ())
    if _address(rule) is None and rule.rpartition("]")[2].count(":") == 1:
        rule, _, wanted = rule.rpartition(":")
        if wanted != str(port):
            return False
    if (exact := _address(rule.strip("[]"))) is not None:
        return address == exact
    rule = rule.removeprefix("*")
    return host.endswith(rule) if rule.startswith(".") else f".{host}".endswith(f".{rule}")


def _network(rule: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    try:
        return ipaddress.ip_network(rule, strict=False)
    except ValueError:
        return None


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


log = logging.getLogger(__name__)

_LOOK_SECONDS = 1.0  # between looks at the files


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    url: str  # of the server, without a slash at its end
    credentials: Credentials
    tls: ssl.SSLContext | None  # None: the server is not https
    tls_server_name: str | None = None
    authority: str | None = None  # the CA, by name, for errors
    proxy: str | None = field(default=None, repr=False)
    compression: bool = True


class Routes:
    """Gives the Route of the moment."""

    def __init__(self, access: Access, environ: Mapping[str, str] = os.environ) -> None:
        self._access = access
        self._environ = environ
        self._watches = (
            [FileWatch(path) for path in access.paths] if isinstance(access, KubeconfigAccess) else []
        )
        self._looked_at = float("-inf")
        self._lock = asyncio.Lock()
        self._resolved: _Resolved | None = None
        self._failure: KubeError | None = None  # of the last attempt to resolve it, until files are looked at

    async def current(self) -> Route:
        """Raises KubeError."""
        resolved = await self._current()
        credentials = await resolved.credentials.current()
        if not resolved.secure:
            return resolved.route(credentials, None)
        if (tls := resolved.trust.kept(credentials.certificate)) is None:
            async with self._lock:
                tls = resolved.trust.kept(credentials.certificate)
                if tls is None:
                    tls = await asyncio.to_thread(resolved.trust.make, credentials.certificate)
        return resolved.route(credentials, tls)

    async def credentials(self) -> Credentials | None:
        """Those that would be shown now; None where there is something wrong with them."""
        try:
            return await (await self._current()).credentials.current()
        except KubeError:
            return None

    def refused(self, route: Route) -> bool:
        """The server answered 401; whether it makes sense to ask for a route once more."""
        return self._resolved is not None and self._resolved.credentials.refused(route.credentials)

    async def _current(self) -> "_Resolved":
        self._look()
        if (resolved := self._resolved) is not None:
            return resolved
        async with self._lock:
            if self._failure is not None:
                raise KubeError(self._failure.reason, self._failure.text)
            if self._resolved is None:
                try:
                    self._resolved = await asyncio.to_thread(_Resolved, self._access, self._environ)
                except KubeError as error:
                    self._failure = error
                    raise
            return self._resolved

    def _look(self) -> None:
        now = time.monotonic()
        if now - self._looked_at < _LOOK_SECONDS:
            return
        self._looked_at, self._failure = now, None
        changed = [watch.changed() for watch in self._watches]  # each must be asked, hence no lazy any()
        if any(changed):
            self._resolved = None
        if self._resolved is not None:
            self._resolved.trust.look()


class _Resolved:
    """Raises KubeError."""

    def __init__(self, access: Access, environ: Mapping[str, str]) -> None:
        try:
            self._server, identity = resolve(access)
            self._proxy = self._server.proxy_url or environment_proxy(self._server.url, environ)
        except ConfigError as error:
            raise KubeError(Reason.UNREACHABLE, str(error)) from None
        self.secure = self._server.url.startswith("https://")
        if self.secure and self._server.skip_tls_verify:
            log.warning(
                "a server's certificate is not checked, as asked: whoever answers gets our token",
                extra=fields(url=self._server.url),
            )
        self.credentials = CredentialSource(identity, environ)
        self.trust = Trust(self._server, identity)

    def route(self, credentials: Credentials, tls: ssl.SSLContext | None) -> Route:
        server = self._server
        return Route(
            url=server.url,
            credentials=credentials,
            tls=tls,
            tls_server_name=server.tls_server_name,
            authority=None if server.authority is None else server.authority.name,
            proxy=self._proxy,
            compression=server.compression,
        )
