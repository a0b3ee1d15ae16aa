"""The device plugin's settings. Each declaration gives a flag, an environment variable, a YAML key and a row
of the reference page."""

import argparse
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from accelscope.config import (
    BOOLEAN,
    CONFIG_FILE,
    PORT,
    TEXT,
    BadValue,
    Choice,
    ConfigError,
    Duration,
    LoadedSettings,
    Node,
    Setting,
    Text,
    ValueKind,
    WholeNumber,
    load,
    quoted,
    setting,
    setting_mapping,
)
from accelscope.config.log import FORMATS, LEVELS
from accelscope.config.settings import RARELY_NEEDED, flag_name, key_name
from accelscope.deviceplugin.health import HealthRule
from accelscope.deviceplugin.vendor import (
    Division,
    DivisionError,
    Roots,
    division_of,
    open_vendor,
    plugin_declarations,
)
from accelscope.model import Vendor
from accelscope.vendors import declarations
from accelscope.vendors.common.contract import Paths, ReaderOptions
from accelscope.vendors.declaration import PluginDeclaration, VendorSetting

_PLUGINS = plugin_declarations()
_DEFAULT_VENDOR = next(name for name, plugin in _PLUGINS.items() if plugin.default)
_DIVISION_SETTINGS = tuple(declared for plugin in _PLUGINS.values() for declared in plugin.settings)

# Groups of settings. Those that are rarely needed come last in --help and in the reference.
_CONNECTION = f"{RARELY_NEEDED}: connection to the kubelet"
_PATHS = f"{RARELY_NEEDED}: paths of drivers and tools"

# These come from the file or from flags and environment, never from both: the keys of Furiosa's own plugin,
# that this plugin can replace, and the other settings that decide what is offered.
EXCLUSIVE_SETTINGS = (
    *(declared.name for declared in _DIVISION_SETTINGS),
    "interval",
    "disabled_devices",
    "plugin_dir",
    "socket_name",
    "resource_name",
    "vendor",
    "shares",
)

_SOCKET_PATH_BYTES = 107  # the longest address of a unix socket
_SUFFIX = ".sock"


# Kinds of settings that only the device plugin has

ABSOLUTE_PATH = Text("an absolute path", r"/[^\x00-\x1f\x7f]*")
ABSOLUTE_PATH_OR_NONE = Text("an absolute path", r"(/[^\x00-\x1f\x7f]*)?")


class TextByVendor(Text):
    """Text whose default depends on the vendor. The default vendor's is shown."""

    def __init__(self, allowed: str, pattern: str, default: str) -> None:
        super().__init__(allowed, pattern)
        self._default = default

    def text(self, value: str) -> str:
        return value or self._default


class ResourceName(TextByVendor):
    """The name of an extended resource. A kubelet rejects a bad name too, but only at registration and
    without a hint at what is allowed."""

    _LABEL = r"[a-z0-9]([a-z0-9-]*[a-z0-9])?"
    _MAX_DOMAIN_CHARACTERS = 244  # 253 of a domain, less the prefix that quotas add
    _QUOTA_PREFIX = "requests."

    def __init__(self, default: str) -> None:
        super().__init__(
            "a name such as vendor.com/device",
            rf"{self._LABEL}(\.{self._LABEL})*/[A-Za-z0-9]([A-Za-z0-9._-]{{0,61}}[A-Za-z0-9])?",
            default,
        )

    def parse(self, text: str) -> str:
        name = super().parse(text)
        if "kubernetes.io/" in name:
            raise BadValue("kubernetes.io is reserved for Kubernetes: use another domain")
        if name.startswith(self._QUOTA_PREFIX):
            raise BadValue("requests. is reserved for quotas: use another domain")
        if len(name.partition("/")[0]) > self._MAX_DOMAIN_CHARACTERS:
            raise BadValue(f"the part before / is longer than {self._MAX_DOMAIN_CHARACTERS} characters")
        return name


@dataclass(frozen=True, slots=True)
class DisabledDevice:
    name: str  # of a device or of a file of its cores, a uuid, serial number, PCI address or offered id
    node: str | None = None  # None: on every node


