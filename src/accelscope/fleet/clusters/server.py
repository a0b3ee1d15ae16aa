"""A server and who we are to it, resolved from a kubeconfig or an address: what a session needs to begin."""

from dataclasses import dataclass, field
from urllib.parse import urlsplit

from accelscope.config import ConfigError
from accelscope.kube.endpoint import Endpoint, EndpointError


@dataclass(frozen=True, slots=True)
class Material:
    """A certificate or a key in PEM form: in a file that others rotate, or at hand."""

    name: str  # where it is from, for errors
    path: str | None = None
    content: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    url: str  # without a slash at its end
    authority: Material | None = None  # None: the authorities that the system trusts
    skip_tls_verify: bool = False
    tls_server_name: str | None = None
    proxy_url: str | None = field(default=None, repr=False)  # may hold a password
    compression: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class CredentialPlugin:
    """A command that prints an ExecCredential."""

    name: str  # the user's in the kubeconfig, for errors
    api_version: str
    command: str
    arguments: tuple[str, ...] = field(default=(), repr=False)
    environment: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    install_hint: str | None = None
    # JSON of spec.cluster, where the plugin asks for it.
    cluster: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Several of these may be given: a token is shown beside a certificate, and before what a plugin says."""

    token: str | None = field(default=None, repr=False)
    token_file: str | None = None
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    certificate: Material | None = None
    key: Material | None = None
    plugin: CredentialPlugin | None = None
    impersonation: tuple[tuple[str, str], ...] = ()  # header fields


def checked_url(url: str, *, plain_http: bool = False) -> str:
    """The URL without a slash at its end. With `plain_http`, http is taken for other machines too. Raises
    ConfigError."""
    # What there is against http is the token that it would show; all other rules of a URL stay.
    judged = f"https{url.removeprefix('http')}" if plain_http and url.startswith("http://") else url
    try:
        Endpoint(judged)
    except EndpointError as error:
        raise ConfigError(str(error)) from None
    return url.rstrip("/")


def checked_proxy(url: str, *, credentials: bool = True) -> str:
    """Without `credentials`, a user or password in it is refused. Raises ConfigError, whose text holds the
    scheme at most: the rest may be a password."""
    try:
        parts = urlsplit(url)
        host = parts.hostname if parts.port != 0 else None
    except ValueError:
        raise ConfigError("the proxy's URL is not valid") from None
    if parts.scheme.startswith("socks"):
        raise ConfigError(f"a proxy of type {parts.scheme} is not supported; http and https are")
    if parts.scheme not in ("http", "https") or not host:
        raise ConfigError("the proxy's URL is not http:// or https:// with a host")
    if not credentials and "@" in parts.netloc:
        raise ConfigError("a URL with a user or password in it; put it into a kubeconfig, as its proxy-url")
    return url
