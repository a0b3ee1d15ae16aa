"""How to reach a server: address, proxy, TLS context and credentials, current while files are rotated."""

import asyncio
import base64
import ipaddress
import json
import logging
import os
import re
import signal
import ssl
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import cast
from urllib.parse import urlsplit

from accelscope.config import ConfigError
from accelscope.config.log import fields
from accelscope.files import FileWatch
from accelscope.fleet.clusters.entry import (
    Access,
    CredentialPlugin,
    Identity,
    KubeconfigAccess,
    Server,
    checked_proxy,
)
from accelscope.fleet.clusters.kubeconfig import resolve
from accelscope.kube.endpoint import PemSource, TokenFile, is_loopback
from accelscope.kube.errors import KubeError, Reason, one_line
from accelscope.kube.tls import client_context

# --- credentials ------------------------------------------------------------
# Credentials for a server: from files, a kubeconfig, or a credential plugin whose output is cached.


TIMEOUT_SECONDS = 60.0  # a plugin may ask a distant server; it never waits for a person
_OUTPUT_BYTES = 1 << 20
_STDERR_BYTES = 16 << 10
_LINGER_SECONDS = 1.0  # for what a plugin's own children still write after it, and for one that was ended
# Long runs of mixed letters and digits: nobody needs to read them, and one may be a key.
_OPAQUE = re.compile(r"(?=\S*[0-9])(?=\S*[A-Za-z])[A-Za-z0-9+/_=.~-]{32,}")
# Variables whose value is a secret, however short. Others, like a region, are masked only if they are long.
_SECRET_NAME = re.compile(r"(?i)key|token|secret|passw|pwd|credential|auth")
_SHORTEST, _SHORTEST_OF_OTHERS = 3, 12  # characters


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginCredential:
    token: str | None = field(default=None, repr=False)
    certificate: bytes | None = field(default=None, repr=False)  # PEM, with its key or not at all
    key: bytes | None = field(default=None, repr=False)
    expires_at: float | None = None  # seconds since the epoch


async def run_plugin(
    plugin: CredentialPlugin,
    environ: Mapping[str, str],
    *,
    timeout_seconds: float = TIMEOUT_SECONDS,
) -> PluginCredential:
    """Without a shell, without a terminal, in a process group that ends with it. Raises KubeError."""
    environment = {**environ, **dict(plugin.environment), "KUBERNETES_EXEC_INFO": _told(plugin)}
    loop = asyncio.get_running_loop()
    try:
        transport, output = await loop.subprocess_exec(
            _Output,
            plugin.command,
            *plugin.arguments,
            stdin=asyncio.subprocess.DEVNULL,
            env=environment,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        hint = f"; {plugin.install_hint}" if plugin.install_hint else ""
        why = error.strerror if isinstance(error, OSError) and error.strerror else "it cannot be started"
        raise _failed(plugin, f"{plugin.command}: {why}{hint}") from None
    try:
        async with asyncio.timeout(timeout_seconds):
            await output.exited.wait()
        await _lingered(output.closed)
    except TimeoutError:
        raise _failed(plugin, f"{plugin.command} did not end within {timeout_seconds:g} s") from None
    finally:
        _end_group(transport.get_pid())
        await _lingered(output.exited)
        transport.close()
    if output.overflown:
        raise _failed(plugin, f"{plugin.command} wrote more than {_OUTPUT_BYTES} bytes")
    if (status := transport.get_returncode()) != 0:
        said = _complaint(plugin, bytes(output.stderr))
        raise _failed(plugin, f"{plugin.command} ended with status {status}{f': {said}' if said else ''}")
    return _credential(plugin, bytes(output.stdout))


async def _lingered(event: asyncio.Event) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(_LINGER_SECONDS):
            await event.wait()


class _Output(asyncio.SubprocessProtocol):
    def __init__(self) -> None:
        self.stdout, self.stderr = bytearray(), bytearray()
        self.overflown = False
        self.exited, self.closed = asyncio.Event(), asyncio.Event()
        self._transport: asyncio.SubprocessTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.SubprocessTransport, transport)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd != 1:
            self.stderr = (self.stderr + data)[-_STDERR_BYTES:]
        elif len(self.stdout) + len(data) <= _OUTPUT_BYTES:
            self.stdout += data
        else:
            self.overflown = True
            if self._transport is not None:
                _end_group(self._transport.get_pid())

    def process_exited(self) -> None:
        self.exited.set()

    def connection_lost(self, _: Exception | None) -> None:
        self.closed.set()