class DisabledDevices(ValueKind[tuple[DisabledDevice, ...]]):
    metavar = "NAME,..."
    allowed = (
        "a list of devices: names separated by commas, or in the file entries with devName and nodeName "
        "(without nodeName: on every node)"
    )
    repeatable = True
    _KEYS = ("devName", "nodeName")

    def parse(self, text: str) -> tuple[DisabledDevice, ...]:
        names = (name.strip() for name in text.split(","))
        return tuple(DisabledDevice(name) for name in names if name)

    def parse_node(self, node: Node) -> tuple[DisabledDevice, ...]:
        if isinstance(node, str):
            return self.parse(node)
        if not isinstance(node, Sequence):
            raise BadValue
        return tuple(self._entry(item) for item in node)

    def text(self, value: tuple[DisabledDevice, ...]) -> str:
        return ",".join(each.name for each in value)

    def _entry(self, item: Node) -> DisabledDevice:
        if isinstance(item, str) and item.strip():
            return DisabledDevice(item.strip())
        if not isinstance(item, Mapping):
            raise BadValue("an entry is neither a name nor a mapping of devName and nodeName")
        unknown = sorted(set(item) - set(self._KEYS))
        if unknown:
            raise BadValue(f"unknown key {quoted(unknown[0])}: an entry has {' and '.join(self._KEYS)}")
        name, node = item.get("devName"), item.get("nodeName")
        if not isinstance(name, str) or not name.strip():
            raise BadValue("an entry has no devName")
        if node is not None and (not isinstance(node, str) or not node.strip()):
            raise BadValue(f"nodeName of {quoted(name)} is not a name")
        return DisabledDevice(name.strip(), node and node.strip())


@dataclass(frozen=True, slots=True)
class OfferLayout:
    """How devices are divided and shared. Devices that containers hold keep theirs when it changes."""

    division: Division
    shares: int
    values: tuple[tuple[str, str], ...]  # of the division settings

    def differing_keys(self, other: "OfferLayout") -> tuple[str, ...]:
        """YAML keys of the settings whose values differ."""
        values = dict(other.values)
        names = [name for name, value in self.values if value != values.get(name)]
        if self.shares != other.shares:
            names.append("shares")
        return tuple(map(key_name, names))


def _division_setting(declared: VendorSetting) -> Setting:
    kind = Choice(*declared.choices)
    return Setting(
        name=declared.name,
        default=declared.default,
        kind=kind,
        help=declared.help,
        group="What is offered",
        env_aliases=(),
        reloadable=True,
        metavar=kind.metavar,
    )


def _vendor_setting(declared: VendorSetting) -> Setting:
    return Setting(
        name=declared.name,
        default=declared.default,
        kind=ABSOLUTE_PATH if declared.absolute else TEXT,
        help=declared.plugin_help,
        group=_PATHS,
        env_aliases=(),
        reloadable=False,
        metavar=declared.metavar,
    )


def _root(default: str, text: str, effective: Callable[["PluginSettings"], object] | None = None) -> str:
    """Absolute, because kubelet and container runtime have no folder to resolve a relative path against."""
    kind = ABSOLUTE_PATH if default else ABSOLUTE_PATH_OR_NONE
    return setting(default, kind, text, group=_PATHS, reloadable=False, metavar="PATH", effective=effective)


def _default_resources() -> str:
    """`amd amd.com/gpu; ascend huawei.com/Ascend910 or huawei.com/Ascend310P`"""

    def names(plugin: PluginDeclaration) -> str:
        return " or ".join(filter(None, (plugin.resource, *plugin.other_resources)))

    return "; ".join(f"{vendor} {names(plugin)}" for vendor, plugin in _PLUGINS.items())


