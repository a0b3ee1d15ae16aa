"""Connection parameters of a server: URL, proxy, TLS context and credentials, reloaded when files change."""

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
from accelscope.fleet.clusters import Access, KubeconfigAccess, checked_proxy
from accelscope.fleet.kubeconfig import CredentialPlugin, Identity, ResolvedServer, resolve
from accelscope.kube.endpoint import KubeError, PemSource, Reason, TokenFile, is_loopback, one_line
from accelscope.kube.tls import client_context

# --- Credential plugins -----------------------------------------------------------


TIMEOUT_SECONDS = 60.0  # a plugin may contact a remote server
_OUTPUT_BYTES = 1 << 20
_STDERR_BYTES = 16 << 10
_LINGER_SECONDS = 1.0  # for output of child processes, and for a killed plugin to exit
# Long runs of letters and digits may be keys.
_OPAQUE = re.compile(r"(?=\S*[0-9])(?=\S*[A-Za-z])[A-Za-z0-9+/_=.~-]{32,}")
# Values of such variables are always masked. Others, such as a region, only if they are long.
_SECRET_NAME = re.compile(r"(?i)key|token|secret|passw|pwd|credential|auth")
_SHORTEST, _SHORTEST_OF_OTHERS = 3, 12  # characters


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginCredential:
    token: str | None = field(default=None, repr=False)
    certificate: bytes | None = field(default=None, repr=False)  # PEM; None if there is no key
    key: bytes | None = field(default=None, repr=False)
    expires_at: float | None = None  # seconds since the epoch


