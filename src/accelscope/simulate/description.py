"""Reads the YAML description of a node. Errors are one line with the path of the key."""

import math
from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml

from accelscope.config.document import Section, parse_yaml, read_each
from accelscope.config.values import (
    BOOLEAN,
    LINE,
    TEXT_MAPPING,
    Choice,
    Decimal,
    Size,
    Text,
    WholeNumber,
)
from accelscope.simulate.faults import Fault, FaultKind, PossibleFaults
from accelscope.simulate.pods import check_pods
from accelscope.simulate.section import Description, DescriptionError
from accelscope.simulate.spec import (
    CgroupKind,
    CgroupSpec,
    HamiShare,
    IdlePodSpec,
    LoadSpec,
    NodeSpec,
    PodOwner,
    PodQos,
    PodSpec,
    ProcessSpec,
    ProcessType,
    Shape,
    VendorSpec,
)
from accelscope.simulate.vendor import simulated_names, simulated_vendor
from accelscope.vendors import declarations

OWNER_KINDS = ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job")
MAX_REPLICAS = 64  # of one device in one container
_UUID = Text(
    "a uid such as 0f3c…-…, lower case", "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
)
_LABEL = "[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_LOWER_CASE = "a name in lower case such as trainer-0"
_NAME = Text(_LOWER_CASE, _LABEL)
_POD_NAME = Text(_LOWER_CASE, rf"(?=.{{1,253}}$){_LABEL}(?:\.{_LABEL})*")
_RESOURCE = Text("a resource such as nvidia.com/gpu", r"[a-z0-9.-]+\.[a-z]+/[A-Za-z0-9][A-Za-z0-9._-]*")


def read_cgroup(section: Section, vendor: str) -> CgroupSpec:
    """Reads the key `cgroup` of a process: a kind, or a mapping. Raises DescriptionError."""
    value = section.raw("cgroup")
    if value is None:
        return CgroupSpec()
    document = {"kind": value} if isinstance(value, str) else value
    entry = type(section)(document, section.path("cgroup"), file=section.file)
    kind = entry.take("kind", Choice(*CgroupKind), CgroupKind.HOST)
    if kind is CgroupKind.POD:
        spec = read_pod(entry, vendor, name_key="pod")
    else:
        spec = CgroupSpec(
            kind=kind,
            container_id=_container_id(entry),
            job=entry.take("job", WholeNumber(1, 2**31 - 1)),
            unit=entry.take("unit", Text("a systemd unit such as trainer.service", r"[\w@.-]+\.service")),
        )
    entry.finish()
    return spec


def read_pod(section: Section, vendor: str, name_key: str = "name") -> CgroupSpec:
    """Reads the keys of a pod. Raises DescriptionError."""
    replicas = section.take("replicas", WholeNumber(1, MAX_REPLICAS))
    hami = _hami(section)
    if (replicas or hami) and not simulated_vendor(vendor).shares_devices:
        sharing = ", ".join(name for name in simulated_names() if simulated_vendor(name).shares_devices)
        raise section.error("replicas" if replicas else "hami", f"only {sharing} devices can be shared")
    if replicas and hami:
        raise section.error("replicas", "cannot be combined with hami")
    return CgroupSpec(
        kind=CgroupKind.POD,
        qos=section.take("qos", Choice(*PodQos), PodQos.BURSTABLE),
        pod_uid=section.take("pod_uid", _UUID),
        container_id=_container_id(section),
        pod=PodSpec(
            namespace=section.take("namespace", _NAME),
            name=section.take(name_key, _POD_NAME),
            container=section.take("container", _NAME),
            labels=tuple(section.take("labels", TEXT_MAPPING, {}).items()),
            owner=_owner(section),
            resource=section.take("resource", _RESOURCE),
            replicas=replicas,
            hami=hami,
            allocated=section.take("allocated", BOOLEAN, default=True),
        ),
    )


