"""The device plugin's settings, each declared once: flag, environment variable, YAML key, reference page."""

import argparse
import socket
from collections.abc import Callable, Iterable, Mapping, Sequence
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
    Kind,
    Loaded,
    Node,
    Setting,
    Text,
    WholeNumber,
    load,
    quoted,
    setting,
    setting_mapping,
)
from accelscope.config.log import FORMATS, LEVELS
from accelscope.config.settings import flag_name, key_name
from accelscope.deviceplugin.health import HealthRule
from accelscope.deviceplugin.vendor import Roots, open_vendor
from accelscope.model import Device, Vendor
from accelscope.vendors import declarations
from accelscope.vendors.common.contract import Paths, ReaderOptions
from accelscope.vendors.declaration import VendorSetting
from accelscope.vendors.furiosa.devfiles import core_file

# --- kinds ------------------------------------------------------------
# Kinds of settings that only the device plugin has.


_MOST_DOMAIN_CHARACTERS = 244  # 253 of a domain, less the word that quotas put before it
_QUOTA = "requests."
_KUBERNETES = "kubernetes.io/"
_LABEL = r"[a-z0-9]([a-z0-9-]*[a-z0-9])?"

ABSOLUTE_PATH = Text("an absolute path", r"/[^\x00-\x1f\x7f]*")
ABSOLUTE_PATH_OR_NONE = Text("an absolute path", r"(/[^\x00-\x1f\x7f]*)?")


class ByVendor(Text):
    """Text that depends on the vendor when not given; that of the usual vendor is shown as the default."""

    def __init__(self, allowed: str, pattern: str, usual: str) -> None:
        super().__init__(allowed, pattern)
        self._usual = usual

    def text(self, value: str) -> str:
        return value or self._usual


class ResourceName(ByVendor):
    """What Kubernetes takes as the name of an extended resource. A kubelet would refuse others, too, but only
    when it is told of them, and not in words that say what to write instead."""

    def __init__(self, usual: str) -> None:
        super().__init__(
            "a name such as vendor.com/device",
            rf"{_LABEL}(\.{_LABEL})*/[A-Za-z0-9]([A-Za-z0-9._-]{{0,61}}[A-Za-z0-9])?",
            usual,
        )

    def parse(self, text: str) -> str:
        name = super().parse(text)
        if _KUBERNETES in name:
            raise BadValue("kubernetes.io is for Kubernetes' own resources: take a domain of yours")
        if name.startswith(_QUOTA):
            raise BadValue("requests. is how quotas begin: take another domain")
        if len(name.partition("/")[0]) > _MOST_DOMAIN_CHARACTERS:
            raise BadValue(f"what stands before / is longer than {_MOST_DOMAIN_CHARACTERS} characters")
        return name


# --- disabled ------------------------------------------------------------
# The setting `disabledDevices`: devices that are not to be offered, by node.


_KEYS = ("devName", "nodeName")


@dataclass(frozen=True, slots=True)
class DisabledDevice:
    name: str  # of a device or of a file of its cores, an uuid, serial number, PCI address or offered id
    node: str | None = None  # None: on every node


class _DisabledDevices(Kind[tuple[DisabledDevice, ...]]):
    metavar = "NAME,..."
    allowed = (
        "a list of devices: names with commas between, or in the file entries of devName and nodeName "
        "(without nodeName: on every node)"
    )
    repeatable = True

    def parse(self, text: str) -> tuple[DisabledDevice, ...]:
        names = (name.strip() for name in text.split(","))
        return tuple(DisabledDevice(name) for name in names if name)

    def parse_node(self, node: Node) -> tuple[DisabledDevice, ...]:
        if isinstance(node, str):
            return self.parse(node)
        if not isinstance(node, Sequence):
            raise BadValue
        return tuple(_entry(item) for item in node)

    def text(self, value: tuple[DisabledDevice, ...]) -> str:
        return ",".join(each.name for each in value)


def _entry(item: Node) -> DisabledDevice:
    if isinstance(item, str) and item.strip():
        return DisabledDevice(item.strip())
    if not isinstance(item, Mapping):
        raise BadValue("an entry is neither a name nor devName with nodeName")
    unknown = sorted(set(item) - set(_KEYS))
    if unknown:
        raise BadValue(f"{quoted(unknown[0])} is none of {' and '.join(_KEYS)}")
    name, node = item.get("devName"), item.get("nodeName")
    if not isinstance(name, str) or not name.strip():
        raise BadValue("an entry has no devName")
    if node is not None and (not isinstance(node, str) or not node.strip()):
        raise BadValue(f"nodeName of {quoted(name)} is not a name")
    return DisabledDevice(name.strip(), node and node.strip())


