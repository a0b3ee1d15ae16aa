"""Who we are to a server at this moment: from files, a kubeconfig, or a plugin whose answer is kept."""

import asyncio
import base64
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from accelscope.fleet.api_server.credential_plugin import PluginCredential, run_plugin
from accelscope.fleet.clusters.server import CredentialPlugin, Identity
from accelscope.kube.endpoint import TokenFile
from accelscope.kube.errors import KubeError

_LOOK_SECONDS = 1.0  # between looks at a token file: there may be a thousand requests a second
_EARLY_SECONDS = 30.0  # a plugin is asked again this long before what it gave expires
_PLUGIN_SECONDS = 30.0  # between runs of a plugin whose credentials are refused, or that fails


@dataclass(frozen=True, slots=True)
class Credentials:
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)  # never to be shown, whoever repeats them
    certificate: tuple[bytes, bytes] | None = field(default=None, repr=False)  # and key, PEM, by a plugin


class CredentialSource:
    """`clock` is of seconds since the epoch."""

    def __init__(
        self,
        identity: Identity,
        environ: Mapping[str, str],
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._identity = identity
        self._token_file = None if identity.token_file is None else TokenFile(identity.token_file)
        self._plugin = None if identity.plugin is None else _KeptPlugin(identity.plugin, environ, clock)
        self._token: str | None = None
        self._looked_at = float("-inf")

    async def current(self) -> Credentials:
        """Raises KubeError."""
        identity = self._identity
        token, certificate = self._own_token(), None
        if token is None and identity.username is not None:
            pair = f"{identity.username}:{identity.password or ''}"
            encoded = base64.b64encode(pair.encode()).decode("ascii")
            return self._made(f"Basic {encoded}", (encoded, identity.password or ""), None)
        if self._plugin is not None:
            given = await self._plugin.current()
            if given.certificate is not None and given.key is not None:
                certificate = (given.certificate, given.key)
            token = token or given.token
        if token is None:
            return self._made(None, (), certificate)
        return self._made(f"Bearer {token}", (token,), certificate)

    def refused(self, shown: Credentials) -> bool:
        """The server did not take these; whether it makes sense to look for others at once."""
        self._looked_at = float("-inf")
        if self._plugin is not None:
            self._plugin.refused(shown.secrets)
        return self._plugin is not None or self._token_file is not None

    def _own_token(self) -> str | None:
        if self._token_file is None:
            return self._identity.token
        now = time.monotonic()
        if now - self._looked_at >= _LOOK_SECONDS:
            try:
                self._token = self._token_file.read()
            except KubeError:
                if self._identity.token is None:
                    raise
                self._token = self._identity.token  # what the kubeconfig has for this case
            self._looked_at = now
        return self._token

    def _made(
        self, authorization: str | None, secrets: tuple[str, ...], certificate: tuple[bytes, bytes] | None
    ) -> Credentials:
        headers = self._identity.impersonation
        if authorization is not None:
            headers = (("Authorization", authorization), *headers)
        return Credentials(headers, tuple(filter(None, secrets)), certificate)


class _KeptPlugin:
    """One run at a time, however many ask; a failure counts for a while, too."""

    def __init__(
        self, plugin: CredentialPlugin, environ: Mapping[str, str], clock: Callable[[], float]
    ) -> None:
        self._plugin = plugin
        self._environ = environ
        self._clock = clock
        self._lock = asyncio.Lock()
        self._given: PluginCredential | None = None
        self._failure: KubeError | None = None
        self._ran_at = float("-inf")  # by the monotonic clock

    async def current(self) -> PluginCredential:
        async with self._lock:
            given = self._given
            if given is not None and not self._expired(given):
                return given
            if self._failure is not None and not self._rested(_PLUGIN_SECONDS):
                raise KubeError(self._failure.reason, self._failure.text)
            try:
                self._given = await run_plugin(self._plugin, self._environ)
            except KubeError as error:
                self._given, self._failure = None, error
                raise
            finally:
                self._ran_at = time.monotonic()
            self._failure = None
            return self._given

    def refused(self, secrets: tuple[str, ...]) -> None:
        """Forget what was given, unless it is something else by now or only just came: a server that refuses
        everything must not have the plugin run for each request."""
        given = self._given
        if (
            given is not None
            and self._rested(_PLUGIN_SECONDS)
            and (given.token is None or given.token in secrets)
        ):
            self._given = None

    def _expired(self, given: PluginCredential) -> bool:
        if given.expires_at is None:
            return False
        left = given.expires_at - self._clock()
        if left <= 0:  # a plugin that gives what is over already is not run for each request either
            return self._rested(_LOOK_SECONDS)
        return left <= _EARLY_SECONDS and self._rested(_PLUGIN_SECONDS)

    def _rested(self, seconds: float) -> bool:
        return time.monotonic() - self._ran_at >= seconds