def _container_id(section: Section) -> str | None:
    return section.take("container_id", Text("64 hexadecimal digits", "[0-9a-f]{64}"))


def _owner(section: Section) -> PodOwner | None:
    entry = section.optional_section("owner")
    if entry is None:
        return None
    owner = PodOwner(entry.take("kind", Choice(*OWNER_KINDS), OWNER_KINDS[0]), entry.take("name", _NAME))
    entry.finish()
    return owner


def _hami(section: Section) -> HamiShare | None:
    entry = section.optional_section("hami")
    if entry is None:
        return None
    share = HamiShare(
        memory_bytes=entry.require("memory", Size(1 << 20)),
        cores_percent=entry.take("cores", WholeNumber(0, 100), 0),
    )
    entry.finish()
    return share


MAX_INSTANCES = 64  # of one device
MAX_PID = (1 << 22) - 1
_INSTANCE = WholeNumber(0, MAX_INSTANCES - 1)
_RATIO = Decimal(0, 1)
_TIME = Decimal(0)  # seconds since the node started


def ready_made(vendor: str | None = None) -> tuple[str, ...]:
    """Names of the nodes that are shipped with AccelScope, or of those with devices of the vendor."""
    paths = _ready_made_files()
    return tuple(
        name for name in paths if vendor is None or vendor in yaml.safe_load(paths[name].read_text())
    )


def _ready_made_files() -> dict[str, Path]:
    """By name. Nodes of one vendor are in its folder, those of several vendors are here."""
    folders = [Path(__file__).parent]
    folders += (Path(str(files(declarations()[name].package))) / "simulated" for name in simulated_names())
    found = (path for folder in folders for path in folder.glob("nodes/*.yaml"))
    return {path.stem: path for path in sorted(found, key=lambda path: path.name)}


def load_node(name_or_path: str | Path) -> NodeSpec:
    """Loads a ready-made node by its name, or a file. Raises DescriptionError."""
    name = str(name_or_path)
    path = _ready_made_files().get(name) or Path(name)
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise DescriptionError(
            f"{error.strerror}; ready-made nodes: {', '.join(ready_made())}", file=name
        ) from None
    except UnicodeDecodeError:
        raise DescriptionError("not UTF-8 text", file=name) from None
    try:
        return read_node(text, default_name=path.stem)
    except DescriptionError as error:
        raise error.in_file(name) from None


def read_node(text: str, *, default_name: str = "simulated") -> NodeSpec:
    """Reads the text of a description. Raises DescriptionError."""
    root = Description(read_yaml(text))
    name = root.take("node", LINE, default_name)
    seed = root.take("seed", WholeNumber(0, 2**63 - 1), 1)
    vendors = dict(_vendors(root))
    labels = tuple(root.take("node_labels", TEXT_MAPPING, {}).items())
    processes, pods, faults = (root.sections(key) for key in ("processes", "pods", "faults"))
    root.finish()  # before processes are read: a misspelt vendor is reported here
    spec = NodeSpec(
        name=name,
        seed=seed,
        vendors=vendors,
        processes=read_each(processes, lambda section: _process(section, vendors)),
        holders=read_each(pods, lambda section: _holder(section, vendors)),
        node_labels=labels,
        faults=read_each(faults, lambda section: read_fault(section, vendors)),
        text=text,
    )
    _check_memory(spec)
    _check_pids(spec)
    check_pods(spec)
    return spec


def _vendors(root: Section) -> Iterator[tuple[str, VendorSpec]]:
    """Vendors with a section; an empty one is a driver without devices."""
    for name in simulated_names():
        section = root.optional_section(name)
        if section is not None:
            yield name, simulated_vendor(name).read_section(section)
            section.finish()


def read_yaml(text: str) -> Any:
    return parse_yaml(text, yaml.safe_load, error_type=DescriptionError)


