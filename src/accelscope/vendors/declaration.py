"""The declaration of a vendor: its names, and where its parts are.

A declaration is data. It imports nothing but this module, so that the agent can iterate over all of them
without loading the code of a vendor that the node does not have. A part is named as "module:attribute" within
the vendor's package and is imported when it is used.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAnnotation:
    """A document about the vendor's devices in an annotation of the Node, in a format that other collectors
    also use."""

    name: str
    setting: str  # of the agent: whether it writes the annotation
    help: str  # of that setting
    member: str  # of the document: the list of devices
    entries: str  # Callable[[Iterable[Device]], Iterable[Entry]]: what the agent writes
    device: str  # Callable[[Mapping[str, object]], Device | None]: what the fleet reads from an entry


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverPods:
    """Pods in which the fleet can run the vendor's tool where a node has no agent."""

    namespaces: tuple[str, ...]  # where they are, unless the clusters file names others
    containers: str  # Callable[[Mapping[str, str]], Sequence[str]]: from a pod's labels: containers to try
    tool: str  # Callable[[], DriverTool]


@dataclass(frozen=True, slots=True, kw_only=True)
class VendorSetting:
    """A setting that only this vendor has. Agent and device plugin make flag, environment variable and YAML
    key of `name`, as for their own settings."""

    name: str
    default: str
    help: str
    plugin_help: str = ""  # help in the device plugin; empty: the device plugin does not have the setting
    metavar: str = "PATH"
    choices: tuple[str, ...] = ()
    pattern: tuple[str, str] | None = None  # allowed values: description and regular expression
    absolute: bool = False  # a folder that the device plugin mounts in containers: no relative path
    # A file that is read again when it changes; empty: none. An option of a dialect is rejected if that
    # dialect is not chosen.
    watched: bool = False

    def of(self, values: Mapping[str, str]) -> str:
        return values.get(self.name, self.default)


@dataclass(frozen=True, slots=True, kw_only=True)
class DialectDeclaration:
    """Another exporter's names, see accelscope.metrics.dialects."""

    name: str  # value of --dialect
    package: str
    part: str  # Callable[[Mapping[str, str]], Dialect]: made from the values of all dialects' options
    same_names: tuple[str, ...] = ()  # dialects with the same names in other units
    options: tuple[VendorSetting, ...] = ()
    exporter: str = ""  # name of the other exporter's program
    page_marker: str = (
        ""  # text by which doctor recognises that exporter's metrics page; empty: there is none
    )

    def load(self) -> Any:
        return load_part(self.package, self.part)


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginDeclaration:
    """The vendor's part of the device plugin, see accelscope.deviceplugin.vendor."""

    part: str  # Callable[[Roots], VendorPlugin]
    default: bool = False  # of --vendor
    socket_name: str = ""  # default name of the plugin's socket; empty: accelscope-<vendor>
    resource: str = ""  # default resource name; empty: depends on the devices
    other_resources: tuple[str, ...] = ()  # further defaults, by model or partition, for help texts
    why_no_cdi: str = ""  # one line; empty: its devices have CDI names

    # Division of devices into cores or partitions
    settings: tuple[VendorSetting, ...] = ()  # reloadable; other vendors' plugins reject them
    division: str = ""  # Callable[[Mapping[str, str]], Division]: from the values of these settings
    partition_cores: tuple[int, ...] = ()  # the possible sizes of a partition
    named_cores: str = ""  # Callable[[str], NamedCores | None]: from the name of a device file


def load_part(package: str, part: str) -> Any:
    module, _, attribute = part.partition(":")
    return getattr(import_module(f"{package}.{module}"), attribute)


@dataclass(frozen=True, slots=True, kw_only=True)
class VendorDeclaration:
    package: str  # `__name__` of the vendor's package
    name: str  # value of the label `vendor`, start of its devices' ids, value of --readers
    title: str  # as the vendor writes its name
    order: int  # position on pages and in lists; the name decides between equals

    reader: str  # Callable[[ReaderOptions], Reader]
    sources: str  # tuple[OutputFormat, ...]: what `accelscope parse` reads
    examination: str  # VendorExamination: what `accelscope doctor` checks
    capture_plan: str = ""  # Plan: what `accelscope capture` saves
    error_codes: str = ""  # module with their meaning, see accelscope.vendors.common.error_codes
    # The driver lists the errors that a device has now, so it decides itself when one ends.
    lists_current_errors: bool = False
    resets_after_errors: bool = False  # the driver resets a device by itself after an error that needs it
    reset_counters: tuple[str, ...] = ()  # that a reset restarts: energy, uptime, replays (of PCIe)
    driver_modules: tuple[str, ...] = ()  # of the kernel; loaded again, they show a reload of the driver

    plugin: PluginDeclaration | None = None  # what `accelscope device-plugin` needs

    # Settings and dialects
    settings: tuple[VendorSetting, ...] = ()  # where its driver's files and tools are
    dialects: tuple[DialectDeclaration, ...] = ()  # names of its own exporters
    exporter_labels: str = ""  # Callable[[Mapping[str, str]], LabelOrder]: of its exporter, used by others
    account_names: tuple[str, ...] = ()  # users that its driver creates, in lower case: the mask keeps them

    # Simulator
    simulated: str = ""  # SimulatedVendor; its ready-made nodes are in simulated/nodes
    # Words
    # Names of its drivers, tools and products, and its PCI vendor id, in lower case. Only its folder may use
    # them (tests/vendors/test_vendors_stay_in_their_folder.py, scripts/structure).
    words: tuple[str, ...] = ()
    model_prefix: str = ""  # the company's name at the start of model names; tables leave it out
    # Throttle reasons that do not matter: none is active, or the lower clock is intended.
    harmless_throttles: tuple[str, ...] = ()
    # Throttle reasons because of heat or the power supply. A configured or usual power limit (sw_power_cap,
    # ppt, app_power_cap) is not one.
    fault_throttles: tuple[str, ...] = ()
    lists_all_processes: bool = False  # an empty list means no process, unless `absent` names the list

    # Attribution
    resource_domain: str = ""  # of its resources (nvidia.com/gpu) and of its drivers of resource claims
    device_ids: str = ""  # DeviceIdForms: id formats of its device plugins
    first_partition_by_address: bool = False  # the PCI address of a divided device means its first partition
    visible_devices: tuple[str, ...] = ()  # environment variables that select a container's devices
    visible_devices_folder: str | None = None  # in a container: a file for each device, instead of a variable
    indexes_job_files: bool = (
        False  # on a node with several vendors, an index in the job mapping folder is its device
    )

    # Node object
    annotation: NodeAnnotation | None = None
    # Labels in the vendor's own format: domain, and Callable[[NodeFacts, Machine], Iterable[Fact]].
    label_domains: tuple[tuple[str, str], ...] = ()

    # Fleet
    makes_gpus: bool = False  # /api/v1/gpu lists its devices
    node_labels: tuple[str, ...] = ()  # patterns of the labels that a Node with its devices has
    driver_pods: DriverPods | None = None

    def load(self, part: str) -> Any:
        """Import a part of this vendor."""
        return load_part(self.package, part)

    def error_code(self, code: str) -> Any:
        """What the vendor's documents say about an error code, as an ErrorCode. None: nothing is known.
        Imports the vendor's table when it is first called."""
        return self.load(f"{self.error_codes}:error_code")(code) if self.error_codes else None
