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
    Kind,
    List,
    Node,
    Setting,
    Text,
    WholeNumber,
    setting,
    setting_mapping,
)
from accelscope.config.log import FORMATS, LEVELS
from accelscope.config.settings import flag_name
from accelscope.kube.endpoint import Endpoint, EndpointError
from accelscope.metrics import dialects
from accelscope.metrics.catalogue import INFO_LABELS
from accelscope.metrics.exposition import kubernetes_labels
from accelscope.metrics.family import SCOPE_LABELS, Scope
from accelscope.model import Vendor
from accelscope.sinks.features import DOMAINS
from accelscope.vendors import declarations
from accelscope.vendors.common.contract import Paths, ReaderOptions
from accelscope.vendors.declaration import VendorSetting

# --- share ratios ------------------------------------------------------------
# The setting `shares`: into how many shares devices are cut, by device and by model.


_PARTS = ("devices", "models")


@dataclass(frozen=True, slots=True)
class ShareRatios:
    devices: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    models: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))


class _Shares(Kind[ShareRatios]):
    allowed = "two tables of ratios: devices (id, uuid, serial, PCI address or index) and models (patterns)"
    textual = False

    def parse_node(self, node: Node) -> ShareRatios:
        if not isinstance(node, Mapping):
            raise BadValue
        unknown = sorted(set(node) - set(_PARTS))
        if unknown:
            raise BadValue(f"{unknown[0]} is none of {' and '.join(_PARTS)}")
        return ShareRatios(**{part: _ratios(part, node[part]) for part in _PARTS if part in node})

    def text(self, value: ShareRatios) -> str:
        del value
        return ""


def _ratios(part: str, node: Node) -> Mapping[str, float]:
    if not isinstance(node, Mapping):
        raise BadValue(f"{part} is not a table of names and ratios")
    ratios = {}
    for name, ratio in node.items():
        if not isinstance(ratio, str):
            raise BadValue(f"{part}: the ratio of {name} is not a number")
        try:
            ratios[name] = parse_ratio(ratio)
        except RatioError as error:
            raise BadValue(f"{part}: {name}: {error}") from None
    return MappingProxyType(ratios)


SHARES = _Shares()
NO_SHARES = ShareRatios()


_TAKEN_LABELS = frozenset({*SCOPE_LABELS[Scope.DEVICE], *INFO_LABELS, "node", "job", "instance"})
_OPEN_PATHS = frozenset({"/", "/snapshot", "/healthz", "/readyz"})
_SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
_KUBERNETES_LABELS = List(
    Text(
        "the name of a Kubernetes label",
        r"([a-z0-9]([a-z0-9.-]*[a-z0-9])?/)?[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?",
    )
)
NO_LABELS: Mapping[str, str] = MappingProxyType({})


