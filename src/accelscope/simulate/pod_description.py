"""Where a workload runs, and what Kubernetes knows of its pod: from YAML to its spec."""

from accelscope.config.document import Section
from accelscope.config.values import BOOLEAN, TEXT_MAPPING, Choice, Size, Text, WholeNumber
from accelscope.simulate.spec import CgroupKind, CgroupSpec, HamiShare, PodOwner, PodQos, PodSpec
from accelscope.simulate.vendor import simulated_names, simulated_vendor

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
    """The key `cgroup` of a process: a kind, or a mapping. Raises DescriptionError."""
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
    """The keys of a pod. Raises DescriptionError."""
    replicas = section.take("replicas", WholeNumber(1, MAX_REPLICAS))
    hami = _hami(section)
    if (replicas or hami) and not simulated_vendor(vendor).shares_devices:
        sharing = ", ".join(name for name in simulated_names() if simulated_vendor(name).shares_devices)
        raise section.error("replicas" if replicas else "hami", f"only {sharing} devices are shared")
    if replicas and hami:
        raise section.error("replicas", "give either replicas or hami")
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
