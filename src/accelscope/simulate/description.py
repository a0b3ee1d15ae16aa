"""From a YAML description to a NodeSpec, or to one clear line about what is wrong with it."""

import math
from collections.abc import Hashable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml

from accelscope.simulate.faults import Fault, FaultKind, PossibleFaults
from accelscope.simulate.load import Shape
from accelscope.simulate.pod_description import read_cgroup, read_pod
from accelscope.simulate.pods import check_pods
from accelscope.simulate.section import DescriptionError, Section, got, read_each, shown, unknown
from accelscope.simulate.spec import (
    HolderSpec,
    LoadSpec,
    NodeSpec,
    ProcessSpec,
    ProcessType,
    VendorSpec,
)
from accelscope.simulate.vendor import VENDORS, simulated_vendor

MAX_INSTANCES = 64  # of one device
MAX_PID = (1 << 22) - 1
_READY_MADE = Path(__file__).parent / "nodes"


def ready_made(vendor: str | None = None) -> tuple[str, ...]:
    """Names of the nodes that come with AccelScope; of those only that have devices of the vendor."""
    paths = sorted(_READY_MADE.glob("*.yaml"))
    return tuple(path.stem for path in paths if vendor is None or vendor in yaml.safe_load(path.read_text()))


def load_node(name_or_path: str | Path) -> NodeSpec:
    """A node by the name of a ready-made one or from a file. Raises DescriptionError."""
    name = str(name_or_path)
    path = _READY_MADE / f"{name}.yaml" if name in ready_made() else Path(name)
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise DescriptionError(
            f"{error.strerror}; ready-made nodes: {', '.join(ready_made())}", file=name
        ) from None
    except UnicodeDecodeError:
        raise DescriptionError("not a text in UTF-8", file=name) from None
    try:
        return read_node(text, default_name=path.stem)
    except DescriptionError as error:
        raise error.in_file(name) from None


def read_node(text: str, *, default_name: str = "simulated") -> NodeSpec:
    """A node from the text of a description. Raises DescriptionError."""
    root = Section(read_yaml(text), "")
    name = root.text("node", default_name)
    seed = root.integer("seed", 1, 0, 2**63 - 1)
    vendors = dict(_vendors(root))
    labels = root.texts("node_labels")
    processes, pods, faults = root.items("processes"), root.items("pods"), root.items("faults")
    root.finish()  # first, lest a vendor with a slip in its name be missed where its processes are read
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
    """Those that have a section, be it empty: a driver without a device."""
    for name in VENDORS:
        there = root.has(name)
        section = root.section(name)
        if there:
            yield name, simulated_vendor(name).read_section(section)
            section.finish()


def read_yaml(text: str) -> Any:
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = min(mark.line, text.count("\n")) + 1 if mark else None  # the end may be counted as one more
        problem = getattr(error, "problem", None) or "unreadable"
        raise DescriptionError(f"not valid YAML: {problem}", line=line) from None


def _vendor(section: Section, vendors: Mapping[str, VendorSpec]) -> str:
    """Which vendor's devices a process or a fault is on; it goes without saying where there is only one."""
    given = section.take("vendor")
    if given is None and len(vendors) == 1:
        return next(iter(vendors))
    if str(given) not in vendors:
        allowed = f"allowed: {', '.join(vendors)}" if vendors else "the node has no section of any vendor"
        problem = "say which" if given is None else f"{shown(given)} is not on this node"
        raise section.error("vendor", f"{problem}; {allowed}")
    return str(given)


def _process(section: Section, vendors: Mapping[str, VendorSpec]) -> ProcessSpec:
    vendor = _vendor(section, vendors)
    own, read_own = vendors[vendor], simulated_vendor(vendor).read_process
    load = section.section("load")
    load_spec = LoadSpec(
        shape=load.choice("shape", Shape, Shape.STEADY),
        level=load.number("level", 0.6, 0, 1),
        period_seconds=load.optional_number("period_seconds", 1, 86_400),
    )
    load.finish()
    devices = _devices(section, own.device_count)
    spec = ProcessSpec(
        name=section.text("name", "python3"),
        vendor=vendor,
        devices=devices,
        instance=section.optional_integer("instance", 0, MAX_INSTANCES - 1),
        count=section.integer("count", 1, 1, 10_000),
        spans_devices=section.flag("spans_devices", default=False),
        memory_bytes=section.size("memory", 1 << 30),
        memory_reported=section.flag("memory_reported", default=True),
        load=load_spec,
        encoder=section.number("encoder", 0, 0, 1),
        decoder=section.number("decoder", 0, 0, 1),
        type=section.choice("type", ProcessType, ProcessType.COMPUTE),
        uid=section.integer("uid", 1000, 0, 2**32 - 2),
        cgroup=read_cgroup(section, vendor),
        pid=section.optional_integer("pid", 1, MAX_PID),
        begin=section.optional_number("from", 0, math.inf),
        until=section.optional_number("until", 0, math.inf),
        own=read_own(section, own, devices) if read_own else None,
    )
    if spec.pid is not None and (spec.count > 1 or (len(spec.devices) > 1 and not spec.spans_devices)):
        raise section.error("pid", "one pid for several processes; use count: 1 and one device")
    for device in spec.devices:
        _check_instance(section, spec.instance, device, own.instances(device))
    return spec