@dataclass(frozen=True, slots=True)
class PluginSettings:
    config_file: str | None = setting(
        None,
        CONFIG_FILE,
        "YAML file with these settings; re-read when it changes. With a file, "
        + ", ".join(map(flag_name, EXCLUSIVE_SETTINGS))
        + " are rejected.",
        group="Configuration and log",
    )
    node_name: str = setting(
        "",
        TEXT,
        "Name of this node, for disabledDevices. Default: the host name.",
        group="Configuration and log",
        reloadable=False,
        effective=lambda settings: settings.node_name or socket.gethostname(),
    )
    log_level: str = setting(
        "info", Choice(*LEVELS), "Lowest level of the log lines.", group="Configuration and log"
    )
    log_format: str = setting(
        "text", Choice(*FORMATS), "Format of the log lines.", group="Configuration and log"
    )

    vendor: str = setting(
        _DEFAULT_VENDOR,
        Choice(*_PLUGINS),
        "Vendor whose devices are offered.",
        group="What is offered",
        reloadable=False,
    )
    division_settings: Mapping[str, str] = setting_mapping(map(_division_setting, _DIVISION_SETTINGS))
    shares: int = setting(
        1,
        WholeNumber(1, 1024),
        "How many times each device, core or partition is offered, for containers that share it. The "
        "containers are not isolated from each other on the device.",
        group="What is offered",
    )
    disabled_devices: tuple[DisabledDevice, ...] = setting(
        (),
        DisabledDevices(),
        "Devices that are not offered, by name (npu0, npu0pe1), uuid, serial number, PCI address or id. "
        "Names may change at a reboot.",
        group="What is offered",
    )
    cdi: bool = setting(
        False,
        BOOLEAN,
        "Return CDI names, which the container runtime resolves with its CDI specifications, instead of "
        "device nodes, mounts and environment variables.",
        group="What is offered",
    )

    interval: float = setting(
        10.0,
        Duration(minimum=0.1, maximum=3600),
        "Time between two health checks of the devices.",
        group="Health",
    )
    unhealthy_after: int = setting(
        3,
        WholeNumber(1, 1000),
        "Number of failed checks, without a good one between them, after which a device is unhealthy. A "
        "device that the driver no longer lists is removed instead.",
        group="Health",
        deprecated="the default keeps short errors from being reported; remove this setting.",
    )
    healthy_after: int = setting(
        2,
        WholeNumber(1, 1000),
        "Number of good checks in a row after which a device is healthy again. Doubles each time the device "
        "soon becomes unhealthy again.",
        group="Health",
        deprecated="the default keeps short errors from being reported; remove this setting.",
    )
    unanswered_after: int = setting(
        30,
        WholeNumber(0, 100_000),
        "Number of checks at which the whole driver does not answer, without a good one between them, after "
        "which its devices are unhealthy. Until then they keep their health. 0: they keep it forever.",
        group="Health",
        deprecated="the default keeps short errors from being reported; remove this setting.",
    )
    device_timeout: float = setting(
        2.0,
        Duration(minimum=0.05, maximum=600),
        "How long one device may take to answer; a check that takes longer has failed.",
        group="Health",
        reloadable=False,
    )
    reader_timeout: float = setting(
        10.0,
        Duration(minimum=0.1, maximum=600),
        "How long a driver may take to list its devices, and a tool to run.",
        group="Health",
        reloadable=False,
    )

    plugin_dir: str = setting(
        "/var/lib/kubelet/device-plugins",
        ABSOLUTE_PATH,
        "The kubelet's folder for the sockets of device plugins.",
        group=_CONNECTION,
        reloadable=False,
        metavar="PATH",
    )
    socket_name: str = setting(
        "",
        TextByVendor(
            "a file name without folders",
            r"[A-Za-z0-9][A-Za-z0-9._-]*",
            _PLUGINS[_DEFAULT_VENDOR].socket_name,
        ),
        "Name of the plugin's own socket in that folder, without .sock. Default for other vendors: "
        "accelscope-<vendor>.",
        group=_CONNECTION,
        reloadable=False,
        metavar="NAME",
        effective=lambda settings: settings.endpoint_name,
    )
    resource_name: str = setting(
        "",
        ResourceName(_PLUGINS[_DEFAULT_VENDOR].resource),
        "Extended resource that pods request. Defaults by vendor, model and partition: "
        f"{_default_resources()}.",
        group=_CONNECTION,
        reloadable=False,
        metavar="NAME",
        effective=lambda settings: settings.default_resource_name,
    )
    pod_resources_socket: str = setting(
        "/var/lib/kubelet/pod-resources/kubelet.sock",
        ABSOLUTE_PATH_OR_NONE,
        "The kubelet's pod resources socket, which lists allocated devices and the devices of other plugins. "
        "Empty: not used.",
        group=_CONNECTION,
        reloadable=False,
        metavar="PATH",
    )

    exporter_host: str = setting(
        "", TEXT, "Address to listen on. Default: all addresses.", group="Serving metrics", reloadable=False
    )
    exporter_port: int = setting(
        9401, PORT, "Port of /metrics, /healthz and /readyz.", group="Serving metrics", reloadable=False
    )

    proc_root: str = _root("/proc", "The node's /proc in this container.")
    sys_root: str = _root("/sys", "The node's /sys in this container.")
    dev_root: str = _root("/dev", "The node's /dev in this container.")
    host_sys_root: str = _root(
        "",
        "The path of --sys-root on the node. Default: the same path.",
        effective=lambda settings: settings.roots.host_sys,
    )
    host_dev_root: str = _root(
        "",
        "The path of --dev-root on the node. Default: the same path.",
        effective=lambda settings: settings.roots.host_dev,
    )
    container_sys_root: str = _root("/sys", "Where parts of /sys are mounted in the containers of pods.")
    container_dev_root: str = _root("/dev", "Where device nodes are created in the containers of pods.")
    vendor_settings: Mapping[str, str] = setting_mapping(
        _vendor_setting(declared)
        for vendor in declarations().values()
        for declared in vendor.settings
        if declared.plugin_help
    )

    def __post_init__(self) -> None:
        plugin = _PLUGINS[self.vendor]
        for other, declaration in _PLUGINS.items():
            changed = [each for each in declaration.settings if self._is_changed(each)]
            if changed and other != self.vendor:
                option = f"{flag_name(changed[0].name)} {changed[0].of(self.division_settings)}"
                raise ConfigError(f"{option} is for --vendor {other}; --vendor is {self.vendor}")
        layout = self.layout
        if self.cdi and layout.division.cores_per_unit:
            options = " and ".join(flag_name(each.name) for each in plugin.settings if self._is_changed(each))
            raise ConfigError(f"--cdi: CDI names are for whole devices; remove {options}")
        if self.cdi and plugin.why_no_cdi:
            raise ConfigError(f"--cdi: {plugin.why_no_cdi}; remove --cdi")
        path = f"{self.plugin_dir}/{self.endpoint_name}"
        if self.endpoint_name == f"kubelet{_SUFFIX}":
            raise ConfigError("--socket-name: kubelet.sock is the kubelet's own socket")
        if len(path.encode()) > _SOCKET_PATH_BYTES:
            raise ConfigError(
                f"--plugin-dir and --socket-name: {path} is longer than the {_SOCKET_PATH_BYTES} bytes that "
                "the path of a socket may have"
            )

    def _is_changed(self, declared: VendorSetting) -> bool:
        return declared.of(self.division_settings) != declared.default

    @property
    def endpoint_name(self) -> str:
        """File name of the plugin's socket, as registered with the kubelet."""
        default = _PLUGINS[self.vendor].socket_name or f"accelscope-{self.vendor}"
        return (self.socket_name or default).removesuffix(_SUFFIX) + _SUFFIX

    @property
    def default_resource_name(self) -> str:
        """The resource; empty where it depends on the devices."""
        if self.resource_name or not _PLUGINS[self.vendor].resource:
            return self.resource_name
        plugin = open_vendor(Vendor(self.vendor), self.roots)
        return plugin.default_resource((), self.layout.division.partition_cores)

    @property
    def layout(self) -> OfferLayout:
        """Raises ConfigError."""
        try:
            division = division_of(Vendor(self.vendor), self.division_settings)
        except DivisionError as error:
            raise ConfigError(str(error)) from None
        return OfferLayout(division, self.shares, tuple(self.division_settings.items()))

    @property
    def health_rule(self) -> HealthRule:
        return HealthRule(bad=self.unhealthy_after, good=self.healthy_after, unanswered=self.unanswered_after)

    @property
    def roots(self) -> Roots:
        return Roots(
            dev=Path(self.dev_root),
            sys=Path(self.sys_root),
            host_dev=self.host_dev_root or self.dev_root,
            host_sys=self.host_sys_root or self.sys_root,
            container_dev=self.container_dev_root,
            container_sys=self.container_sys_root,
            settings=self.vendor_settings,
        )

    @property
    def reader_options(self) -> ReaderOptions:
        paths = Paths(proc=Path(self.proc_root), sys=Path(self.sys_root), dev=Path(self.dev_root))
        # Less than the survey's own time limit, so that the error names the tool that hung.
        return ReaderOptions(paths, self.vendor_settings, tool_timeout_seconds=0.8 * self.reader_timeout)


def load_settings(
    arguments: argparse.Namespace | Mapping[str, object], environ: Mapping[str, str]
) -> LoadedSettings[PluginSettings]:
    """Raises ConfigError."""
    loaded = load(PluginSettings, arguments, environ)
    if loaded.file is not None:
        for name in EXCLUSIVE_SETTINGS:
            origin = loaded.origins.get(name, "")
            if origin and not origin.startswith(f"{loaded.file}:"):
                raise ConfigError(
                    f"{origin} cannot be combined with --config-file: set {key_name(name)} in "
                    f"{loaded.file}, or remove --config-file"
                )
    return loaded