def _vendor(section: Section, vendors: Mapping[str, VendorSpec]) -> str:
    """The vendor that a process or a fault belongs to; optional on a node with devices of one vendor."""
    if not vendors:
        raise section.error("vendor", "the node has no vendor's section")
    if len(vendors) == 1:
        return section.take("vendor", Choice(*vendors), next(iter(vendors)))
    return section.require("vendor", Choice(*vendors))


def _process(section: Section, vendors: Mapping[str, VendorSpec]) -> ProcessSpec:
    vendor = _vendor(section, vendors)
    own, read_own = vendors[vendor], simulated_vendor(vendor).read_process
    load = section.section("load")
    load_spec = LoadSpec(
        shape=load.take("shape", Choice(*Shape), Shape.STEADY),
        level=load.take("level", _RATIO, 0.6),
        period_seconds=load.take("period_seconds", Decimal(1, 86_400)),
    )
    load.finish()
    devices = _devices(section, own.device_count)
    spec = ProcessSpec(
        name=section.take("name", LINE, "python3"),
        vendor=vendor,
        devices=devices,
        instance=section.take("instance", _INSTANCE),
        count=section.take("count", WholeNumber(1, 10_000), 1),
        spans_devices=section.take("spans_devices", BOOLEAN, default=False),
        memory_bytes=section.take("memory", Size(), 1 << 30),
        memory_reported=section.take("memory_reported", BOOLEAN, default=True),
        load=load_spec,
        encoder=section.take("encoder", _RATIO, 0),
        decoder=section.take("decoder", _RATIO, 0),
        type=section.take("type", Choice(*ProcessType), ProcessType.COMPUTE),
        uid=section.take("uid", WholeNumber(0, 2**32 - 2), 1000),
        cgroup=read_cgroup(section, vendor),
        pid=section.take("pid", WholeNumber(1, MAX_PID)),
        begin=section.take("from", _TIME),
        until=section.take("until", _TIME),
        own=read_own(section, own, devices) if read_own else None,
    )
    if spec.pid is not None and (spec.count > 1 or (len(spec.devices) > 1 and not spec.spans_devices)):
        raise section.error("pid", "several processes cannot have one pid; use count: 1 and one device")
    for device in spec.devices:
        _check_instance(section, spec.instance, device, own.instances(device))
    return spec


def _devices(section: Section, count: int) -> tuple[int, ...]:
    single, several = section.raw("device"), section.raw("devices")
    if single is not None and several is not None:
        raise section.error("device", "cannot be combined with devices")
    if several == "all":
        return tuple(range(count))
    if several is not None and not (isinstance(several, list) and several):
        raise section.error("devices", "expected a list of device numbers, or all")
    number = _device_number(section, count)
    if several is not None:
        return section.take_each("devices", number)
    return (section.take("device", number, 0),)


def _device_number(section: Section, count: int) -> WholeNumber:
    if not count:
        raise section.error("device", "the node has no devices")
    return WholeNumber(0, count - 1, "a device number")


def _check_instance(section: Section, instance: int | None, device: int, count: int | None) -> None:
    if count is None:
        if instance is not None:
            raise section.error("instance", f"device {device} is not partitioned")
    elif instance is None or instance >= count:
        raise section.error("instance", f"device {device} is partitioned; allowed: 0 to {count - 1}")


def _holder(section: Section, vendors: Mapping[str, VendorSpec]) -> IdlePodSpec:
    vendor = _vendor(section, vendors)
    own, read_own = vendors[vendor], simulated_vendor(vendor).read_process
    devices = _devices(section, own.device_count)
    spec = IdlePodSpec(
        vendor=vendor,
        devices=devices,
        instance=section.take("instance", _INSTANCE),
        cgroup=read_pod(section, vendor),
        begin=section.take("from", _TIME),
        until=section.take("until", _TIME),
        own=read_own(section, own, devices) if read_own else None,
    )
    for device in spec.devices:
        _check_instance(section, spec.instance, device, own.instances(device))
    return spec