def _devices(section: Section, count: int) -> tuple[int, ...]:
    single, several = section.take("device"), section.take("devices")
    if single is not None and several is not None:
        raise section.error("device", "give either device or devices")
    if several == "all":
        return tuple(range(count))
    wanted = several if several is not None else [single if single is not None else 0]
    if not isinstance(wanted, list) or not wanted:
        raise section.error("devices", f"expected a list of device numbers or all, got {shown(several)}")
    for device in wanted:
        if not isinstance(device, int) or isinstance(device, bool) or not 0 <= device < count:
            allowed = f"allowed: 0 to {count - 1}" if count else "the node has none"
            raise section.error("device", f"there is no device {shown(device)}; {allowed}")
    return tuple(wanted)


def _check_instance(section: Section, instance: int | None, device: int, count: int | None) -> None:
    if count is None:
        if instance is not None:
            raise section.error("instance", f"device {device} is not cut into instances")
    elif instance is None or instance >= count:
        raise section.error("instance", f"device {device} is cut into instances: say which, 0 to {count - 1}")


def _holder(section: Section, vendors: Mapping[str, VendorSpec]) -> HolderSpec:
    vendor = _vendor(section, vendors)
    own, read_own = vendors[vendor], simulated_vendor(vendor).read_process
    devices = _devices(section, own.device_count)
    spec = HolderSpec(
        vendor=vendor,
        devices=devices,
        instance=section.optional_integer("instance", 0, MAX_INSTANCES - 1),
        cgroup=read_pod(section, vendor),
        begin=section.optional_number("from", 0, math.inf),
        until=section.optional_number("until", 0, math.inf),
        own=read_own(section, own, devices) if read_own else None,
    )
    for device in spec.devices:
        _check_instance(section, spec.instance, device, own.instances(device))
    return spec


def read_fault(section: Section, vendors: Mapping[str, VendorSpec]) -> Fault:
    vendor = _vendor(section, vendors)
    possible = simulated_vendor(vendor).faults
    given: object = section.take("kind")
    if given not in tuple(possible.kinds):
        allowed = ", ".join(kind for kind in FaultKind if kind in possible.kinds)
        raise section.error("kind", f"{unknown(given)}; allowed: {allowed}")
    kind = FaultKind(str(given))
    tool = section.take("tool")
    if tool is not None and (tool not in possible.tools or not kind.of_tool):
        raise section.error(
            "tool", f"for faults of a tool one of: {', '.join(possible.tools)}; got {shown(tool)}"
        )
    error = section.take("error")
    if (kind is FaultKind.TOOL_ERROR) != (error is not None) or error not in (None, *possible.errors):
        raise section.error("error", f"for tool_error one of: {', '.join(possible.errors)}{got(error)}")
    return Fault(
        kind=kind,
        vendor=vendor if len(vendors) > 1 else None,
        device=_faulty_device(section, kind, vendors[vendor].device_count),
        code=_code(section, kind, possible),
        tool=tool,
        error=error,
        begin=section.number("from", 0, 0, math.inf),
        until=section.optional_number("until", 0, math.inf),
    )


def _faulty_device(section: Section, kind: FaultKind, count: int) -> int | None:
    device: object = section.take("device")
    if not kind.of_device:
        if device is not None:
            raise section.error("device", f"{kind} is of the whole node, not of one device")
        return None
    if not isinstance(device, int) or isinstance(device, bool) or not 0 <= device < count:
        allowed = f"0 to {count - 1}" if count else "none, the node has no devices"
        raise section.error("device", f"{kind} needs a device; allowed: {allowed}{got(device)}")
    return device


def _code(section: Section, kind: FaultKind, possible: PossibleFaults) -> int | None:
    allowed = possible.codes.get(kind)
    if allowed is not None:
        return section.optional_integer("code", allowed.start, allowed.stop - 1)
    if section.take("code") is not None:
        coded = (
            f"only {', '.join(possible.codes)} has a code" if possible.codes else "no fault here has a code"
        )
        raise section.error("code", f"{coded}, not {kind}")
    return None


def _check_memory(spec: NodeSpec) -> None:
    """Processes must fit: a card that holds more than it has would be no simulation of anything."""
    room: dict[tuple[str, Hashable], int] = {}
    for process in spec.processes:
        for device in process.devices:
            pool = spec.vendors[process.vendor].memory_pool(device, process.instance)
            key = (process.vendor, pool.name)
            room[key] = room.get(key, pool.bytes) - process.memory_bytes * process.count
            if room[key] < 0:
                part = "" if process.instance is None else f" instance {process.instance}"
                short = f"device {device}{part} is {-room[key] >> 20} MiB short"
                raise DescriptionError(f"processes: {process.name} does not fit: {short}")


def _check_pids(spec: NodeSpec) -> None:
    """A pid may go to another process once the first has ended, as the kernel hands them out."""
    given = sorted(
        (process.pid, -math.inf if process.begin is None else process.begin, process.until)
        for process in spec.processes
        if process.pid is not None
    )
    for (pid, _, until), (other, begin, _) in pairwise(given):
        if pid == other and (until is None or begin < until):
            times = sum(each == pid for each, *_ in given)
            raise DescriptionError(f"processes: {times} of them have the pid {pid}; give each its own")