def _vendor_setting(declared: VendorSetting, *, group: str, reloadable: bool) -> Setting:
    kind: Kind[Any] = PATH if declared.watched else TEXT
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
        None, CONFIG_FILE, "YAML file with these settings; re-read when it changes.", group="General"
    )
    node_name: str = setting(
        "",
        TEXT,
        "Name of this node; the host's name if not given.",
        group="General",
        reloadable=False,
    )
    log_level: str = setting("info", Choice(*LEVELS), "How much to log.", group="General")
    log_format: str = setting("text", Choice(*FORMATS), "Form of a log line.", group="General")

    collection_interval: float = setting(
        10.0,
        Duration(minimum=0.1, maximum=3600),
        "Time between two collections.",
        group="Collection",
        env_aliases=("COLLECT_INTERVAL",),
    )
    readers: tuple[str, ...] = setting(
        tuple(vendor.value for vendor in Vendor),
        List(Choice(*(vendor.value for vendor in Vendor))),
        "Vendors to look for.",
        group="Collection",
        reloadable=False,
    )
    device_timeout: float = setting(
        2.0,
        Duration(minimum=0.05, maximum=600),
        "How long one device may take to answer before it is given up and shown as stale.",
        group="Collection",
    )
    reader_timeout: float = setting(
        10.0,
        Duration(minimum=0.1, maximum=600),
        "How long a driver may take to list its devices, a tool to run, and a pass over all devices to last.",
        group="Collection",
        reloadable=False,
    )
    tool_interval: float = setting(
        60.0,
        Duration(minimum=1, maximum=3600),
        "Time between two runs of a tool that takes seconds and only adds to what is read otherwise.",
        group="Collection",
        reloadable=False,
    )
    expected_devices: int = setting(
        0,
        WholeNumber(0, 1024),
        "Devices of each vendor found that should be there; 0: as many as were seen since the agent started.",
        group="Collection",
    )

    metrics_path: str = setting(
        "/metrics",
        Text("a path that begins with /", r"/[A-Za-z0-9._~/-]*"),
        "Path of the Prometheus page.",
        group="Metrics",
        reloadable=False,
    )
    metric_allowlist: tuple[str, ...] = setting(
        (), PATTERNS, "Only families whose name fits one of these patterns.", group="Metrics"
    )
    metric_denylist: tuple[str, ...] = setting(
        (), PATTERNS, "No families whose name fits one of these patterns.", group="Metrics"
    )
    max_process_series: int = setting(
        1000,
        WholeNumber(0, 1_000_000),
        "Most series about processes on the page; what is left out is counted.",
        group="Metrics",
    )
    labels: Mapping[str, str] = setting(
        NO_LABELS, LABELS, "Labels of this node, put on accelerator_info.", group="Metrics"
    )
    dialect: tuple[str, ...] = setting(
        (),
        List(Choice(*dialects.NAMES)),
        "Other exporters' names to show beside the native ones, for dashboards that use them.",
        group="Metrics",
    )
    dialect_options: Mapping[str, str] = setting_mapping(
        _vendor_setting(option, group="Metrics", reloadable=True) for option in dialects.OPTIONS
    )

    pod_source: str = setting(
        PodSource.AUTO.value,
        Choice(*(source.value for source in PodSource)),
        "Who tells the names of this node's pods: the API server (a watch on the node's pods), the kubelet's "
        "/pods, or nobody. auto: the API server where the agent runs in a pod or --kube-api-url is given.",
        group="Attribution",
        reloadable=False,
    )
    pod_labels: tuple[str, ...] = setting(
        (),
        _KUBERNETES_LABELS,
        "Labels of pods to put on the series about them, as label_<name>.",
        group="Attribution",
        reloadable=False,
        metavar="NAME,...",
    )
    node_labels: tuple[str, ...] = setting(
        (),
        _KUBERNETES_LABELS,
        "Labels of the Node object to put on accelerator_info, as label_<name>. Needs the right to list and "
        "watch nodes.",
        group="Attribution",
        reloadable=False,
        metavar="NAME,...",
    )
    pod_resources_socket: str = setting(
        "/var/lib/kubelet/pod-resources/kubelet.sock",
        TEXT,
        "The kubelet's socket that tells which container holds which device; empty: do not ask.",
        group="Attribution",
        reloadable=False,
        metavar="PATH",
    )
    resource_slices: bool = setting(
        True,
        BOOLEAN,
        "Ask the API server for this node's ResourceSlices once a pod holds a claim, to tell which device "
        "the claim means. Needs the right to list and watch them.",
        group="Attribution",
        reloadable=False,
    )
    gpu_allocation_file: str = setting(
        "gpu_allocation.txt",
        TEXT,
        "File with one number: into how many shares each device is cut. Re-read when it changes.",
        group="Attribution",
        reloadable=False,
        metavar="PATH",
    )
    shares: ShareRatios = setting(
        NO_SHARES,
        SHARES,
        "The same for single devices and models; wins over the file.",
        group="Attribution",
    )
    job_mapping_folder: str | None = setting(
        None,
        PATH,
        "Folder in which a batch scheduler keeps one file per device, named by its index or uuid, with the "
        "ids of the jobs that run there.",
        group="Attribution",
        reloadable=False,
    )

    kube_api_url: str = setting(
        "",
        TEXT,
        "URL of the API server; that of the cluster the agent runs in if not given.",
        group="Kubernetes",
        reloadable=False,
        metavar="URL",
    )
    kube_token_file: str = setting(
        f"{_SERVICE_ACCOUNT}/token",
        TEXT,
        "Token for the API server and the kubelet. Re-read when it changes.",
        group="Kubernetes",
        reloadable=False,
        metavar="PATH",
    )
    kube_ca_file: str = setting(
        f"{_SERVICE_ACCOUNT}/ca.crt",
        TEXT,
        "Certificates that the API server's is checked against; empty: those that the system trusts.",
        group="Kubernetes",
        reloadable=False,
        metavar="PATH",
    )
    kube_insecure_skip_tls_verify: bool = setting(
        False,
        BOOLEAN,
        "Do not check the API server's certificate. Whoever answers gets the token.",
        group="Kubernetes",
        reloadable=False,
    )
    node_ip: str = setting(
        "",
        TEXT,
        "Address of this node, at which its kubelet is asked; 127.0.0.1 if not given.",
        group="Kubernetes",
        reloadable=False,
        metavar="ADDRESS",
    )
    kubelet_url: str = setting(
        "",
        TEXT,
        "URL of the kubelet, for --pod-source kubelet; port 10250 of --node-ip if not given.",
        group="Kubernetes",
        reloadable=False,
        metavar="URL",
    )
    kubelet_ca_file: str = setting(
        "",
        TEXT,
        "Certificates that the kubelet's is checked against; as --kube-ca-file if not given.",
        group="Kubernetes",
        reloadable=False,
        metavar="PATH",
    )
    kubelet_insecure_skip_tls_verify: bool = setting(
        False,
        BOOLEAN,
        "Do not check the kubelet's certificate. Whoever answers gets the token.",
        group="Kubernetes",
        reloadable=False,
    )

    vendor_annotations: Mapping[str, bool] = setting_mapping(
        Setting(
            name=vendor.annotation.setting,
            default=False,
            kind=BOOLEAN,
            help=vendor.annotation.help,
            group="Node object",
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
        "Write what the devices of every vendor do into the Node's annotation accelscope.io/devices; with "
        "--readers of some vendors only, accelscope.io/devices.<vendors>. Needs the right to patch nodes.",
        group="Node object",
        reloadable=False,
    )
    annotation_interval: float = setting(
        3.0,
        Duration(minimum=1, maximum=3600),
        "Annotations are written at most so often, and then only if something changed.",
        group="Node object",
        reloadable=False,
    )
    annotation_heartbeat: float = setting(
        60.0,
        Duration(minimum=5, maximum=3600),
        "Annotations are written at least so often, less up to a tenth, also if nothing changed.",
        group="Node object",
        reloadable=False,
    )
    feature_labels: str = setting(
        "off",
        Choice("off", "node", "nfd"),
        "Label the Node with what devices it has: node writes the labels itself and needs the right to patch "
        "nodes; nfd writes a file for Node Feature Discovery.",
        group="Node object",
        reloadable=False,
    )
    feature_domains: tuple[str, ...] = setting(
        DOMAINS,
        List(Choice(*DOMAINS)),
        "Prefixes under which labels are written: our own for every vendor, and Furiosa's former and present "
        "names.",
        group="Node object",
        reloadable=False,
    )
    feature_file_folder: str = setting(
        "/etc/kubernetes/node-feature-discovery/features.d",
        TEXT,
        "Folder of Node Feature Discovery's feature files, for --feature-labels nfd.",
        group="Node object",
        reloadable=False,
        metavar="PATH",
    )

    state_folder: str | None = setting(
        None,
        PATH,
        "Folder in which idle times of pods are kept over a restart, in a file that only the agent may read. "
        "Without it nothing is kept. Each agent needs a folder of its own.",
        group="State",
        reloadable=False,
    )

    exporter_host: str = setting(
        "", TEXT, "Address to listen on; all if not given.", group="HTTP", reloadable=False
    )
    exporter_port: int = setting(9400, PORT, "Port to listen on.", group="HTTP", reloadable=False)
    tls_certificate: str | None = setting(
        None,
        PATH,
        "Certificate chain in PEM form: serve HTTPS. Re-read when it changes.",
        group="HTTP",
        reloadable=False,
    )
    tls_key: str | None = setting(
        None, PATH, "Private key of the certificate.", group="HTTP", reloadable=False
    )
    tls_client_ca: str | None = setting(
        None,
        PATH,
        "Ask clients for a certificate that this CA signed. Probes need none.",
        group="HTTP",
        reloadable=False,
    )
    token_file: str | None = setting(
        None,
        PATH,
        "File with the bearer tokens that are accepted, one a line. Probes need none. Re-read on change.",
        group="HTTP",
        reloadable=False,
    )
    token_review: bool = setting(
        False,
        BOOLEAN,
        "Accept the bearer tokens that the API server knows and whose user may get the page's path "
        "(nonResourceURLs of a ClusterRole). With --token-file either token is enough; with --tls-client-ca "
        "the certificate is needed as well. Probes need none. Needs the right to create tokenreviews and "
        "subjectaccessreviews.",
        group="HTTP",
        reloadable=False,
    )

    proc_root: str = setting(
        "/proc", TEXT, "The node's /proc.", group="Paths", reloadable=False, metavar="PATH"
    )
    sys_root: str = setting("/sys", TEXT, "The node's /sys.", group="Paths", reloadable=False, metavar="PATH")
    dev_root: str = setting("/dev", TEXT, "The node's /dev.", group="Paths", reloadable=False, metavar="PATH")
    passwd_file: str = setting(
        "/etc/passwd",
        TEXT,
        "The node's list of users, for their names.",
        group="Paths",
        reloadable=False,
        metavar="PATH",
    )
    vendor_settings: Mapping[str, str] = setting_mapping(
        _vendor_setting(declared, group="Paths", reloadable=False)
        for vendor in declarations().values()
        for declared in vendor.settings
    )

    def __post_init__(self) -> None:
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise ConfigError("--tls-certificate and --tls-key go together: give both or neither")
        if self.tls_client_ca is not None and self.tls_certificate is None:
            raise ConfigError("--tls-client-ca needs --tls-certificate and --tls-key")
        taken = sorted(_TAKEN_LABELS & self.labels.keys())
        if taken:
            raise ConfigError(
                f"--labels: {', '.join(taken)} is taken: AccelScope or Prometheus sets that label"
            )
        if not self.readers:
            raise ConfigError(f"--readers: name at least one of {', '.join(Vendor)}")
        conflict = dialects.conflict(self.dialect)
        if conflict is not None:
            raise ConfigError(f"--dialect: {conflict}")
        in_vain = dialects.option_without_dialect(self.dialect, self.dialect_options)
        if in_vain is not None:
            option, name = in_vain
            raise ConfigError(f"{flag_name(option.name)} has no effect without --dialect {name}")
        if self.metrics_path in _OPEN_PATHS:
            raise ConfigError(f"--metrics-path: {self.metrics_path} is the path of another page")
        self._check_kubernetes()
        self._check_node_object()

    def _check_kubernetes(self) -> None:
        given = (
            ("--kube-api-url", self.kube_api_url),
            ("--kubelet-url" if self.kubelet_url else "--node-ip", self.kubelet_address),
        )
        for flag, url in given:
            try:
                if url:
                    Endpoint(url)
            except EndpointError as error:
                raise ConfigError(f"{flag}: {error}") from None
        for flag, names in (("--pod-labels", self.pod_labels), ("--node-labels", self.node_labels)):
            written: dict[str, str] = {}
            for name in names:
                [(label, _)] = kubernetes_labels(((name, ""),))
                other = written.setdefault(label, name)
                if other != name:
                    raise ConfigError(f"{flag}: {other} and {name} are the same label on a series")
                if flag == "--node-labels" and label in self.labels:
                    raise ConfigError(f"{flag}: {name} is {label} on a series, which --labels sets too")

    def _check_node_object(self) -> None:
        if self.annotation_heartbeat < self.annotation_interval:
            raise ConfigError("--annotation-heartbeat: must not be shorter than --annotation-interval")
        if not self.feature_domains and self.feature_labels != "off":
            raise ConfigError(f"--feature-domains: name at least one of {', '.join(DOMAINS)}")

    @property
    def kubelet_address(self) -> str:
        if self.kubelet_url:
            return self.kubelet_url
        host = self.node_ip or "127.0.0.1"
        return f"https://[{host}]:10250" if ":" in host else f"https://{host}:10250"

    def load_dialects(self) -> tuple[dialects.Dialect, ...]:
        """Raises ConfigError where a file that an option names cannot be read or is malformed."""
        try:
            return dialects.load(self.dialect, **self.dialect_options)
        except dialects.DialectError as error:
            raise ConfigError(f"{flag_name(error.option)}: {error}") from None

    @property
    def dialect_files(self) -> tuple[str, ...]:
        """Files that the chosen dialects are made from."""
        files = (option.of(self.dialect_options) for option in dialects.OPTIONS if option.watched)
        return tuple(file for file in files if file)

    @property
    def paths(self) -> Paths:
        return Paths(proc=Path(self.proc_root), sys=Path(self.sys_root), dev=Path(self.dev_root))

    @property
    def reader_options(self) -> ReaderOptions:
        # A tool is given up before its survey is, so that the reason says which of them hung.
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
