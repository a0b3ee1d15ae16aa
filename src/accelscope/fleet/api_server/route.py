"""All that a request to a server needs beside itself, kept current while kubeconfigs, tokens and certificates
are rotated."""

import asyncio
import logging
import os
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from accelscope.config import ConfigError
from accelscope.config.log import fields
from accelscope.filewatch import FileWatch
from accelscope.fleet.api_server.credentials import Credentials, CredentialSource
from accelscope.fleet.api_server.proxy import environment_proxy
from accelscope.fleet.api_server.trust import Trust
from accelscope.fleet.clusters.access import resolve
from accelscope.fleet.clusters.entry import Access, KubeconfigAccess
from accelscope.kube.errors import KubeError, Reason

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
