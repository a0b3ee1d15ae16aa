"""From a YAML description to a NodeSpec, or to one clear line about what is wrong with it."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from accelscope.simulate.faults import Fault, FaultKind, ToolError
from accelscope.simulate.load import Shape
from accelscope.simulate.nvidia.cards import CARDS
from accelscope.simulate.nvidia.mig import MigDevice, cut
from accelscope.simulate.section import DescriptionError, Section
from accelscope.simulate.spec import (
    CgroupKind,
    CgroupSpec,
    LoadSpec,
    NodeSpec,
    NvidiaDeviceSpec,
    NvidiaSpec,
    PodQos,
    ProcessSpec,
    ProcessType,
    ToolCost,
)

MAX_DEVICES = 64
MAX_PID = (1 << 22) - 1
_READY_MADE = Path(__file__).parent / "nodes"
_UUID = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"


def ready_made() -> tuple[str, ...]:
    """Names of the nodes that come with AccelScope."""
    return tuple(sorted(path.stem for path in _READY_MADE.glob("*.yaml")))


def load_node(name_or_path: str | Path) -> NodeSpec:
    """A node by the name of a ready-made one or from a file. Raises DescriptionError."""
    name = str(name_or_path)
    path = _READY_MADE / f"{name}.yaml" if name in ready_made() else Path(name)
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise DescriptionError(
            f"{name}: {error.strerror}; ready-made nodes: {', '.join(ready_made())}"
        ) from None
    except UnicodeDecodeError:
        raise DescriptionError(f"{name}: not a text in UTF-8") from None
    return read_node(text, default_name=path.stem)


def read_node(text: str, *, default_name: str = "simulated") -> NodeSpec:
    """A node from the text of a description. Raises DescriptionError."""
    root = Section(read_yaml(text), "")
    spec = NodeSpec(
        name=root.text("node", default_name),
        seed=root.integer("seed", 1, 0, 2**63 - 1),
        nvidia=_nvidia(Section(root.take("nvidia") or {}, "nvidia")),
        text=text,
    )
    count = len(spec.nvidia.devices)
    processes = root.sections("processes", lambda section: _process(section, spec.nvidia.devices))
    faults = root.sections("faults", lambda section: read_fault(section, count))
    root.finish()
    spec = replace(spec, processes=processes, faults=faults)
    _check_memory(spec)
    return spec


def read_yaml(text: str) -> Any:
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"line {mark.line + 1}: " if mark else ""
        problem = getattr(error, "problem", None) or "unreadable"
        raise DescriptionError(f"not YAML: {place}{problem}") from None


def _nvidia(section: Section) -> NvidiaSpec:
    usual = NvidiaSpec()
    tool = Section(section.take("tool") or {}, "nvidia.tool")
    cost = ToolCost(
        cpu_milliseconds=tool.integer("cost_ms", 0, 0, 60_000),
        memory_mib=tool.integer("memory_mb", 0, 0, 4096),
    )
    tool.finish()
    devices: list[NvidiaDeviceSpec] = []
    for where, member in section.items("devices"):
        entry = Section(member, where)
        count = entry.integer("count", 1, 1, MAX_DEVICES)
        devices.extend([_nvidia_device(entry)] * count)
        entry.finish()
    if len(devices) > MAX_DEVICES:
        raise section.error("devices", f"{len(devices)} devices; at most {MAX_DEVICES}")
    spec = NvidiaSpec(
        driver_version=_version(section, "driver_version", usual.driver_version),
        cuda_version=_version(section, "cuda_version", usual.cuda_version),
        call_cost_microseconds=section.integer("call_cost_us", 0, 0, 1_000_000),
        pcie_window_milliseconds=section.integer("pcie_window_ms", usual.pcie_window_milliseconds, 0, 10_000),
        process_utilization=section.flag("process_utilization", default=True),
        tool=cost,
        devices=tuple(devices),
    )
    section.finish()
    return spec


def _version(section: Section, key: str, default: str) -> str:
    return (
        section.optional_text(key, r"\d+(\.\d+){1,2}", "a version such as '590.48.01', in quotes") or default
    )


def _nvidia_device(section: Section) -> NvidiaDeviceSpec:
    model = section.take("model")
    card = CARDS.get(str(model))
    if card is None:
        raise section.error("model", f"{model!r} is not known; allowed: {', '.join(CARDS)}")
    card = replace(
        card,
        name=section.text("name", card.name),
        memory_mib=section.integer("memory_mib", card.memory_mib, card.reserved_mib + 1024, 1 << 20),
    )
    limit = section.number(
        "power_limit_watts", card.power.default_watts, card.power.min_watts, card.power.max_watts
    )
    links = card.nvlink.links if card.nvlink else 0
    down = []
    for where, link in section.items("links_down"):
        if not isinstance(link, int) or not 0 <= link < links:
            raise DescriptionError(f"{where}: {card.model} has {links} links, numbered from 0; got {link!r}")
        down.append(link)
    return NvidiaDeviceSpec(
        card=card,
        power_limit_watts=limit,
        ambient_celsius=section.number("ambient_celsius", 30.0, 0, 60),
        links_down=tuple(down),
        mig=_mig(section, card.model),
    )


def _mig(section: Section, model: str) -> tuple[MigDevice, ...] | None:
    where = section.path("mig")
    members = section.items("mig")
    if not members:
        return None
    layout: list[tuple[str, tuple[str, ...]]] = []
    for place, member in members:
        if isinstance(member, str):
            layout.append((member, ()))
            continue
        entry = Section(member, place)
        computes = tuple(str(name) for _, name in entry.items("compute"))
        layout.append((entry.text("profile", ""), computes))
        entry.finish()
    return cut(CARDS[model].mig_profiles, layout, where)


def _process(section: Section, devices: tuple[NvidiaDeviceSpec, ...]) -> ProcessSpec:
    load = Section(section.take("load") or {}, section.path("load"))
    load_spec = LoadSpec(
        shape=load.choice("shape", Shape, Shape.STEADY),
        level=load.number("level", 0.6, 0, 1),
        period_seconds=load.optional_number("period_seconds", 1, 86_400),
    )
    load.finish()
    spec = ProcessSpec(
        name=section.text("name", "python3"),
        devices=_devices(section, len(devices)),
        instance=section.optional_integer("instance", 0, 6),
        count=section.integer("count", 1, 1, 10_000),
        spans_devices=section.flag("spans_devices", default=False),
        memory_bytes=section.size("memory", 1 << 30),
        memory_reported=section.flag("memory_reported", default=True),
        load=load_spec,
        encoder=section.number("encoder", 0, 0, 1),
        decoder=section.number("decoder", 0, 0, 1),
        type=section.choice("type", ProcessType, ProcessType.COMPUTE),
        uid=section.integer("uid", 1000, 0, 2**32 - 2),
        cgroup=_cgroup(section),
        pid=section.optional_integer("pid", 1, MAX_PID),
        begin=section.optional_number("from", 0, math.inf),
        until=section.optional_number("until", 0, math.inf),
    )
    if spec.pid is not None and (spec.count > 1 or (len(spec.devices) > 1 and not spec.spans_devices)):
        raise section.error("pid", "one pid for several processes; use count: 1 and one device")
    for device in spec.devices:
        _check_instance(section, spec.instance, device, devices[device])
    return spec


def _devices(section: Section, count: int) -> tuple[int, ...]:
    single, several = section.take("device"), section.take("devices")
    if single is not None and several is not None:
        raise section.error("device", "give either device or devices")
    if several == "all":
        return tuple(range(count))
    wanted = several if several is not None else [single if single is not None else 0]
    if not isinstance(wanted, list) or not wanted:
        raise section.error("devices", f"expected a list of device numbers or all, got {several!r}")
    for device in wanted:
        if not isinstance(device, int) or isinstance(device, bool) or not 0 <= device < count:
            allowed = f"allowed: 0 to {count - 1}" if count else "the node has none"
            raise section.error("device", f"there is no device {device!r}; {allowed}")
    return tuple(wanted)


def _check_instance(section: Section, instance: int | None, number: int, device: NvidiaDeviceSpec) -> None:
    if device.mig is None:
        if instance is not None:
            raise section.error("instance", f"device {number} has no MIG instances")
    elif instance is None or instance >= len(device.mig):
        raise section.error(
            "instance", f"device {number} is cut into MIG instances: say which, 0 to {len(device.mig) - 1}"
        )


def _cgroup(section: Section) -> CgroupSpec:
    value = section.take("cgroup")
    if value is None:
        return CgroupSpec()
    entry = Section({"kind": value} if isinstance(value, str) else value, section.path("cgroup"))
    spec = CgroupSpec(
        kind=entry.choice("kind", CgroupKind, CgroupKind.HOST),
        qos=entry.choice("qos", PodQos, PodQos.BURSTABLE),
        pod_uid=entry.optional_text("pod_uid", _UUID, "a uid such as 0f3c…-…, lower case"),
        container_id=entry.optional_text("container_id", "[0-9a-f]{64}", "64 hexadecimal digits"),
        job=entry.optional_integer("job", 1, 2**31 - 1),
        unit=entry.optional_text("unit", r"[\w@.-]+\.service", "a systemd unit such as trainer.service"),
    )
    entry.finish()
    return spec


def read_fault(section: Section, device_count: int) -> Fault:
    kind_text = section.take("kind")
    try:
        kind = FaultKind(str(kind_text))
    except ValueError:
        raise section.error("kind", f"{kind_text!r} is not known; allowed: {', '.join(FaultKind)}") from None
    device = section.take("device")
    if kind.of_device:
        if not isinstance(device, int) or isinstance(device, bool) or not 0 <= device < device_count:
            allowed = f"0 to {device_count - 1}" if device_count else "none, the node has no devices"
            raise section.error("device", f"{kind} needs a device; allowed: {allowed}; got {device!r}")
    elif device is not None:
        raise section.error("device", f"{kind} is of the whole node, not of one device")
    code = section.optional_integer("code", 1, 999)
    if code is not None and kind is not FaultKind.XID:
        raise section.error("code", f"only xid has a code, not {kind}")
    error = section.take("error")
    if (kind is FaultKind.TOOL_ERROR) != (error is not None) or error not in (None, *ToolError):
        raise section.error("error", f"for tool_error one of: {', '.join(ToolError)}; got {error!r}")
    return Fault(
        kind=kind,
        device=device,
        code=code,
        error=None if error is None else ToolError(error),
        begin=section.number("from", 0, 0, math.inf),
        until=section.optional_number("until", 0, math.inf),
    )


def _check_memory(spec: NodeSpec) -> None:
    """Processes must fit: a card that holds more than it has would be no simulation of anything."""
    for number, device in enumerate(spec.nvidia.devices):
        room: dict[int | None, int] = {None: (device.card.memory_mib - device.card.reserved_mib - 64) << 20}
        for cut_off in device.mig or ():
            room[cut_off.gpu_instance_id] = (cut_off.profile.memory_mib - 64) << 20
        for process in spec.processes:
            if number not in process.devices:
                continue
            part = None if process.instance is None or device.mig is None else device.mig[process.instance]
            owner = part.gpu_instance_id if part else None
            room[owner] -= process.memory_bytes * process.count
            if room[owner] < 0:
                place = f"device {number}" + (f" instance {process.instance}" if part else "")
                raise DescriptionError(
                    f"processes: {process.name} does not fit: {place} is {-room[owner] >> 20} MiB short"
                )