def read_fault(section: Section, vendors: Mapping[str, VendorSpec]) -> Fault:
    vendor = _vendor(section, vendors)
    possible = simulated_vendor(vendor).faults
    kind = section.require("kind", Choice(*(kind for kind in FaultKind if kind in possible.kinds)))
    tool = section.take("tool", Choice(*possible.tools))
    if tool is not None and not kind.of_tool:
        raise section.error("tool", f"{kind} is not a fault of a tool")
    error = section.take("error", Choice(*possible.errors))
    if (kind is FaultKind.TOOL_ERROR) != (error is not None):
        raise section.error("error", f"tool_error needs one of: {', '.join(possible.errors)}")
    cause = section.take("cause", Choice(*possible.causes))
    if (kind is FaultKind.THROTTLED) != (cause is not None):
        allowed = f"needs one of: {', '.join(possible.causes)}" if possible.causes else "is not possible here"
        raise section.error("cause", f"{FaultKind.THROTTLED} {allowed}")
    return Fault(
        kind=kind,
        vendor=vendor if len(vendors) > 1 else None,
        device=_faulty_device(section, kind, vendors[vendor].device_count),
        code=_code(section, kind, possible),
        tool=tool,
        error=error,
        cause=cause,
        begin=section.take("from", _TIME, 0),
        until=section.take("until", _TIME),
    )


def _faulty_device(section: Section, kind: FaultKind, count: int) -> int | None:
    given = section.raw("device") is not None
    if not kind.of_device:
        if given:
            raise section.error("device", f"{kind} is a fault of the whole node, not of one device")
        return None
    number = _device_number(section, count)
    if not given:
        raise section.error("device", f"{kind} needs a device; allowed: 0 to {count - 1}")
    return section.take("device", number)


def _code(section: Section, kind: FaultKind, possible: PossibleFaults) -> int | None:
    allowed = possible.codes.get(kind)
    if allowed is not None:
        return section.take("code", WholeNumber(allowed.start, allowed.stop - 1))
    if section.raw("code") is not None:
        coded = (
            f"only {', '.join(possible.codes)} has a code" if possible.codes else "no fault here has a code"
        )
        raise section.error("code", f"{coded}, not {kind}")
    return None


def _check_memory(spec: NodeSpec) -> None:
    """Raises DescriptionError if processes that run at the same time do not fit into the memory of a
    device."""
    placed: dict[tuple[str, Hashable], list[ProcessSpec]] = defaultdict(list)
    for process in spec.processes:
        for device in process.devices:
            pool = spec.vendors[process.vendor].memory_pool(device, process.instance)
            together = placed[process.vendor, pool.name]
            together.append(process)
            used = sum(other.memory_bytes * other.count for other in together if _overlap(process, other))
            if used > pool.bytes:
                part = "" if process.instance is None else f" instance {process.instance}"
                short = f"device {device}{part} is {(used - pool.bytes) >> 20} MiB short"
                raise DescriptionError(f"processes: {process.name} does not fit: {short}")


def _overlap(one: ProcessSpec, other: ProcessSpec) -> bool:
    def begins_before_end_of(first: ProcessSpec, second: ProcessSpec) -> bool:
        return first.begin is None or second.until is None or first.begin < second.until

    return begins_before_end_of(one, other) and begins_before_end_of(other, one)


def _check_pids(spec: NodeSpec) -> None:
    """Raises DescriptionError for a pid of two processes that run at the same time. The kernel reuses
    pids."""
    given = sorted(
        (process.pid, -math.inf if process.begin is None else process.begin, process.until)
        for process in spec.processes
        if process.pid is not None
    )
    for (pid, _, until), (other, begin, _) in pairwise(given):
        if pid == other and (until is None or begin < until):
            times = sum(each == pid for each, *_ in given)
            raise DescriptionError(f"processes: {times} have the pid {pid}; pids must be unique")
