"""Entries of the clusters file, and the servers and identities that they resolve to. No I/O."""

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
    """A server by URL. Also used for agents and stores."""

    url: str
    token_file: str | None = None
    ca_file: str | None = None  # None: the CAs of the system
    insecure_skip_tls_verify: bool = False
    tls_server_name: str | None = None  # name in the certificate, if it differs from the URL's host
    proxy_url: str | None = None
    client_certificate_file: str | None = None
    client_key_file: str | None = None
    plain_http: bool = False  # allows http to other machines if no secret is sent


Access = KubeconfigAccess | AddressAccess


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentsEntry:
    """Agents selected by label, read through the pod proxy of the API server or directly at the pod's
    address."""

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
    """Commands in the driver pods of vendors."""

    namespaces: tuple[str, ...] = DRIVER_NAMESPACES
    timeout_seconds: float = 10.0  # per command
    concurrency: int = 16  # concurrent commands
    ttl_seconds: float = 15.0  # how long a result is reused
    per_second: float = 50.0  # started commands


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnotationsEntry:
    """Annotations that collectors write on Node objects; has no settings."""


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
    matchers: Mapping[str, str] = field(default_factory=dict)  # labels of this cluster's series
    tenant: str | None = None  # X-Scope-OrgID
    timeout_seconds: float = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterEntry:
    id: str
    name: str | None = None  # display name
    simulated: bool = False
    gpu: GpuSetting = "auto"
    access: Access | None = None  # None: only the Prometheus source is used
    agents: AgentsEntry | None = None
    exec: ExecEntry | None = None
    annotations: AnnotationsEntry | None = None
    prometheus: PrometheusEntry | None = None

    @property
    def secret_files(self) -> tuple[str, ...]:
        """Files with credentials of the cluster, its agents and its store."""
        paths: list[str | None] = []
        if isinstance(self.access, KubeconfigAccess):
            paths += self.access.paths
        for entry in (self.access, self.agents, self.prometheus):
            if entry is not None and not isinstance(entry, KubeconfigAccess):
                paths += [entry.token_file, entry.client_key_file]
        return tuple(path for path in paths if path is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    url: str  # without a trailing slash
    authority: PemSource | None = None  # None: the CAs of the system
    skip_tls_verify: bool = False
    tls_server_name: str | None = None
    proxy_url: str | None = field(default=None, repr=False)  # may contain a password
    compression: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class CredentialPlugin:
    """A command that prints an ExecCredential."""

    name: str  # kubeconfig and user, for errors
    api_version: str
    command: str
    arguments: tuple[str, ...] = field(default=(), repr=False)
    environment: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    install_hint: str | None = None
    # JSON of spec.cluster, if the plugin needs it.
    cluster: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Credentials of a user. A token is used together with a certificate and takes precedence over a
    plugin."""

    token: str | None = field(default=None, repr=False)
    token_file: str | None = None
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    certificate: PemSource | None = None
    key: PemSource | None = None
    plugin: CredentialPlugin | None = None
    impersonation: tuple[tuple[str, str], ...] = ()  # header fields


def checked_url(url: str, *, plain_http: bool = False) -> str:
    """The URL without a trailing slash. `plain_http` allows http to other machines. Raises ConfigError."""
    # http is rejected because it exposes the token; all other rules apply to both schemes.
    checked = f"https{url.removeprefix('http')}" if plain_http and url.startswith("http://") else url
    try:
        Endpoint(checked)
    except EndpointError as error:
        raise ConfigError(str(error)) from None
    return url.rstrip("/")


def checked_proxy(url: str, *, credentials: bool = True) -> str:
    """Without `credentials`, a URL with a user or password is rejected. Raises ConfigError, whose text
    contains at most the scheme: the rest may be a password."""
    try:
        parts = urlsplit(url)
        host = parts.hostname if parts.port != 0 else None
    except ValueError:
        raise ConfigError("the URL of the proxy is not valid") from None
    if parts.scheme.startswith("socks"):
        raise ConfigError(f"{parts.scheme} proxies are not supported; use http or https")
    if parts.scheme not in ("http", "https") or not host:
        raise ConfigError("the URL of the proxy must be http:// or https:// with a host")
    if not credentials and "@" in parts.netloc:
        raise ConfigError("must not contain a user or password; use proxy-url in a kubeconfig")
    return url