def _end_group(pid: int) -> None:
    """It leads a group of its own, so that what it started ends too."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def _told(plugin: CredentialPlugin) -> str:
    spec: dict[str, object] = {"interactive": False}
    if plugin.cluster is not None:
        spec["cluster"] = json.loads(plugin.cluster)
    return json.dumps({"kind": "ExecCredential", "apiVersion": plugin.api_version, "spec": spec})


def _credential(plugin: CredentialPlugin, output: bytes) -> PluginCredential:
    try:
        document = json.loads(output)
    except (ValueError, RecursionError):
        raise _failed(plugin, f"{plugin.command} did not print JSON") from None
    if not isinstance(document, dict) or document.get("kind") != "ExecCredential":
        raise _failed(plugin, f"{plugin.command} did not print an ExecCredential")
    if document.get("apiVersion") != plugin.api_version:
        raise _failed(plugin, f"{plugin.command} answered in another version than {plugin.api_version}")
    status = document.get("status")
    if not isinstance(status, dict):
        raise _failed(plugin, f"{plugin.command} printed no status")
    token, certificate, key = (
        _text(plugin, status, name) for name in ("token", "clientCertificateData", "clientKeyData")
    )
    if (certificate is None) != (key is None):
        raise _failed(plugin, f"{plugin.command} printed a certificate without its key, or the reverse")
    if token is None and certificate is None:
        raise _failed(plugin, f"{plugin.command} printed neither a token nor a certificate")
    if token is not None and not all("!" <= c <= "~" for c in token):
        raise _failed(plugin, f"{plugin.command} printed a token that is none")
    return PluginCredential(
        token=token,
        certificate=None if certificate is None else certificate.encode(),
        key=None if key is None else key.encode(),
        expires_at=_expiry(plugin, status.get("expirationTimestamp")),
    )


def _text(plugin: CredentialPlugin, status: Mapping[str, object], key: str) -> str | None:
    value = status.get(key)
    if value is None:
        return None
    if not isinstance(value, str) or not value.isascii():
        raise _failed(plugin, f"{plugin.command} printed a {key} that is not a text")
    return value.strip() or None


def _expiry(plugin: CredentialPlugin, value: object) -> float | None:
    if value is None:
        return None
    try:
        moment = datetime.fromisoformat(value if isinstance(value, str) else "")
    except ValueError:
        raise _failed(plugin, f"{plugin.command} printed an expirationTimestamp that is none") from None
    if moment.tzinfo is None:
        raise _failed(plugin, f"{plugin.command} printed an expirationTimestamp without a zone")
    return moment.timestamp()


def _complaint(plugin: CredentialPlugin, stderr: bytes) -> str:
    """The last line that it wrote, which is where programs say why; without what may be secret in it."""
    lines = [line for line in stderr.decode("utf-8", "replace").splitlines() if line.strip()]
    if not lines:
        return ""
    line = lines[-1]
    given = [*plugin.environment, *map(_named, plugin.arguments)]
    for name, value in sorted(given, key=lambda pair: len(pair[1]), reverse=True):  # one may hold another
        shortest = _SHORTEST if _SECRET_NAME.search(name) else _SHORTEST_OF_OTHERS
        if len(value) >= shortest and not value.startswith("-"):
            line = line.replace(value, "[masked]")
    return one_line(_OPAQUE.sub("[masked]", line))


def _named(argument: str) -> tuple[str, str]:
    """Its name, if it has one, and its value: --password=x, x."""
    name, _, value = argument.partition("=")
    return (name, value) if value else ("", argument)


def _failed(plugin: CredentialPlugin, problem: str) -> KubeError:
    return KubeError(Reason.UNAUTHORIZED, f"{plugin.name}: credential plugin {problem}")


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


class TlsContextCache:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionParameters:
    url: str  # of the server, without a slash at its end
    credentials: Credentials
    tls: ssl.SSLContext | None  # None: the server is not https
    tls_server_name: str | None = None
    authority: str | None = None  # the CA, by name, for errors
    proxy: str | None = field(default=None, repr=False)
    compression: bool = True


class ConnectionResolver:
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

    async def current(self) -> ConnectionParameters:
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

    def refused(self, route: ConnectionParameters) -> bool:
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
        self.trust = TlsContextCache(self._server, identity)

    def route(self, credentials: Credentials, tls: ssl.SSLContext | None) -> ConnectionParameters:
        server = self._server
        return ConnectionParameters(
            url=server.url,
            credentials=credentials,
            tls=tls,
            tls_server_name=server.tls_server_name,
            authority=None if server.authority is None else server.authority.name,
            proxy=self._proxy,
            compression=server.compression,
        )
