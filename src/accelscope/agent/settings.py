"""The agent's settings, each declared once: flag, environment variable, YAML key and reference page."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from accelscope.agent.runner import Deadlines
from accelscope.attribution.options import PodSource
from accelscope.attribution.shares import RatioError, parse_ratio
from accelscope.config import (
    BOOLEAN,
    CONFIG_FILE,
    LABELS,
    PATH,
    PATTERNS,
    PORT,
    TEXT,
    BadValue,
    Choice,
    ConfigError,
    Duration,
    List,
    Node,
    Setting,
    Text,
    ValueKind,
    WholeNumber,
    setting,
    setting_mapping,
)
from accelscope.config.log import FORMATS, LEVELS
from accelscope.config.settings import RARELY_NEEDED, flag_name
from accelscope.kube.endpoint import Endpoint, EndpointError
from accelscope.metrics import dialects
from accelscope.metrics.catalogue import INFO_LABELS
from accelscope.metrics.exposition import kubernetes_labels
from accelscope.metrics.family import SCOPE_LABELS, Scope
from accelscope.model import Vendor
from accelscope.sinks import DOMAINS
from accelscope.vendors import declarations
from accelscope.vendors.common.contract import Paths, ReaderOptions
from accelscope.vendors.declaration import VendorSetting

_RATIO_TABLES = ("devices", "models")


@dataclass(frozen=True, slots=True)
class ShareRatios:
    """The setting `shares`: the number of shares per device, by device and by model."""

    devices: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    models: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))


class _Shares(ValueKind[ShareRatios]):
    allowed = "two tables of ratios: devices (id, uuid, serial, PCI address or index) and models (patterns)"
    textual = False

    def parse_node(self, node: Node) -> ShareRatios:
        if not isinstance(node, Mapping):
            raise BadValue
        unknown = sorted(set(node) - set(_RATIO_TABLES))
        if unknown:
            raise BadValue(f"{unknown[0]} is neither {' nor '.join(_RATIO_TABLES)}")
        return ShareRatios(**{name: _ratios(name, node[name]) for name in _RATIO_TABLES if name in node})

    def text(self, value: ShareRatios) -> str:
        del value
        return ""


def _ratios(table: str, node: Node) -> Mapping[str, float]:
    if not isinstance(node, Mapping):
        raise BadValue(f"{table} is not a table of names and ratios")
    ratios = {}
    for name, ratio in node.items():
        if not isinstance(ratio, str):
            raise BadValue(f"{table}: the ratio of {name} is not a number")
        try:
            ratios[name] = parse_ratio(ratio)
        except RatioError as error:
            raise BadValue(f"{table}: {name}: {error}") from None
    return MappingProxyType(ratios)


SHARES = _Shares()
NO_SHARES = ShareRatios()


# Groups of settings. Those that are rarely needed come last in --help and in the reference.
_CONFIGURATION = "Configuration and log"
_READING = "What is read"
_PUBLISHING = "What is published"
_DIALECTS = "Replacing another exporter"
_ATTRIBUTION = "Attribution to pods"
_NODE_OBJECT = "Writing to the Node object"
_SERVING = "Serving and restricting access"
_CONNECTION = f"{RARELY_NEEDED}: connection to the API server and the kubelet"
_PATHS = f"{RARELY_NEEDED}: paths of drivers and tools"
# Those that a command needs that reads this node once.
GROUPS_FOR_READING = (_CONFIGURATION, _READING, _ATTRIBUTION, _CONNECTION, _PATHS)

_RESERVED_LABELS = frozenset({*SCOPE_LABELS[Scope.DEVICE], *INFO_LABELS, "node", "job", "instance"})
_OTHER_PATHS = frozenset({"/", "/snapshot", "/healthz", "/readyz"})
_SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
_KUBERNETES_LABELS = List(
    Text(
        "the name of a Kubernetes label",
        r"([a-z0-9]([a-z0-9.-]*[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?",
    )
)
NO_LABELS: Mapping[str, str] = MappingProxyType({})


def _vendor_setting(declared: VendorSetting, *, group: str, reloadable: bool) -> Setting:
    kind: ValueKind[Any] = PATH if declared.watched else TEXT
    if declared.choices:
        kind = Choice(*declared.choices)
    elif declared.pattern is not None:
        kind = Text(*declared.pattern)
    return Setting(
        name=declared.name,
        default=declared.default,
        kind=kind,
        help=declared.help,
        group=group,
        env_aliases=(),
        reloadable=reloadable,
        metavar=kind.metavar if declared.choices else declared.metavar,
    )


@dataclass(frozen=True, slots=True)
class AgentSettings:
    config_file: str | None = setting(
        None, CONFIG_FILE, "YAML file with these settings; re-read when it changes.", group=_CONFIGURATION
    )
    node_name: str = setting(
        "",
        TEXT,
        "Name of this node; the host name by default.",
        group=_CONFIGURATION,
        reloadable=False,
    )
    log_level: str = setting(
        "info", Choice(*LEVELS), "Lowest level of messages to log.", group=_CONFIGURATION
    )
    log_format: str = setting("text", Choice(*FORMATS), "Format of log messages.", group=_CONFIGURATION)

    collection_interval: float = setting(
        10.0,
        Duration(minimum=0.1, maximum=3600),
        "Time between two collections.",
        group=_READING,
        env_aliases=("COLLECT_INTERVAL",),
    )
    readers: tuple[str, ...] = setting(
        tuple(vendor.value for vendor in Vendor),
        List(Choice(*(vendor.value for vendor in Vendor))),
        "Vendors whose devices to read.",
        group=_READING,
        reloadable=False,
    )
    device_timeout: float = setting(
        2.0,
        Duration(minimum=0.05, maximum=600),
        "Timeout for reading one device; after it, the device is stale.",
        group=_READING,
    )
    reader_timeout: float = setting(
        10.0,
        Duration(minimum=0.1, maximum=600),
        "Timeout for listing a driver's devices, running a tool, and reading all devices of a vendor.",
        group=_READING,
        reloadable=False,
    )
    tool_interval: float = setting(
        60.0,
        Duration(minimum=1, maximum=3600),
        "Time between two runs of a slow tool that only adds values to those read in other ways.",
        group=_READING,
        reloadable=False,
        deprecated="the default suits all tools; remove this setting.",
    )
    expected_devices: int = setting(
        0,
        WholeNumber(0, 1024),
        "Expected number of devices of each vendor found; 0: the most seen since the agent started.",
        group=_READING,
    )

    metrics_path: str = setting(
        "/metrics",
        Text("a path that begins with /", r"/[A-Za-z0-9._~/-]*"),
        "Path of the metrics page.",
        group=_PUBLISHING,
        reloadable=False,
    )
    metric_allowlist: tuple[str, ...] = setting(
        (), PATTERNS, "Publish only metrics whose name matches one of these patterns.", group=_PUBLISHING
    )
    metric_denylist: tuple[str, ...] = setting(
        (), PATTERNS, "Do not publish metrics whose name matches one of these patterns.", group=_PUBLISHING
    )
    max_process_series: int = setting(
        1000,
        WholeNumber(0, 1_000_000),
        "Maximum number of series about processes; the rest is only counted.",
        group=_PUBLISHING,
    )
    labels: Mapping[str, str] = setting(
        NO_LABELS, LABELS, "Labels of this node, added to accelerator_info.", group=_PUBLISHING
    )
    dialect: tuple[str, ...] = setting(
        (),
        List(Choice(*dialects.NAMES)),
        "Publish the metrics of other exporters too, for dashboards that use them.",
        group=_DIALECTS,
    )
    dialect_options: Mapping[str, str] = setting_mapping(
        _vendor_setting(option, group=_DIALECTS, reloadable=True) for option in dialects.OPTIONS
    )

    pod_source: str = setting(
        PodSource.AUTO.value,
        Choice(*(source.value for source in PodSource)),
        "Source of this node's pods: the API server (a watch on the node's pods), the kubelet's /pods, or "
        "off. auto: the API server if the agent runs in a pod or --kube-api-url is set.",
        group=_ATTRIBUTION,
        reloadable=False,
    )
    pod_labels: tuple[str, ...] = setting(
        (),
        _KUBERNETES_LABELS,
        "Pod labels to add to the series about pods, as label_<name>.",
        group=_ATTRIBUTION,
        reloadable=False,
        metavar="NAME,...",
    )
    node_labels: tuple[str, ...] = setting(
        (),
        _KUBERNETES_LABELS,
        "Labels of the Node object to add to accelerator_info, as label_<name>. Needs permission to list and "
        "watch nodes.",
        group=_ATTRIBUTION,
        reloadable=False,
        metavar="NAME,...",
    )
    pod_resources_socket: str = setting(
        "/var/lib/kubelet/pod-resources/kubelet.sock",
        TEXT,
        "The kubelet's socket that lists the devices of each container; empty: do not use it.",
        group=_ATTRIBUTION,
        reloadable=False,
        metavar="PATH",
    )
    resource_slices: bool = setting(
        True,
        BOOLEAN,
        "Watch this node's ResourceSlices once a pod has a resource claim, to find the claim's device. Needs "
        "permission to list and watch them.",
        group=_ATTRIBUTION,
        reloadable=False,
    )
    gpu_allocation_file: str = setting(
        "gpu_allocation.txt",
        TEXT,
        "File with one number: the number of shares per device. Re-read when it changes.",
        group=_ATTRIBUTION,
        reloadable=False,
        metavar="PATH",
    )
    shares: ShareRatios = setting(
        NO_SHARES,
        SHARES,
        "Number of shares for single devices and models; overrides the file.",
        group=_ATTRIBUTION,
    )
    job_mapping_folder: str | None = setting(
        None,
        PATH,
        "Folder in which a batch scheduler writes one file per device, named by its index or uuid, with the "
        "ids of the jobs on it.",
        group=_ATTRIBUTION,
        reloadable=False,
    )

    kube_api_url: str = setting(
        "",
        TEXT,
        "URL of the API server; by default that of the cluster in which the agent runs.",
        group=_CONNECTION,
        reloadable=False,
        metavar="URL",
    )
    kube_token_file: str = setting(
        f"{_SERVICE_ACCOUNT}/token",
        TEXT,
        "Token for the API server and the kubelet. Re-read when it changes.",
        group=_CONNECTION,
        reloadable=False,
        metavar="PATH",
    )
    kube_ca_file: str = setting(
        f"{_SERVICE_ACCOUNT}/ca.crt",
        TEXT,
        "CA certificates to verify the API server with; empty: those of the system.",
        group=_CONNECTION,
        reloadable=False,
        metavar="PATH",
    )
    kube_insecure_skip_tls_verify: bool = setting(
        False,
        BOOLEAN,
        "Do not verify the API server's certificate. Any server at that address receives the token.",
        group=_CONNECTION,
        reloadable=False,
    )
    node_ip: str = setting(
        "",
        TEXT,
        "Address of this node's kubelet; 127.0.0.1 by default.",
        group=_CONNECTION,
        reloadable=False,
        metavar="ADDRESS",
    )
    kubelet_url: str = setting(
        "",
        TEXT,
        "URL of the kubelet, for --pod-source kubelet; port 10250 of --node-ip by default.",
        group=_CONNECTION,
        reloadable=False,
        metavar="URL",
    )
    kubelet_ca_file: str = setting(
        "",
        TEXT,
        "CA certificates to verify the kubelet with; those of --kube-ca-file by default.",
        group=_CONNECTION,
        reloadable=False,
        metavar="PATH",
    )
    kubelet_insecure_skip_tls_verify: bool = setting(
        False,
        BOOLEAN,
        "Do not verify the kubelet's certificate. Any server at that address receives the token.",
        group=_CONNECTION,
        reloadable=False,
    )

    vendor_annotations: Mapping[str, bool] = setting_mapping(
        Setting(
            name=vendor.annotation.setting,
            default=False,
            kind=BOOLEAN,
            help=vendor.annotation.help,
            group=_NODE_OBJECT,
            env_aliases=(),
            reloadable=False,
            metavar=BOOLEAN.metavar,
        )
        for vendor in declarations().values()
        if vendor.annotation is not None
    )
    devices_annotation: bool = setting(
        False,
        BOOLEAN,
        "Write the state of all devices to the Node's annotation accelscope.io/devices; if --readers names "
        "only some vendors, to accelscope.io/devices.<vendors>. Needs permission to patch nodes.",
        group=_NODE_OBJECT,
        reloadable=False,
    )
    annotation_interval: float = setting(
        3.0,
        Duration(minimum=1, maximum=3600),
        "Minimum time between two writes of annotations. They are written only if something changed.",
        group=_NODE_OBJECT,
        reloadable=False,
        deprecated="annotations are written only when a value has changed noticeably; remove this setting.",
    )
    annotation_heartbeat: float = setting(
        60.0,
        Duration(minimum=5, maximum=3600),
        "Maximum time between two writes of annotations, also if nothing changed; up to a tenth is "
        "subtracted at random.",
        group=_NODE_OBJECT,
        reloadable=False,
    )
    feature_labels: str = setting(
        "off",
        Choice("off", "node", "nfd"),
        "Label the Node with its devices: node writes the labels itself and needs permission to patch nodes; "
        "nfd writes a file for Node Feature Discovery.",
        group=_NODE_OBJECT,
        reloadable=False,
    )
    feature_domains: tuple[str, ...] = setting(
        DOMAINS,
        List(Choice(*DOMAINS)),
        "Prefixes of the labels: AccelScope's own for every vendor, and those of vendors' own tools.",
        group=_NODE_OBJECT,
        reloadable=False,
    )
    feature_file_folder: str = setting(
        "/etc/kubernetes/node-feature-discovery/features.d",
        TEXT,
        "Folder for feature files of Node Feature Discovery, for --feature-labels nfd.",
        group=_NODE_OBJECT,
        reloadable=False,
        metavar="PATH",
    )

    state_folder: str | None = setting(
        None,
        PATH,
        "Folder for files, readable by the agent only, that keep idle times of pods and lasting errors of "
        "devices across restarts. Without it they are not kept. Each agent needs its own folder.",
        group=_CONFIGURATION,
        reloadable=False,
    )

    exporter_host: str = setting(
        "", TEXT, "Address to listen on; all by default.", group=_SERVING, reloadable=False
    )
    exporter_port: int = setting(9400, PORT, "Port to listen on.", group=_SERVING, reloadable=False)
    tls_certificate: str | None = setting(
        None,
        PATH,
        "Certificate chain in PEM format; enables HTTPS. Re-read when it changes.",
        group=_SERVING,
        reloadable=False,
    )
    tls_key: str | None = setting(
        None, PATH, "Private key of the certificate.", group=_SERVING, reloadable=False
    )
    tls_client_ca: str | None = setting(
        None,
        PATH,
        "Require a client certificate that this CA signed. Probes need none.",
        group=_SERVING,
        reloadable=False,
    )
    token_file: str | None = setting(
        None,
        PATH,
        "File with the accepted bearer tokens, one per line. Probes need none. Re-read when it changes.",
        group=_SERVING,
        reloadable=False,
    )
    token_review: bool = setting(
        False,
        BOOLEAN,
        "Accept bearer tokens that the API server accepts and whose user may get the page's path "
        "(nonResourceURLs of a ClusterRole). With --token-file either token is enough; with --tls-client-ca "
        "the certificate is required too. Probes need none. Needs permission to create tokenreviews and "
        "subjectaccessreviews.",
        group=_SERVING,
        reloadable=False,
    )

    proc_root: str = setting(
        "/proc", TEXT, "The node's /proc.", group=_PATHS, reloadable=False, metavar="PATH"
    )
    sys_root: str = setting("/sys", TEXT, "The node's /sys.", group=_PATHS, reloadable=False, metavar="PATH")
    dev_root: str = setting("/dev", TEXT, "The node's /dev.", group=_PATHS, reloadable=False, metavar="PATH")
    passwd_file: str = setting(
        "/etc/passwd",
        TEXT,
        "The node's /etc/passwd, for user names.",
        group=_PATHS,
        reloadable=False,
        metavar="PATH",
    )
    vendor_settings: Mapping[str, str] = setting_mapping(
        _vendor_setting(declared, group=_PATHS, reloadable=False)
        for vendor in declarations().values()
        for declared in vendor.settings
    )

    def __post_init__(self) -> None:
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise ConfigError("--tls-certificate and --tls-key must be set together")
        if self.tls_client_ca is not None and self.tls_certificate is None:
            raise ConfigError("--tls-client-ca needs --tls-certificate and --tls-key")
        reserved = sorted(_RESERVED_LABELS & self.labels.keys())
        if reserved:
            raise ConfigError(
                f"--labels: {', '.join(reserved)} is reserved: AccelScope or Prometheus sets it"
            )
        if not self.readers:
            raise ConfigError(f"--readers: must contain at least one of {', '.join(Vendor)}")
        conflict = dialects.conflict(self.dialect)
        if conflict is not None:
            raise ConfigError(f"--dialect: {conflict}")
        unused = dialects.option_without_dialect(self.dialect, self.dialect_options)
        if unused is not None:
            option, name = unused
            raise ConfigError(f"{flag_name(option.name)} has no effect without --dialect {name}")
        if self.metrics_path in _OTHER_PATHS:
            raise ConfigError(f"--metrics-path: {self.metrics_path} is the path of another page")
        self._check_kubernetes()
        self._check_node_object()

    def _check_kubernetes(self) -> None:
        urls = (
            ("--kube-api-url", self.kube_api_url),
            ("--kubelet-url" if self.kubelet_url else "--node-ip", self.kubelet_address),
        )
        for flag, url in urls:
            try:
                if url:
                    Endpoint(url)
            except EndpointError as error:
                raise ConfigError(f"{flag}: {error}") from None
        for flag, names in (("--pod-labels", self.pod_labels), ("--node-labels", self.node_labels)):
            sources: dict[str, str] = {}
            for name in names:
                [(label, _)] = kubernetes_labels(((name, ""),))
                other = sources.setdefault(label, name)
                if other != name:
                    raise ConfigError(f"{flag}: {other} and {name} become the same label of a series")
                if flag == "--node-labels" and label in self.labels:
                    raise ConfigError(f"{flag}: {name} becomes {label}, which --labels sets too")

    def _check_node_object(self) -> None:
        if self.annotation_heartbeat < self.annotation_interval:
            raise ConfigError("--annotation-heartbeat: must not be shorter than --annotation-interval")
        if not self.feature_domains and self.feature_labels != "off":
            raise ConfigError(f"--feature-domains: must contain at least one of {', '.join(DOMAINS)}")

    @property
    def kubelet_address(self) -> str:
        if self.kubelet_url:
            return self.kubelet_url
        host = self.node_ip or "127.0.0.1"
        return f"https://[{host}]:10250" if ":" in host else f"https://{host}:10250"

    def load_dialects(self) -> tuple[dialects.Dialect, ...]:
        """Raises ConfigError if a file of a dialect cannot be read or is malformed."""
        try:
            return dialects.load(self.dialect, **self.dialect_options)
        except dialects.DialectError as error:
            raise ConfigError(f"{flag_name(error.option)}: {error}") from None

    @property
    def dialect_files(self) -> tuple[str, ...]:
        """Files that the chosen dialects read."""
        files = (option.of(self.dialect_options) for option in dialects.OPTIONS if option.watched)
        return tuple(file for file in files if file)

    @property
    def paths(self) -> Paths:
        return Paths(proc=Path(self.proc_root), sys=Path(self.sys_root), dev=Path(self.dev_root))

    @property
    def reader_options(self) -> ReaderOptions:
        # A tool times out before its survey, so that the error names the one that hung.
        return ReaderOptions(
            self.paths,
            self.vendor_settings,
            tool_timeout_seconds=0.8 * self.reader_timeout,
            tool_interval_seconds=self.tool_interval,
        )

    @property
    def deadlines(self) -> Deadlines:
        return Deadlines(
            survey_seconds=self.reader_timeout,
            device_seconds=self.device_timeout,
            pass_seconds=self.reader_timeout,
        )