DISABLED_DEVICES = _DisabledDevices()


class Disabled:
    """Those of one node, and the question whether something is one of them."""

    def __init__(self, devices: Iterable[DisabledDevice], node: str) -> None:
        self._spelling = {each.name.casefold(): each.name for each in devices if each.node in (None, node)}
        self._names = frozenset(self._spelling)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Disabled) and self._names == other._names

    def __hash__(self) -> int:
        return hash(self._names)

    def whole(self, device: Device) -> bool:
        return not self._names.isdisjoint(_names(device))

    def unit(self, unit_id: str) -> bool:
        return unit_id.casefold() in self._names

    def cores(self, device: Device) -> frozenset[int]:
        """Of a card whose cores have device files of their own (npu0pe1)."""
        files = (core_file(name) for name in self._names)
        return frozenset(
            core for file in files if file is not None and file.index == device.index for core in file.cores
        )

    def unfitting(self, devices: Sequence[Device], unit_ids: Iterable[str]) -> tuple[str, ...]:
        """Names that are of nothing here, as they were written."""
        here = {name for device in devices for name in _names(device)}
        here.update(unit_id.casefold() for unit_id in unit_ids)
        indices = {device.index for device in devices}
        files = {name: core_file(name) for name in self._names - here}
        return tuple(
            written
            for name, written in self._spelling.items()
            if name in files and not ((file := files[name]) and file.cores and file.index in indices)
        )


def _names(device: Device) -> Iterable[str]:
    names = (device.device_name, device.uuid, device.serial, device.pci_address, device.id)
    return (name.casefold() for name in names if name is not None)


FUSION, SINGLE = "Fusion", "Single"
WHOLE = "none"
# Cores of one partition, by the words of Furiosa's own plugin.
PARTITIONS = {WHOLE: 0, "single-core": 1, "dual-core": 2, "quad-core": 4}

# On the command line or in the file, never in both: those of the plugin that this one takes the place of, and
# what else says what is offered.
OF_ONE_PLACE = (
    "default_pe",
    "interval",
    "disabled_devices",
    "plugin_dir",
    "socket_name",
    "resource_name",
    "vendor",
    "shares",
    "partition",
)

_SOCKET_PATH_BYTES = 107  # what the address of a unix socket holds
_SUFFIX = ".sock"


_PLUGINS = {name: vendor.plugin for name, vendor in declarations().items() if vendor.plugin is not None}
_USUAL_VENDOR = next(name for name, plugin in _PLUGINS.items() if plugin.usual)
_SOCKET_NAME = ByVendor(
    "a file name without folders", r"[A-Za-z0-9][A-Za-z0-9._-]*", _PLUGINS[_USUAL_VENDOR].socket_name
)
_RESOURCE_NAME = ResourceName(_PLUGINS[_USUAL_VENDOR].resource)


@dataclass(frozen=True, slots=True)
class Cut:
    """How devices are taken apart and shared: the values of three settings."""

    default_pe: str = FUSION
    partition: str = WHOLE
    shares: int = 1

    @property
    def cores_per_unit(self) -> int:
        """0: a whole device."""
        return 1 if self.default_pe == SINGLE else self.partition_cores

    @property
    def partition_cores(self) -> int:
        """0: no partitions."""
        return PARTITIONS[self.partition]

    def keys_unlike(self, other: "Cut") -> tuple[str, ...]:
        """Of the settings whose values differ."""
        names = ("default_pe", "partition", "shares")
        return tuple(key_name(name) for name in names if getattr(self, name) != getattr(other, name))


def _vendor_setting(declared: VendorSetting) -> Setting:
    return Setting(
        name=declared.name,
        default=declared.default,
        kind=ABSOLUTE_PATH if declared.absolute else TEXT,
        help=declared.plugin_help,
        group="Paths",
        env_aliases=(),
        reloadable=False,
        metavar=declared.metavar,
    )


