"""The list of clusters: the clusters file and its entries. The file is YAML, and is validated as a whole
before it is used."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeVar, cast
from urllib.parse import urlsplit

from accelscope.config import (
    BOOLEAN,
    LABELS,
    LINE,
    PATH,
    TEXT,
    Choice,
    ConfigError,
    Decimal,
    Duration,
    List,
    Text,
    WholeNumber,
    quoted,
)
from accelscope.config.document import Section, read_document
from accelscope.files import FileWatch
from accelscope.kube.endpoint import Endpoint, EndpointError
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


# --- The clusters file --------------------------------------------------------

T = TypeVar("T")

_ID = Text(
    "an id of lower-case letters, digits, - and ., with a letter or digit at both ends",
    CLUSTER_ID,
)
_NAMESPACE = Text("the name of a namespace", r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")
_TIMEOUT = Duration(0.1, 300)
_AGENT_PORT = WholeNumber(1, 65535, "a port")
_CLUSTER_SOURCES = ("agents", "exec", "annotations")  # need the cluster's API server
# With the pod proxy the API server connects to agents and does not verify their certificates.
_DIRECT_ONLY = (
    "caFile",
    "clientCertificateFile",
    "clientKeyFile",
    "tlsServerName",
    "insecureSkipTlsVerify",
)


def kubeconfig_paths(environ: Mapping[str, str]) -> tuple[str, ...]:
    """The files that kubectl merges."""
    listed = [path for path in environ.get("KUBECONFIG", "").split(os.pathsep) if path]
    if listed:
        return tuple(dict.fromkeys(listed))
    home = environ.get("HOME", "")
    return (str(Path(home) / ".kube" / "config"),) if home else ()


class ClustersFile:
    """The clusters file and its changes. The user of this class keeps the last valid list."""

    def __init__(self, path: str, environ: Mapping[str, str] = os.environ) -> None:
        self.path = path
        self._environ = environ
        self._watch = FileWatch(path)

    def changed(self) -> bool:
        """Whether the content has changed since the last call, or since the object was created."""
        return self._watch.changed()

    def load(self) -> tuple[ClusterEntry, ...]:
        """Raises ConfigError: one line with file, line and key."""
        return load_clusters(self.path, self._environ)


def load_clusters(path: str, environ: Mapping[str, str] = os.environ) -> tuple[ClusterEntry, ...]:
    """Paths in the file are relative to its folder. Raises ConfigError: one line with file, line and key."""
    document = Section(read_document(path), file=path)
    if not document.has("clusters"):
        raise document.error(None, "clusters: is missing")
    reader = _Reader(Path(path).parent, environ)
    entries: dict[str, ClusterEntry] = {}
    for section in document.sections("clusters"):
        entry = reader.cluster(section)
        if entry.id in entries:
            raise section.error("id", f"two clusters have the id {quoted(entry.id)}")
        entries[entry.id] = entry
    document.finish()
    return tuple(entries.values())


class _Reader:
    def __init__(self, folder: Path, environ: Mapping[str, str]) -> None:
        self._folder = folder
        self._environ = environ

    def cluster(self, section: Section) -> ClusterEntry:
        cluster_id = section.require("id", _ID)
        name = section.take("name", LINE)
        simulated = section.take("simulated", BOOLEAN, False)
        gpu: str = "auto"
        if (capabilities := section.optional_section("capabilities")) is not None:
            gpu = capabilities.take("gpu", Choice("true", "false", "auto"), gpu)
            capabilities.finish()
        access = self._access(section)
        sources = section.optional_section("sources")
        entry = ClusterEntry(
            id=cluster_id,
            name=name,
            simulated=simulated,
            gpu=cast(GpuSetting, gpu),
            access=access,
            agents=self._source(sources, "agents", self._agents, AgentsEntry()),
            exec=self._source(sources, "exec", self._exec, ExecEntry()),
            annotations=self._source(sources, "annotations", self._annotations, AnnotationsEntry()),
            prometheus=self._source(sources, "prometheus", self._prometheus, None),
        )
        if sources is not None:
            sources.finish()
        section.finish()
        self._check(section, sources, entry)
        return entry

    def _check(self, section: Section, sources: Section | None, entry: ClusterEntry) -> None:
        if sources is not None and not any(map(sources.has, (*_CLUSTER_SOURCES, "prometheus"))):
            raise section.error("sources", "empty; omit sources for agents, exec and annotations")
        if entry.access is not None:
            return
        if sources is None:
            raise section.error(None, "needs kubeconfig, server or a prometheus source")
        for source in filter(sources.has, _CLUSTER_SOURCES):
            raise sources.error(source, "this source needs kubeconfig or server")

    def _access(self, section: Section) -> Access | None:
        kubeconfig, server = section.optional_section("kubeconfig"), section.optional_section("server")
        if kubeconfig is not None and server is not None:
            raise section.error("server", "kubeconfig and server exclude each other")
        if kubeconfig is not None:
            path = self._path(kubeconfig, "path")
            context = kubeconfig.take("context", LINE)
            kubeconfig.finish()
            paths = (path,) if path is not None else kubeconfig_paths(self._environ)
            return KubeconfigAccess(paths=paths, context=context)
        return None if server is None else self._server(server)

    def _server(self, server: Section) -> AddressAccess:
        access = AddressAccess(
            url=self._url(server),
            token_file=self._path(server, "tokenFile"),
            ca_file=self._path(server, "caFile"),
            insecure_skip_tls_verify=server.take("insecureSkipTlsVerify", BOOLEAN, False),
            tls_server_name=server.take("tlsServerName", LINE),
            proxy_url=server.take("proxyUrl", LINE),
            client_certificate_file=self._path(server, "clientCertificateFile"),
            client_key_file=self._path(server, "clientKeyFile"),
        )
        server.finish()
        self._check_tls(server, access)
        if access.proxy_url is not None:
            _checked(server, "proxyUrl", lambda: checked_proxy(str(access.proxy_url), credentials=False))
        return access

    def _agents(self, section: Section) -> AgentsEntry:
        defaults = AgentsEntry()
        entry = AgentsEntry(
            namespace=section.take("namespace", _NAMESPACE, defaults.namespace),
            label_selector=section.take("labelSelector", LINE, defaults.label_selector),
            via=cast(Literal["proxy", "direct"], section.take("via", Choice("proxy", "direct"), "proxy")),
            port=section.take("port", _AGENT_PORT, defaults.port),
            scheme=cast(Literal["http", "https"], section.take("scheme", Choice("http", "https"), "http")),
            token_file=self._path(section, "tokenFile"),
            ca_file=self._path(section, "caFile"),
            client_certificate_file=self._path(section, "clientCertificateFile"),
            client_key_file=self._path(section, "clientKeyFile"),
            tls_server_name=section.take("tlsServerName", LINE),
            insecure_skip_tls_verify=section.take("insecureSkipTlsVerify", BOOLEAN, False),
        )
        section.finish()
        for key in filter(section.has, _DIRECT_ONLY):
            if entry.via == "proxy" or entry.scheme == "http":
                raise section.error(key, "requires via: direct and scheme: https")
        self._check_tls(section, entry)
        return entry

    def _exec(self, section: Section) -> ExecEntry:
        defaults = ExecEntry()
        entry = ExecEntry(
            namespaces=section.take("namespaces", List(_NAMESPACE), defaults.namespaces),
            timeout_seconds=section.take("timeout", _TIMEOUT, defaults.timeout_seconds),
            concurrency=section.take("concurrency", WholeNumber(1, 1000), defaults.concurrency),
            ttl_seconds=section.take("ttl", Duration(0, 3600), defaults.ttl_seconds),
            per_second=section.take("perSecond", Decimal(0.1, 10_000), defaults.per_second),
        )
        section.finish()
        if not entry.namespaces:
            raise section.error("namespaces", "empty; remove the exec source to turn it off")
        return entry

    def _annotations(self, section: Section) -> AnnotationsEntry:
        section.finish()
        return AnnotationsEntry()

    def _prometheus(self, section: Section) -> PrometheusEntry:
        token_file = self._path(section, "tokenFile")
        entry = PrometheusEntry(
            url=self._url(section, plain_http=token_file is None),
            token_file=token_file,
            ca_file=self._path(section, "caFile"),
            client_certificate_file=self._path(section, "clientCertificateFile"),
            client_key_file=self._path(section, "clientKeyFile"),
            tls_server_name=section.take("tlsServerName", LINE),
            insecure_skip_tls_verify=section.take("insecureSkipTlsVerify", BOOLEAN, False),
            matchers=section.take("matchers", LABELS, {}),
            tenant=section.take("tenant", LINE),
            timeout_seconds=section.take("timeout", _TIMEOUT, 20.0),
        )
        section.finish()
        self._check_tls(section, entry)
        return entry

    @staticmethod
    def _source(
        sources: Section | None, key: str, read: Callable[[Section], T], default: T | None
    ) -> T | None:
        """Without `sources`, those with a default are enabled."""
        if sources is None:
            return default
        section = sources.optional_section(key)
        return None if section is None else read(section)

    @staticmethod
    def _check_tls(section: Section, entry: AddressAccess | AgentsEntry | PrometheusEntry) -> None:
        if entry.insecure_skip_tls_verify and entry.ca_file is not None:
            raise section.error(
                "insecureSkipTlsVerify", "insecureSkipTlsVerify and caFile exclude each other"
            )
        if entry.client_key_file is not None and entry.client_certificate_file is None:
            raise section.error("clientKeyFile", "requires clientCertificateFile")

    @staticmethod
    def _url(section: Section, *, plain_http: bool = False) -> str:
        url = section.require("url", TEXT)
        return _checked(section, "url", lambda: checked_url(url, plain_http=plain_http))

    def _path(self, section: Section, key: str) -> str | None:
        path = section.take(key, PATH)
        if path is None:
            return None
        if path.startswith("~/") and (home := self._environ.get("HOME")):
            path = str(Path(home) / path.removeprefix("~/"))
        return str(self._folder / path)


def _checked(section: Section, key: str, check: Callable[[], str]) -> str:
    try:
        return check()
    except ConfigError as error:
        raise section.error(key, str(error)) from None
