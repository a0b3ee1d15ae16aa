"""Clusters of the clusters file, and the servers and identities that they resolve to. No I/O."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import urlsplit

from accelscope.config import ConfigError
from accelscope.kube.endpoint import Endpoint, EndpointError, PemSource
from accelscope.vendors import declarations

AGENTS_SELECTOR = "app.kubernetes.io/name=accelscope,app.kubernetes.io/component=agent"
CLUSTER_ID = r"[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?"
DRIVER_NAMESPACES = tuple(
    namespace
    for vendor in declarations().values()
    if vendor.driver_pods is not None
    for namespace in vendor.driver_pods.namespaces
)

GpuSetting = Literal["true", "false", "auto"]


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeconfigAccess:
    """A context of a kubeconfig. Several files are merged as kubectl merges them."""

    paths: tuple[str, ...]
    context: str | None = None  # None: the current one


@dataclass(frozen=True, slots=True, kw_only=True)
class AddressAccess:
    """A server by its URL. Any HTTP server may be meant: agents and stores are reached in the same way."""

    url: str
    token_file: str | None = None
    ca_file: str | None = None  # None: the authorities that the system trusts
    insecure_skip_tls_verify: bool = False
    tls_server_name: str | None = None  # the name in the certificate, where it is not the URL's host
    proxy_url: str | None = None
    client_certificate_file: str | None = None
    client_key_file: str | None = None
    plain_http: bool = False  # http is taken for other machines too, as long as no secret is sent


Access = KubeconfigAccess | AddressAccess


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentsEntry:
    """Agents found by label; read through the API server's pod proxy, or straight at the pod's address."""

    namespace: str = "accelscope-system"
    label_selector: str = AGENTS_SELECTOR
    via: Literal["proxy", "direct"] = "proxy"
    port: int = 9400
    scheme: Literal["http", "https"] = "http"
    token_file: str | None = None
    ca_file: str | None = None
    client_certificate_file: str | None = None
    client_key_file: str | None = None
    tls_server_name: str | None = None
    insecure_skip_tls_verify: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecEntry:
    """A vendor's tool in its driver pods."""

    namespaces: tuple[str, ...] = DRIVER_NAMESPACES
    timeout_seconds: float = 10.0  # for one command
    concurrency: int = 16  # commands at a time in this cluster
    ttl_seconds: float = 15.0  # how long an answer is good for
    per_second: float = 50.0  # commands begun, at most


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnotationsEntry:
    """What collectors write into Node objects; nothing to set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrometheusEntry:
    """A Prometheus-compatible store."""

    url: str
    token_file: str | None = None
    ca_file: str | None = None
    client_certificate_file: str | None = None
    client_key_file: str | None = None
    tls_server_name: str | None = None
    insecure_skip_tls_verify: bool = False
    matchers: Mapping[str, str] = field(default_factory=dict)  # labels that this cluster's series have
    tenant: str | None = None  # X-Scope-OrgID
    timeout_seconds: float = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterEntry:
    id: str
    name: str | None = None  # for people
    simulated: bool = False
    gpu: GpuSetting = "auto"
    access: Access | None = None  # None: only a store is asked
    agents: AgentsEntry | None = None
    exec: ExecEntry | None = None
    annotations: AnnotationsEntry | None = None
    prometheus: PrometheusEntry | None = None

    @property
    def secret_files(self) -> tuple[str, ...]:
        """Paths of the files with what opens the cluster, its agents and its store."""
        paths: list[str | None] = []
        if isinstance(self.access, KubeconfigAccess):
            paths += self.access.paths
        for entry in (self.access, self.agents, self.prometheus):
            if entry is not None and not isinstance(entry, KubeconfigAccess):
                paths += [entry.token_file, entry.client_key_file]
        return tuple(path for path in paths if path is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    url: str  # without a slash at its end
    authority: PemSource | None = None  # None: the authorities that the system trusts
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
    certificate: PemSource | None = None
    key: PemSource | None = None
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