def _root(default: str, text: str, effective: Callable[["PluginSettings"], object] | None = None) -> str:
    """The kubelet and the container runtime take them as they stand: they have no folder to start from."""
    kind = ABSOLUTE_PATH if default else ABSOLUTE_PATH_OR_NONE
    return setting(default, kind, text, group="Paths", reloadable=False, metavar="PATH", effective=effective)


@dataclass(frozen=True, slots=True)
class PluginSettings:
    config_file: str | None = setting(
        None,
        CONFIG_FILE,
        "YAML file with these settings; re-read when it changes. Beside it "
        + ", ".join(map(flag_name, OF_ONE_PLACE))
        + " cannot be given.",
        group="General",
    )
    node_name: str = setting(
        "",
        TEXT,
        "Name of this node, for disabledDevices; the host's name if not given.",
        group="General",
        reloadable=False,
        effective=lambda settings: settings.node_name or socket.gethostname(),
    )
    log_level: str = setting("info", Choice(*LEVELS), "How much to log.", group="General")
    log_format: str = setting("text", Choice(*FORMATS), "Form of a log line.", group="General")

    vendor: str = setting(
        _USUAL_VENDOR,
        Choice(*_PLUGINS),
        "Whose devices to offer.",
        group="Devices",
        reloadable=False,
    )
    default_pe: str = setting(
        FUSION,
        Choice(FUSION, SINGLE),
        "Furiosa: offer whole cards (Fusion: npu0pe0-1), or each core by itself (Single: npu0pe0, npu0pe1).",
        group="Devices",
    )
    partition: str = setting(
        WHOLE,
        Choice(*PARTITIONS),
        "Furiosa RNGD: offer partitions of one, two or four cores, each kind under a resource of its own.",
        group="Devices",
    )
    shares: int = setting(
        1,
        WholeNumber(1, 1024),
        "Offer each device, core or partition so many times, for containers that share it. Nothing keeps "
        "them apart on the device.",
        group="Devices",
    )
    disabled_devices: tuple[DisabledDevice, ...] = setting(
        (),
        DISABLED_DEVICES,
        "Devices that are not offered, by name (npu0, npu0pe1), uuid, serial number, PCI address or id. "
        "Names may change at a reboot.",
        group="Devices",
    )
    cdi: bool = setting(
        False,
        BOOLEAN,
        "Answer with CDI names, which the container runtime looks up in its specifications, in the place of "
        "device nodes, mounts and environment.",
        group="Devices",
    )

    interval: float = setting(
        10.0, Duration(minimum=0.1, maximum=3600), "Time between two looks at the devices.", group="Health"
    )
    unhealthy_after: int = setting(
        3,
        WholeNumber(1, 1000),
        "Bad looks without a good one between after which a device is unhealthy, or leaves the list if the "
        "driver does not show it any more.",
        group="Health",
    )
    healthy_after: int = setting(
        2,
        WholeNumber(1, 1000),
        "Good looks in a row after which it is healthy again; doubled each time that it falls again soon.",
        group="Health",
    )
    unanswered_after: int = setting(
        30,
        WholeNumber(0, 100_000),
        "Looks at which the driver as a whole could not be asked, without a good one between, after which "
        "its devices are unhealthy; until then they stay what they were. 0: for ever.",
        group="Health",
    )
    device_timeout: float = setting(
        2.0,
        Duration(minimum=0.05, maximum=600),
        "How long one device may take to answer; longer is a bad look.",
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
        group="Kubelet",
        reloadable=False,
        metavar="PATH",
    )
    socket_name: str = setting(
        "",
        _SOCKET_NAME,
        "Name of the plugin's own socket in that folder, where .sock is added to it. Of another vendor: "
        "accelscope-<vendor>.",
        group="Kubelet",
        reloadable=False,
        metavar="NAME",
        effective=lambda settings: settings.endpoint_name,
    )
    resource_name: str = setting(
        "",
        _RESOURCE_NAME,
        "What pods ask for. Of another vendor: nvidia.com/gpu, amd.com/gpu, huawei.com/Ascend910 (310P: "
        "huawei.com/Ascend310P); with --partition furiosa.ai/rngd-1core.6gb, -2core.12gb, -4core.24gb.",
        group="Kubelet",
        reloadable=False,
        metavar="NAME",
        effective=lambda settings: settings.usual_resource_name,
    )
    pod_resources_socket: str = setting(
        "/var/lib/kubelet/pod-resources/kubelet.sock",
        ABSOLUTE_PATH_OR_NONE,
        "The kubelet's socket that tells which resources are served already; empty: do not ask.",
        group="Kubelet",
        reloadable=False,
        metavar="PATH",
    )

    exporter_host: str = setting(
        "", TEXT, "Address to listen on; all if not given.", group="HTTP", reloadable=False
    )
    exporter_port: int = setting(
        9401, PORT, "Port of /metrics, /healthz and /readyz.", group="HTTP", reloadable=False
    )

    proc_root: str = _root("/proc", "The node's /proc, as it is seen here.")
    sys_root: str = _root("/sys", "The node's /sys, as it is seen here.")
    dev_root: str = _root("/dev", "The node's /dev, as it is seen here.")
    host_sys_root: str = _root(
        "",
        "The same on the node itself; as --sys-root if not given.",
        effective=lambda settings: settings.roots.host_sys,
    )
    host_dev_root: str = _root(
        "",
        "The same on the node itself; as --dev-root if not given.",
        effective=lambda settings: settings.roots.host_dev,
    )
    container_sys_root: str = _root("/sys", "Where containers get what they are given of /sys.")
    container_dev_root: str = _root("/dev", "Where containers get their device nodes.")
    vendor_settings: Mapping[str, str] = setting_mapping(
        _vendor_setting(declared)
        for vendor in declarations().values()
        for declared in vendor.settings
        if declared.plugin_help
    )

    def __post_init__(self) -> None:
        plugin = _PLUGINS[self.vendor]
        if self.default_pe == SINGLE and not plugin.divides:
            raise ConfigError(f"--default-pe {SINGLE} is for Furiosa's cards; --vendor is {self.vendor}")
        if self.partition != WHOLE and not plugin.divides:
            raise ConfigError(f"--partition is for Furiosa's RNGD; --vendor is {self.vendor}")
        if self.partition != WHOLE and self.default_pe == SINGLE:
            raise ConfigError(f"--partition and --default-pe {SINGLE} exclude each other: give one of them")
        if self.cdi and (self.default_pe == SINGLE or self.partition != WHOLE):
            raise ConfigError("--cdi: CDI names stand for whole cards; leave --partition and Single out")
        if self.cdi and plugin.why_no_cdi:
            raise ConfigError(f"--cdi: {plugin.why_no_cdi}; leave it out")
        path = f"{self.plugin_dir}/{self.endpoint_name}"
        if self.endpoint_name == f"kubelet{_SUFFIX}":
            raise ConfigError("--socket-name: kubelet.sock is the kubelet's own")
        if len(path.encode()) > _SOCKET_PATH_BYTES:
            raise ConfigError(
                f"--plugin-dir and --socket-name: {path} is longer than the {_SOCKET_PATH_BYTES} bytes that "
                "the path of a socket may have"
            )

    @property
    def endpoint_name(self) -> str:
        """Of the socket's file, as the kubelet is told it."""
        usual = _PLUGINS[self.vendor].socket_name or f"accelscope-{self.vendor}"
        return (self.socket_name or usual).removesuffix(_SUFFIX) + _SUFFIX

    @property
    def usual_resource_name(self) -> str:
        """What pods ask for, where that does not depend on the devices."""
        if self.resource_name or not _PLUGINS[self.vendor].resource:
            return self.resource_name
        part = open_vendor(Vendor(self.vendor), self.roots)
        return part.usual_resource((), self.cut.partition_cores)

    @property
    def cut(self) -> Cut:
        return Cut(self.default_pe, self.partition, self.shares)

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
        # A tool is given up before its survey is, so that the reason says which of them hung.
        return ReaderOptions(paths, self.vendor_settings, tool_timeout_seconds=0.8 * self.reader_timeout)


def load_settings(
    arguments: argparse.Namespace | Mapping[str, object], environ: Mapping[str, str]
) -> Loaded[PluginSettings]:
    """Raises ConfigError."""
    loaded = load(PluginSettings, arguments, environ)
    if loaded.file is not None:
        for name in OF_ONE_PLACE:
            origin = loaded.origins.get(name, "")
            if origin and not origin.startswith(f"{loaded.file}:"):
                raise ConfigError(
                    f"{origin} cannot be given beside --config-file: write {key_name(name)} into "
                    f"{loaded.file}, or leave --config-file out"
                )
    return loaded