async def run_plugin(
    plugin: CredentialPlugin,
    environ: Mapping[str, str],
    *,
    timeout_seconds: float = TIMEOUT_SECONDS,
) -> PluginCredential:
    """Runs the plugin without a shell or a terminal, in its own process group. Raises KubeError."""
    environment = {**environ, **dict(plugin.environment), "KUBERNETES_EXEC_INFO": _exec_info(plugin)}
    loop = asyncio.get_running_loop()
    try:
        transport, output = await loop.subprocess_exec(
            _PluginOutput,
            plugin.command,
            *plugin.arguments,
            stdin=asyncio.subprocess.DEVNULL,
            env=environment,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        hint = f"; {plugin.install_hint}" if plugin.install_hint else ""
        why = error.strerror if isinstance(error, OSError) and error.strerror else "cannot be started"
        raise _failed(plugin, f"{plugin.command}: {why}{hint}") from None
    try:
        async with asyncio.timeout(timeout_seconds):
            await output.exited.wait()
        await _wait_briefly(output.closed)
    except TimeoutError:
        raise _failed(plugin, f"{plugin.command} did not exit within {timeout_seconds:g} s") from None
    finally:
        _kill_group(transport.get_pid())
        await _wait_briefly(output.exited)
        transport.close()
    if output.overflowed:
        raise _failed(plugin, f"{plugin.command} wrote more than {_OUTPUT_BYTES} bytes")
    if (status := transport.get_returncode()) != 0:
        message = _error_line(plugin, bytes(output.stderr))
        raise _failed(plugin, f"{plugin.command} exited with {status}{f': {message}' if message else ''}")
    return _credential(plugin, bytes(output.stdout))


async def _wait_briefly(event: asyncio.Event) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(_LINGER_SECONDS):
            await event.wait()


class _PluginOutput(asyncio.SubprocessProtocol):
    def __init__(self) -> None:
        self.stdout, self.stderr = bytearray(), bytearray()
        self.overflowed = False
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
            self.overflowed = True
            if self._transport is not None:
                _kill_group(self._transport.get_pid())

    def process_exited(self) -> None:
        self.exited.set()

    def connection_lost(self, _: Exception | None) -> None:
        self.closed.set()


def _kill_group(pid: int) -> None:
    """Kills the plugin and the processes that it started."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def _exec_info(plugin: CredentialPlugin) -> str:
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
        raise _failed(plugin, f"{plugin.command} printed another apiVersion than {plugin.api_version}")
    status = document.get("status")
    if not isinstance(status, dict):
        raise _failed(plugin, f"{plugin.command} printed no status")
    token, certificate, key = (
        _text(plugin, status, name) for name in ("token", "clientCertificateData", "clientKeyData")
    )
    if (certificate is None) != (key is None):
        raise _failed(
            plugin, f"{plugin.command} printed clientCertificateData or clientKeyData without the other"
        )
    if token is None and certificate is None:
        raise _failed(plugin, f"{plugin.command} printed neither a token nor a certificate")
    if token is not None and not all("!" <= c <= "~" for c in token):
        raise _failed(plugin, f"{plugin.command} printed an invalid token")
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
        raise _failed(plugin, f"{plugin.command} printed an invalid {key}")
    return value.strip() or None


def _expiry(plugin: CredentialPlugin, value: object) -> float | None:
    if value is None:
        return None
    try:
        moment = datetime.fromisoformat(value if isinstance(value, str) else "")
    except ValueError:
        raise _failed(plugin, f"{plugin.command} printed an invalid expirationTimestamp") from None
    if moment.tzinfo is None:
        raise _failed(plugin, f"{plugin.command} printed an expirationTimestamp without a time zone")
    return moment.timestamp()


def _error_line(plugin: CredentialPlugin, stderr: bytes) -> str:
    """The last line of stderr, which usually contains the error, with possible secrets masked."""
    lines = [line for line in stderr.decode("utf-8", "replace").splitlines() if line.strip()]
    if not lines:
        return ""
    line = lines[-1]
    values = [*plugin.environment, *map(_named, plugin.arguments)]
    # The longest first: a value may contain another.
    for name, value in sorted(values, key=lambda pair: len(pair[1]), reverse=True):
        shortest = _SHORTEST if _SECRET_NAME.search(name) else _SHORTEST_OF_OTHERS
        if len(value) >= shortest and not value.startswith("-"):
            line = line.replace(value, "[masked]")
    return one_line(_OPAQUE.sub("[masked]", line))


def _named(argument: str) -> tuple[str, str]:
    """Name and value of `--name=value`; other arguments have no name."""
    name, _, value = argument.partition("=")
    return (name, value) if value else ("", argument)


def _failed(plugin: CredentialPlugin, problem: str) -> KubeError:
    return KubeError(Reason.UNAUTHORIZED, f"{plugin.name}: credential plugin {problem}")


# --- Credentials ------------------------------------------------------------------

_CHECK_FILES_SECONDS = 1.0  # between two checks of a file: there may be a thousand requests a second
_EARLY_SECONDS = 30.0  # before a credential expires, the plugin runs again
_PLUGIN_SECONDS = 30.0  # between runs of a plugin that fails or whose credentials are rejected


@dataclass(frozen=True, slots=True)
class RequestCredentials:
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)  # masked in all error texts
    certificate: tuple[bytes, bytes] | None = field(
        default=None, repr=False
    )  # certificate and key of a plugin, PEM


class CredentialSource:
    """The current credentials of an identity. `clock` returns seconds since the epoch."""

    def __init__(
        self,
        identity: Identity,
        environ: Mapping[str, str],
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._identity = identity
        self._token_file = None if identity.token_file is None else TokenFile(identity.token_file)
        self._plugin = None if identity.plugin is None else _PluginCache(identity.plugin, environ, clock)
        self._token: str | None = None
        self._checked_at = float("-inf")

    async def current(self) -> RequestCredentials:
        """Raises KubeError."""
        identity = self._identity
        token, certificate = self._own_token(), None
        if token is None and identity.username is not None:
            pair = f"{identity.username}:{identity.password or ''}"
            encoded = base64.b64encode(pair.encode()).decode("ascii")
            return self._credentials(f"Basic {encoded}", (encoded, identity.password or ""), None)
        if self._plugin is not None:
            credential = await self._plugin.current()
            if credential.certificate is not None and credential.key is not None:
                certificate = (credential.certificate, credential.key)
            token = token or credential.token
        if token is None:
            return self._credentials(None, (), certificate)
        return self._credentials(f"Bearer {token}", (token,), certificate)

    def reject(self, rejected: RequestCredentials) -> bool:
        """Call it when the server rejected the credentials. Returns whether there may be newer ones."""
        self._checked_at = float("-inf")
        if self._plugin is not None:
            self._plugin.reject(rejected.secrets)
        return self._plugin is not None or self._token_file is not None

    def _own_token(self) -> str | None:
        if self._token_file is None:
            return self._identity.token
        now = time.monotonic()
        if now - self._checked_at >= _CHECK_FILES_SECONDS:
            try:
                self._token = self._token_file.read()
            except KubeError:
                if self._identity.token is None:
                    raise
                self._token = self._identity.token  # the kubeconfig's fallback
            self._checked_at = now
        return self._token

    def _credentials(
        self, authorization: str | None, secrets: tuple[str, ...], certificate: tuple[bytes, bytes] | None
    ) -> RequestCredentials:
        headers = self._identity.impersonation
        if authorization is not None:
            headers = (("Authorization", authorization), *headers)
        return RequestCredentials(headers, tuple(filter(None, secrets)), certificate)


class _PluginCache:
    """Caches the credential and the last failure of a plugin; runs it once at a time."""

    def __init__(
        self, plugin: CredentialPlugin, environ: Mapping[str, str], clock: Callable[[], float]
    ) -> None:
        self._plugin = plugin
        self._environ = environ
        self._clock = clock
        self._lock = asyncio.Lock()
        self._credential: PluginCredential | None = None
        self._failure: KubeError | None = None
        self._ran_at = float("-inf")  # by the monotonic clock

    async def current(self) -> PluginCredential:
        async with self._lock:
            credential = self._credential
            if credential is not None and not self._expired(credential):
                return credential
            if self._failure is not None and not self._elapsed(_PLUGIN_SECONDS):
                raise KubeError(self._failure.reason, self._failure.text)
            try:
                self._credential = await run_plugin(self._plugin, self._environ)
            except KubeError as error:
                self._credential, self._failure = None, error
                raise
            finally:
                self._ran_at = time.monotonic()
            self._failure = None
            return self._credential

    def reject(self, secrets: tuple[str, ...]) -> None:
        """Drops the credential, unless it was replaced already or is new: the plugin must not run for each
        request to a server that rejects everything."""
        credential = self._credential
        if (
            credential is not None
            and self._elapsed(_PLUGIN_SECONDS)
            and (credential.token is None or credential.token in secrets)
        ):
            self._credential = None

    def _expired(self, credential: PluginCredential) -> bool:
        if credential.expires_at is None:
            return False
        left = credential.expires_at - self._clock()
        if left <= 0:  # limited too: a plugin may return expired credentials
            return self._elapsed(_CHECK_FILES_SECONDS)
        return left <= _EARLY_SECONDS and self._elapsed(_PLUGIN_SECONDS)

    def _elapsed(self, seconds: float) -> bool:
        return time.monotonic() - self._ran_at >= seconds


# --- TLS --------------------------------------------------------------------------


class TlsContextCache:
    """Keeps the last TLS context until one of its files changes. A new context opens new connections, so that
    those with old certificates are no longer used."""

    def __init__(self, server: ResolvedServer, identity: Identity) -> None:
        self._server = server
        self._identity = identity
        sources = (server.authority, identity.certificate, identity.key)
        paths = {source.path for source in sources if source is not None and source.path is not None}
        self._watches = [FileWatch(path) for path in sorted(paths)]
        self._cached: tuple[tuple[bytes, bytes] | None, ssl.SSLContext] | None = None
        self._generation = 0

    def check_files(self) -> None:
        changed = [watch.changed() for watch in self._watches]  # a list, since each watch must be called
        if any(changed):
            self._generation += 1
            self._cached = None

    def cached(self, plugin_certificate: tuple[bytes, bytes] | None) -> ssl.SSLContext | None:
        return self._cached[1] if self._cached is not None and self._cached[0] == plugin_certificate else None

    def make(self, plugin_certificate: tuple[bytes, bytes] | None) -> ssl.SSLContext:
        """Reads files, which blocks for some milliseconds: call it in a thread. Raises KubeError."""
        generation = self._generation
        certificate, key = self._identity.certificate, self._identity.key
        if plugin_certificate is not None:
            certificate = PemSource("certificate of the credential plugin", content=plugin_certificate[0])
            key = PemSource("key of the credential plugin", content=plugin_certificate[1])
        context = client_context(
            authority=self._server.authority,
            certificate=certificate,
            key=key,
            skip_verify=self._server.skip_tls_verify,
        )
        if generation == self._generation:  # the files have not changed meanwhile
            self._cached = (plugin_certificate, context)
        return context


# --- Proxy ------------------------------------------------------------------------


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
    """A rule is `*`, an address, a network, a domain with its subdomains, or `.domain` for subdomains only,
    each optionally followed by `:port`."""
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


# --- Connection -------------------------------------------------------------------

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionParameters:
    url: str  # of the server, without a trailing slash
    credentials: RequestCredentials
    tls: ssl.SSLContext | None  # None: plain http
    tls_server_name: str | None = None
    authority: str | None = None  # name of the CA, for errors
    proxy: str | None = field(default=None, repr=False)
    compression: bool = True


class ConnectionResolver:
    """Resolves an access to its current connection parameters."""

    def __init__(self, access: Access, environ: Mapping[str, str] = os.environ) -> None:
        self._access = access
        self._environ = environ
        self._watches = (
            [FileWatch(path) for path in access.paths] if isinstance(access, KubeconfigAccess) else []
        )
        self._checked_at = float("-inf")
        self._lock = asyncio.Lock()
        self._resolved: _AccessState | None = None
        self._failure: KubeError | None = None  # of the last attempt, until the files are checked again

    async def current(self) -> ConnectionParameters:
        """Raises KubeError."""
        resolved = await self._resolve()
        credentials = await resolved.credentials.current()
        if not resolved.secure:
            return resolved.parameters(credentials, None)
        if (tls := resolved.tls_contexts.cached(credentials.certificate)) is None:
            async with self._lock:
                tls = resolved.tls_contexts.cached(credentials.certificate)
                if tls is None:
                    tls = await asyncio.to_thread(resolved.tls_contexts.make, credentials.certificate)
        return resolved.parameters(credentials, tls)

    async def credentials(self) -> RequestCredentials | None:
        """The credentials of the next request; None if they cannot be read."""
        try:
            return await (await self._resolve()).credentials.current()
        except KubeError:
            return None

    def reject(self, connection: ConnectionParameters) -> bool:
        """Call it when the server responded with 401. Returns whether there may be newer credentials."""
        return self._resolved is not None and self._resolved.credentials.reject(connection.credentials)

    async def _resolve(self) -> "_AccessState":
        self._check_files()
        if (resolved := self._resolved) is not None:
            return resolved
        async with self._lock:
            if self._failure is not None:
                raise KubeError(self._failure.reason, self._failure.text)
            if self._resolved is None:
                try:
                    self._resolved = await asyncio.to_thread(_AccessState, self._access, self._environ)
                except KubeError as error:
                    self._failure = error
                    raise
            return self._resolved

    def _check_files(self) -> None:
        now = time.monotonic()
        if now - self._checked_at < _CHECK_FILES_SECONDS:
            return
        self._checked_at, self._failure = now, None
        changed = [watch.changed() for watch in self._watches]  # a list, since each watch must be called
        if any(changed):
            self._resolved = None
        if self._resolved is not None:
            self._resolved.tls_contexts.check_files()


class _AccessState:
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
                "TLS verification is disabled for a server: its token can be intercepted",
                extra=fields(url=self._server.url),
            )
        self.credentials = CredentialSource(identity, environ)
        self.tls_contexts = TlsContextCache(self._server, identity)

    def parameters(self, credentials: RequestCredentials, tls: ssl.SSLContext | None) -> ConnectionParameters:
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
