"""Where a workload runs, and what Kubernetes knows of its pod: from YAML to its spec."""

from accelscope.simulate.section import Section, shown
from accelscope.simulate.spec import CgroupKind, CgroupSpec, HamiShare, PodOwner, PodQos, PodSpec

OWNER_KINDS = ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job")
MAX_REPLICAS = 64  # of one device in one container
_UUID = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_NAME = "[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_POD_NAME = rf"(?=.{{1,253}}$){_NAME}(?:\.{_NAME})*"
_RESOURCE = r"[a-z0-9.-]+\.[a-z]+/[A-Za-z0-9][A-Za-z0-9._-]*"
_SHARED_VENDOR = "nvidia"  # whose plugins cut devices into replicas and HAMi shares


def read_cgroup(section: Section, vendor: str) -> CgroupSpec:
    """The key `cgroup` of a process: a kind, or a mapping. Raises DescriptionError."""
    value = section.take("cgroup")
    if value is None:
        return CgroupSpec()
    entry = Section({"kind": value} if isinstance(value, str) else value, section.path("cgroup"))
    kind = entry.choice("kind", CgroupKind, CgroupKind.HOST)
    if kind is CgroupKind.POD:
        spec = read_pod(entry, vendor, name_key="pod")
    else:
        spec = CgroupSpec(
            kind=kind,
            container_id=_container_id(entry),
            job=entry.optional_integer("job", 1, 2**31 - 1),
            unit=entry.optional_text("unit", r"[\w@.-]+\.service", "a systemd unit such as trainer.service"),
        )
    entry.finish()
    return spec


def read_pod(section: Section, vendor: str, name_key: str = "name") -> CgroupSpec:
    """The keys of a pod. Raises DescriptionError."""
    name = "a name in lower case such as trainer-0"
    replicas = section.optional_integer("replicas", 1, MAX_REPLICAS)
    hami = _hami(section)
    if vendor != _SHARED_VENDOR and (replicas or hami):
        raise section.error("replicas" if replicas else "hami", f"only {_SHARED_VENDOR} devices are shared")
    if replicas and hami:
        raise section.error("replicas", "give either replicas or hami")
    return CgroupSpec(
        kind=CgroupKind.POD,
        qos=section.choice("qos", PodQos, PodQos.BURSTABLE),
        pod_uid=section.optional_text("pod_uid", _UUID, "a uid such as 0f3c…-…, lower case"),
        container_id=_container_id(section),
        pod=PodSpec(
            namespace=section.optional_text("namespace", _NAME, name),
            name=section.optional_text(name_key, _POD_NAME, name),
            container=section.optional_text("container", _NAME, name),
            labels=section.texts("labels"),
            owner=_owner(section),
            resource=section.optional_text("resource", _RESOURCE, "a resource such as nvidia.com/gpu"),
            replicas=replicas,
            hami=hami,
            allocated=section.flag("allocated", default=True),
        ),
    )


def _container_id(section: Section) -> str | None:
    return section.optional_text("container_id", "[0-9a-f]{64}", "64 hexadecimal digits")


def _owner(section: Section) -> PodOwner | None:
    if not section.has("owner"):
        section.take("owner")
        return None
    entry = section.section("owner")
    kind = entry.text("kind", OWNER_KINDS[0])
    if kind not in OWNER_KINDS:
        raise entry.error("kind", f"{shown(kind)} is not known; allowed: {', '.join(OWNER_KINDS)}")
    owner = PodOwner(kind, entry.optional_text("name", _NAME, "a name in lower case such as trainer"))
    entry.finish()
    return owner


def _hami(section: Section) -> HamiShare | None:
    if not section.has("hami"):
        section.take("hami")
        return None
    entry = section.section("hami")
    share = HamiShare(
        memory_bytes=entry.size("memory", 0),
        cores_percent=entry.integer("cores", 0, 0, 100),
    )
    if share.memory_bytes < 1 << 20:
        raise entry.error("memory", "expected a size of at least 1MiB")
    entry.finish()
    return share
