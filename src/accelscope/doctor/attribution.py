"""Whose the devices are: what each source of attribution needs, and what could not be put down to a pod."""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from accelscope.agent.assembly import attribution_options
from accelscope.agent.runner import Result
from accelscope.agent.settings import AgentSettings
from accelscope.attribution.attributor import Attributed, Attributor
from accelscope.attribution.device_ids import vendor_of
from accelscope.attribution.options import AttributionOptions, PodSource
from accelscope.config import ConfigError
from accelscope.doctor.check import (
    Area,
    Check,
    Finding,
    Severity,
    Subject,
    counted,
    error,
    note,
    ok,
    sentence,
    warning,
)
from accelscope.kube.errors import Reason
from accelscope.kube.unary import UnaryReason
from accelscope.model import (
    Allocation,
    AllocationSource,
    AttributionSourceState,
    Device,
    Owner,
    OwnerKind,
    Process,
    UnattributedReason,
    Vendor,
)

# --- look ------------------------------------------------------------
# One look at whose the devices are, with the agent's own attribution.


# That the sources may take for their first answer: more than a server that does not answer needs to show it.
SECONDS = 12.0
_PAUSE_SECONDS = 0.05
UNDECIDED = "starting"  # the reason of a source that has not said anything yet


@dataclass(frozen=True, slots=True)
class Look:
    options: AttributionOptions
    devices: tuple[Device, ...]
    attributed: Attributed

    def state(self, source: str) -> AttributionSourceState | None:
        """None: nobody asks that source, with these settings and on this node."""
        return next((s for s in self.attributed.attribution if s.source == source), None)

    def by_pid(self) -> dict[int, list[Process]]:
        """A process that uses several devices stands there once for each."""
        found: dict[int, list[Process]] = {}
        for process in self.attributed.processes:
            found.setdefault(process.pid, []).append(process)
        return found

    def device(self, identity: str | None) -> str:
        """As people name it: the vendor and the index, unless two have the same."""
        names = {device.id: f"{device.vendor.value} {device.index}" for device in self.devices}
        name = names.get(identity or "")
        if name is None or list(names.values()).count(name) > 1:
            return identity or "an unknown device"
        return name


def look(subject: Subject, results: Sequence[Result], seconds: float = SECONDS) -> Look:
    """Waits until every source has answered or failed. Raises ConfigError."""
    options = attribution_options(subject.settings, subject.node, subject.environ)
    devices = tuple(device for result in results for device in result.devices)
    processes = tuple(process for result in results for process in result.processes)
    attributor = Attributor(options)
    attributor.start()
    try:
        deadline = time.monotonic() + seconds
        attributor.begin()
        # Again and again, because what one source tells may be the reason to ask another.
        while _undecided(attributor.attribute(devices, processes)) and time.monotonic() < deadline:
            time.sleep(_PAUSE_SECONDS)
        # And once more: a source may have answered after it was looked at.
        return Look(options, devices, attributor.attribute(devices, processes))
    finally:
        attributor.stop()


def _undecided(attributed: Attributed) -> bool:
    return any(state.reason == UNDECIDED for state in attributed.attribution)


# --- advice ------------------------------------------------------------
# What to do about a source of attribution that is not up, by its reason; and about a process that is no
# pod's, by its reason.


HOST_PID = "hostPID: true in the pod (docker run --pid=host), or --proc-root for a /proc mounted elsewhere."
_GOES_ON = "The agent goes on trying by itself; what it knew before stays in force meanwhile."
_KUBELET_RIGHT = (
    "The agent's ClusterRole needs get on nodes/pods, which kubelets know since 1.33. Older ones ask for "
    "nodes/proxy, which allows to run commands in every pod: do not grant it, use --pod-source api-server."
)
_CREDENTIALS = (
    "--kube-token-file must name a token of this cluster that has not expired, and the agent's user must be "
    "allowed to read it; in a pod, automountServiceAccountToken: true and a serviceAccountName."
)
_API_SERVER: Mapping[str, str] = {
    Reason.UNREACHABLE: (
        "Is --kube-api-url right, and does a NetworkPolicy or firewall let the agent through to the API "
        "server?"
    ),
    Reason.TIMEOUT: "Does a NetworkPolicy or firewall swallow what the agent sends to the API server?",
    Reason.TLS: (
        "--kube-ca-file must hold the authority that signed the API server's certificate, and the "
        "certificate must bear the host that --kube-api-url names."
    ),
    Reason.UNAUTHORIZED: _CREDENTIALS,
    Reason.NOT_FOUND: "What answers is no API server of Kubernetes: look at --kube-api-url.",
    Reason.CONFLICT: _GOES_ON,
    Reason.GONE: _GOES_ON,
    Reason.THROTTLED: f"The API server has too much to do. {_GOES_ON}",
    Reason.SERVER_ERROR: f"The API server is in trouble: see its log. {_GOES_ON}",
    Reason.BAD_ANSWER: "What answers does not speak as an API server does: look at --kube-api-url.",
    Reason.TOO_LARGE: "The answer is larger than is taken; please report it.",
}
_KUBELET: Mapping[str, str] = {
    **_API_SERVER,
    Reason.UNREACHABLE: (
        "Does the kubelet listen at --kubelet-url? In a pod 127.0.0.1 is the node's with hostNetwork: true "
        "only; else use its address from status.hostIP."
    ),
    Reason.TIMEOUT: "Does a firewall swallow what the agent sends to --kubelet-url?",
    Reason.TLS: (
        "Most kubelets sign their certificate themselves: give them one by the cluster's authority "
        "(serverTLSBootstrap: true), or name theirs with --kubelet-ca-file."
    ),
    Reason.UNAUTHORIZED: f"The kubelet needs authentication.webhook.enabled: true. {_CREDENTIALS}",
    Reason.FORBIDDEN: _KUBELET_RIGHT,
    Reason.NOT_FOUND: "What answers is no kubelet: look at --kubelet-url.",
    Reason.SERVER_ERROR: f"The kubelet is in trouble: see `journalctl -u kubelet`. {_GOES_ON}",
    Reason.THROTTLED: f"The kubelet has too much to do. {_GOES_ON}",
    Reason.BAD_ANSWER: "What answers does not speak as a kubelet does: look at --kubelet-url.",
}
_MOUNT = (
    "Mount the node's /var/lib/kubelet/pod-resources into the pod (hostPath, read-only is enough), or name "
    "the socket with --pod-resources-socket where the kubelet has another folder."
)
_POD_RESOURCES: Mapping[str, str] = {
    UnaryReason.NO_SOCKET: _MOUNT,
    UnaryReason.REFUSED: (
        "Does the kubelet run (`systemctl status kubelet`)? If it was restarted, mount its folder and not "
        "the socket itself, which is a new one after a restart."
    ),
    UnaryReason.NO_PERMISSION: (
        "The socket is root's: let the agent run as user 0 (runAsUser: 0, no capability is needed); with "
        "SELinux, also allow the container to connect to it."
    ),
    UnaryReason.TIMEOUT: "The kubelet hangs: see `journalctl -u kubelet` and whether the node is Ready.",
    UnaryReason.UNIMPLEMENTED: "What listens there is no kubelet, or one older than 1.13.",
    UnaryReason.UNAVAILABLE: f"The kubelet has too much to do, or is about to end. {_GOES_ON}",
    UnaryReason.SERVER_ERROR: f"The kubelet is in trouble: see `journalctl -u kubelet`. {_GOES_ON}",
    UnaryReason.BAD_ANSWER: "What listens at --pod-resources-socket does not speak as a kubelet does.",
    UnaryReason.TOO_LARGE: "The kubelet's answer is larger than is taken; please report it.",
}
_NOT_YET = "Run doctor again; if that stays so, a server takes connections and does not answer."


def _right(what: str) -> str:
    return (
        f"The agent's ClusterRole needs list and watch on {what} (docs/attribution.md has one that is "
        "enough), and a ClusterRoleBinding must give it to the agent's ServiceAccount."
    )


_BY_SOURCE: Mapping[str, Mapping[str, str]] = {
    "processes": {
        "hidden": HOST_PID,
        "unreadable": (
            "/proc could not be read at all, for want of file descriptors or memory: raise the agent's "
            "limits (LimitNOFILE of the unit, resources of the container)."
        ),
    },
    "pods": {**_API_SERVER, Reason.FORBIDDEN: _right("pods")},
    "pod-resources": _POD_RESOURCES,
    "annotations": {
        "bad_annotation": (
            "`kubectl get pod -o yaml` shows the pod's hami.io annotations: if HAMi wrote them as they are, "
            "please report them with its version. Until then that share is not shown."
        )
    },
    "resource-slices": {
        **_API_SERVER,
        Reason.FORBIDDEN: _right("resourceslices of the group resource.k8s.io"),
        Reason.NOT_FOUND: (
            "This API server has no ResourceSlices of resource.k8s.io v1, v1beta2 or v1beta1; "
            "--no-resource-slices if claims need not be resolved."
        ),
    },
    "node": {**_API_SERVER, Reason.FORBIDDEN: _right("nodes")},
    "shares": {
        "bad_ratio": "Write one number above 0 into the file, such as 2 or 2.5, and nothing else.",
        "unreadable": "Let the agent's user read the file, or name another: --gpu-allocation-file.",
        "missing": "Put the file back, or restart the agent if devices are shared no longer.",
    },
    "job-mapping": {"unreadable": "Let the agent's user list the folder and read its files."},
}


def of_source(source: str, reason: str, subject: Subject) -> str:
    if reason == UNDECIDED:
        return _NOT_YET
    if source == "pods" and subject.settings.pod_source == PodSource.KUBELET:
        return _KUBELET.get(reason, _GOES_ON)
    return _BY_SOURCE.get(source, {}).get(reason, _GOES_ON)


OF_REASON: Mapping[UnattributedReason, str] = {
    UnattributedReason.NOT_IN_A_POD: "Nothing: they run beside Kubernetes, and are shown with their owner.",
    UnattributedReason.PROCESS_GONE: (
        f"Nothing, if they ended since. If they run: {HOST_PID} With hidepid, see the area of the node."
    ),
    UnattributedReason.NO_PERMISSION: (
        "Something keeps the agent from reading their /proc/PID/cgroup or mountinfo: an AppArmor or SELinux "
        "profile, or the user that it runs as. Let the profile allow it, or the agent run as root."
    ),
    UnattributedReason.CGROUP_HIDDEN: (
        "The kernel shows their cgroup as / only, and their mounts name no container either: let the agent "
        "run in the node's own cgroup namespace (privileged: true, docker run --cgroupns=host). What is in "
        "the root cgroup itself looks the same from everywhere."
    ),
    UnattributedReason.POD_UNKNOWN: (
        "A pod that has just started or ended is no fault. If it is all of them, the pods of another node "
        "are asked for: NODE_NAME must be the Node's own name (spec.nodeName)."
    ),
    UnattributedReason.NO_POD_SOURCE: (
        "They are in pods, and nobody is asked for names: run the agent in a pod with a ServiceAccount, or "
        "give it --kube-api-url and --kube-token-file, or --pod-source kubelet."
    ),
    UnattributedReason.NO_PROCESS: (
        "A little is the driver's own. If it is most of a device, the driver hides who has it: hostPID: "
        "true; or what a process left behind that was killed: reset the device."
    ),
}


# --- allocations ------------------------------------------------------------
# Devices that containers hold, and ids of devices that nobody knows.


_MOST_NAMED = 5  # in the text; the JSON form has all
_PLUGIN = (
    "Is the device's driver read above, and its reader on (--readers)? A device that was replaced since the "
    "pod started is no longer there. Otherwise AccelScope does not know this form of id: please report it."
)
_CLAIM = (
    "Which device a claim means is told by this node's ResourceSlices: see resource-slices above, and "
    "docs/attribution.md for the right that it needs. The claim itself is shown without."
)


def of_allocations(seen: Look, _: Subject) -> Iterator[Finding]:
    held = seen.attributed.allocations
    containers = {(a.namespace, a.pod, a.container) for a in held}
    unknown = [a for a in held if a.device is None and _is_ours(a)]
    foreign = sorted({_kind(a) for a in held if a.device is None and not _is_ours(a)})
    details = {"ids": len(held), "containers": len(containers), "foreign": foreign}
    ids = counted(len(held), "device id is", "device ids are")
    others = f"; no accelerators: {', '.join(foreign)}" if foreign else ""
    by = counted(len(containers), "container", "containers")
    yield ok("allocations", f"{ids} held by {by}{others}" if held else "nothing is held", **details)
    plugin = [a for a in unknown if a.source is not AllocationSource.CLAIM]
    claimed = [a for a in unknown if a.source is AllocationSource.CLAIM]
    if plugin:
        yield warning("unknown ids", _listed(plugin), _PLUGIN, ids=[_document(a) for a in plugin])
    if claimed:
        tell = warning if seen.options.resource_slices else note
        yield tell("unknown claims", _listed(claimed), _CLAIM, ids=[_document(a) for a in claimed])


def _is_ours(allocation: Allocation) -> bool:
    """Plugins and drivers serve other things than accelerators, too: network cards, FPGAs. Annotations are of
    accelerators, and a kubelet that is too old to name a claim's driver leaves it open."""
    kind = _kind(allocation)
    return not kind or allocation.source is AllocationSource.ANNOTATION or vendor_of(kind) is not None


def _kind(allocation: Allocation) -> str:
    """The resource; of a claim, its driver."""
    return allocation.resource or allocation.device_id.partition("/")[0]


def _listed(unknown: Sequence[Allocation]) -> str:
    named = [
        f"{a.device_id} of {a.namespace}/{a.pod} ({a.claim or a.resource or a.source.value})"
        for a in unknown[:_MOST_NAMED]
    ]
    more = f" and {len(unknown) - _MOST_NAMED} more" if len(unknown) > _MOST_NAMED else ""
    return f"none of this node's devices is {', '.join(named)}{more}"


def _document(allocation: Allocation) -> dict[str, str | None]:
    return {
        "namespace": allocation.namespace,
        "pod": allocation.pod,
        "container": allocation.container,
        "resource": allocation.resource,
        "claim": allocation.claim,
        "device_id": allocation.device_id,
    }


# --- owners ------------------------------------------------------------
# Processes that are put down to pods, and those that are not, by the reason why.

_ID_SHOWN = 12  # characters of a container's id, as container tools show it
_MUCH = 0.1  # share of a device's memory: more than drivers keep for themselves
_GIB = 1 << 30
# Reasons that pass by themselves as long as the source that tells is up.
_TELLS = {UnattributedReason.PROCESS_GONE: "processes", UnattributedReason.POD_UNKNOWN: "pods"}


def of_processes(seen: Look, subject: Subject) -> Iterator[Finding]:
    processes = seen.by_pid()
    by_reason: dict[UnattributedReason, list[list[Process]]] = {}
    for on in processes.values():
        owner = on[0].owner
        if owner is not None and owner.reason is not None:
            by_reason.setdefault(owner.reason, []).append(on)
    yield _attributed(processes, sum(map(len, by_reason.values())))
    for reason in UnattributedReason:
        if reason in by_reason:
            yield _of_reason(reason, by_reason[reason], seen, subject)
    yield from _memory_of_nobody(seen)


def _attributed(processes: Mapping[int, Sequence[Process]], others: int) -> Finding:
    total = len(processes)
    owners = (on[0].owner for on in processes.values())
    pods = {(owner.namespace, owner.pod) for owner in owners if owner is not None and owner.reason is None}
    details = {"processes": total, "of_pods": total - others, "pods": len(pods)}
    if not total:
        return ok("attributed", "no process to put down to a pod", **details)
    found = f"{total - others} of {counted(total, 'process', 'processes')} put down to "
    return ok("attributed", found + counted(len(pods), "pod", "pods"), **details)


def _of_reason(
    reason: UnattributedReason, listed: Sequence[Sequence[Process]], seen: Look, subject: Subject
) -> Finding:
    severity = _severity(reason, seen, subject)
    named = [_named(on, seen) for on in listed[:_MOST_NAMED]]
    more = f" and {len(listed) - _MOST_NAMED} more" if len(listed) > _MOST_NAMED else ""
    return Finding(
        name=reason.value,
        severity=severity,
        found=f"{counted(len(listed), 'process', 'processes')}: {', '.join(named)}{more}",
        advice=None if severity is Severity.OK else _advice(reason, seen),
        details={"reason": reason.value, "processes": [_document_owners(on, seen) for on in listed]},
    )


def _severity(reason: UnattributedReason, seen: Look, subject: Subject) -> Severity:
    """A note where it is how things are or somebody chose it, a warning where something is missing."""
    if reason is UnattributedReason.NOT_IN_A_POD:
        return Severity.OK if seen.options.pods is PodSource.OFF else Severity.NOTE
    if reason is UnattributedReason.NO_POD_SOURCE and subject.settings.pod_source == PodSource.OFF:
        return Severity.NOTE
    if reason not in _TELLS or _is_down(_TELLS[reason], seen):
        return Severity.WARNING
    # A few may have come or gone between two looks; if none is known, it is something else.
    known = any(p.owner is not None and p.owner.reason is None for p in seen.attributed.processes)
    return Severity.NOTE if known or reason is UnattributedReason.PROCESS_GONE else Severity.WARNING


def _is_down(source: str, seen: Look) -> bool:
    state = seen.state(source)
    return state is None or not state.up


def _advice(reason: UnattributedReason, seen: Look) -> str:
    source = _TELLS.get(reason)
    if source is not None and _is_down(source, seen):
        return f"Mend what is said of {source}, above; the rest follows."
    return OF_REASON[reason]


def _named(on: Sequence[Process], seen: Look) -> str:
    process = on[0]
    where = ", ".join(seen.device(p.device) for p in on[:2]) + (" ..." if len(on) > 2 else "")
    whose = f", {_owner(process.owner)}" if process.owner is not None and process.owner.name else ""
    return f"{process.name or 'unnamed'} (pid {process.pid} on {where}{whose})"


def _owner(owner: Owner) -> str:
    name = owner.name or ""
    if owner.kind is OwnerKind.CONTAINER:
        name = name[:_ID_SHOWN]
    return f"{owner.kind.value.replace('_', ' ')} {name}"


def _document_owners(on: Sequence[Process], seen: Look) -> dict[str, Any]:
    process = on[0]
    return {
        "pid": process.pid,
        "name": process.name,
        "devices": [seen.device(p.device) for p in on],
        "owner_kind": None if process.owner is None else process.owner.kind.value,
        "owner": None if process.owner is None else process.owner.name,
    }


def _memory_of_nobody(seen: Look) -> Iterator[Finding]:
    totals = {device.id: device.memory_total_bytes for device in seen.devices}
    untold = {process.device for process in seen.attributed.processes if process.memory_bytes is None}
    much = {
        seen.device(other.device): other.memory_used_bytes
        for other in seen.attributed.unattributed
        if other.reason is UnattributedReason.NO_PROCESS
        and other.memory_used_bytes is not None
        and other.memory_used_bytes > _MUCH * (totals.get(other.device) or 0)
        and other.device not in untold  # there the driver shows processes, and not what they hold
    }
    if much:
        shown = ", ".join(f"{used / _GIB:.1f} GiB of {device}" for device, used in much.items())
        yield note(
            UnattributedReason.NO_PROCESS.value,
            f"memory in use that no process is shown with: {shown}",
            OF_REASON[UnattributedReason.NO_PROCESS],
            memory_bytes=much,
        )


# --- sources ------------------------------------------------------------
# One finding for each place that tells whose what is.


_TELLERS = {"api-server": "the API server", "kubelet": "the kubelet"}


def of_sources(seen: Look, subject: Subject) -> Iterator[Finding]:
    for source, (not_asked, well) in SOURCES.items():
        state = seen.state(source)
        if state is None:
            yield not_asked(seen, subject)
        elif state.up:
            yield well(seen, subject)
        else:
            yield _down(state, subject)


def _down(state: AttributionSourceState, subject: Subject) -> Finding:
    reason = state.reason or "unknown"
    return warning(
        state.source,
        f"{reason}: {state.error}" if state.error else f"no answer yet ({reason})",
        of_source(state.source, reason, subject),
        reason=reason,
        detail=state.detail,
        errors={counted.reason: counted.count for counted in state.errors},
    )


def _processes(seen: Look, _: Subject) -> Finding:
    processes = seen.by_pid()
    if not processes:
        return ok("processes", "no process uses a device now")
    owners = [on[0].owner for on in processes.values()]
    gone = sum(owner is not None and owner.reason is UnattributedReason.PROCESS_GONE for owner in owners)
    found = f"{len(processes) - gone} of {len(processes)} on devices are in {seen.options.proc}"
    return ok("processes", found, processes=len(processes), gone=gone)


def _no_processes(_: Look, __: Subject) -> Finding:
    return ok("processes", "not asked")


def _pods(seen: Look, _: Subject) -> Finding:
    state = seen.state("pods")
    teller = _TELLERS.get((state and state.detail) or "", "it")
    pods = counted(len(seen.attributed.pods), "pod holds or uses", "pods hold or use")
    return ok("pods", f"{teller} answers; {pods} a device", pods=len(seen.attributed.pods))


def _no_pods(_: Look, subject: Subject) -> Finding:
    if subject.settings.pod_source == PodSource.OFF:
        return ok("pods", "off by setting: pods are known by uid only")
    return ok("pods", "not in a cluster: nobody is asked, and nothing is missing unless pods run here")


def _pod_resources(seen: Look, _: Subject) -> Finding:
    state = seen.state("pod-resources")
    return ok("pod-resources", f"the kubelet answers, version {state and state.detail}")


def _no_pod_resources(seen: Look, _: Subject) -> Finding:
    if seen.options.pod_resources_socket is None:
        return ok("pod-resources", "off by setting: who holds which device is not known")
    return ok("pod-resources", f"no kubelet here: {seen.options.pod_resources_socket} is not there")


def _annotations(seen: Look, _: Subject) -> Finding:
    shares = sum(a.source is AllocationSource.ANNOTATION for a in seen.attributed.allocations)
    return ok("annotations", f"{counted(shares, 'share', 'shares')} by HAMi", shares=shares)


def _no_annotations(_: Look, __: Subject) -> Finding:
    return ok("annotations", "no pod has any of a scheduler that shares devices")


def _resource_slices(_: Look, __: Subject) -> Finding:
    return ok("resource-slices", "the API server answers")


def _no_resource_slices(seen: Look, _: Subject) -> Finding:
    claims = {a.claim for a in seen.attributed.allocations if a.claim is not None}
    if not claims:
        return ok("resource-slices", "not asked: no pod holds a claim")
    off = "off by setting" if not seen.options.resource_slices else "not asked: there is no API server to ask"
    return ok("resource-slices", f"{off}; the devices of {counted(len(claims), 'claim', 'claims')} stay open")


def _node(seen: Look, _: Subject) -> Finding:
    labels = dict(seen.attributed.node_labels)
    missing = [name for name in seen.options.node_labels if name not in labels]
    if missing:
        return note(
            "node",
            f"the Node {seen.options.node} has no label {sentence(missing)}",
            "Nothing, if other nodes have it. Else see that NODE_NAME is the Node's own name, and "
            "`kubectl get node --show-labels`.",
            missing=missing,
        )
    return ok("node", ", ".join(f"{name}={value}" for name, value in labels.items()), labels=labels)


def _no_node(_: Look, subject: Subject) -> Finding:
    wanted = subject.settings.node_labels
    if not wanted:
        return ok("node", "not asked: no --node-labels")
    return warning(
        "node",
        "--node-labels is set, and there is no API server to ask",
        "Run the agent in a pod, or give it --kube-api-url and --kube-token-file.",
    )


def _shares(seen: Look, _: Subject) -> Finding:
    ratios = Counter(b.share_ratio for b in seen.attributed.balances if b.share_ratio is not None)
    devices = len(seen.devices)
    details = {"ratios": {f"{ratio:g}": count for ratio, count in ratios.items()}, "devices": devices}
    if devices and not ratios:
        return warning(
            "shares",
            "the ratios that are set fit none of the devices",
            "Name devices in `shares` by id, uuid, serial, PCI address or index, and models as the areas of "
            "the vendors above show them; * and ? are wildcards.",
            **details,
        )
    cut = [f"{count} into {ratio:g}" for ratio, count in ratios.items()]
    return ok("shares", f"of {counted(devices, 'device', 'devices')} {sentence(cut) or 'none'}", **details)


def _no_shares(_: Look, subject: Subject) -> Finding:
    path = subject.settings.gpu_allocation_file
    if path and "gpu_allocation_file" in subject.loaded.origins:
        return warning(
            "shares",
            f"{path} is not there",
            "Mount or write it: one number, into how many shares each device is cut. The agent takes it up "
            "when it comes.",
        )
    return ok("shares", "none: devices are not cut into shares by setting")


def _job_mapping(seen: Look, _: Subject) -> Finding:
    with_jobs = sum(bool(balance.jobs) for balance in seen.attributed.balances)
    found = f"{seen.options.job_mapping_folder} names jobs for {with_jobs} of {len(seen.devices)} devices"
    return ok("job-mapping", found, devices=with_jobs)


def _no_job_mapping(_: Look, __: Subject) -> Finding:
    return ok("job-mapping", "off: no --job-mapping-folder")


_Finder = Callable[[Look, Subject], Finding]
# What is said where a source is not asked, and if it is well.
SOURCES: Mapping[str, tuple[_Finder, _Finder]] = {
    "processes": (_no_processes, _processes),
    "pods": (_no_pods, _pods),
    "pod-resources": (_no_pod_resources, _pod_resources),
    "annotations": (_no_annotations, _annotations),
    "resource-slices": (_no_resource_slices, _resource_slices),
    "node": (_no_node, _node),
    "shares": (_no_shares, _shares),
    "job-mapping": (_no_job_mapping, _job_mapping),
}


# --- area ------------------------------------------------------------
# The area of attribution: one look as the agent takes it, at what the readers' own checks brought.


Results = Mapping[Vendor, Result]  # of the readers, as far as they have come


def attribution_area(results: Results) -> Area:
    """Comes after the vendors' areas, whose checks fill `results`: drivers are not asked twice."""
    return Area("attribution", (Check("attribution", partial(attribution, results), _seconds),))


def attribution(results: Results, subject: Subject) -> Iterator[Finding]:
    try:
        seen = look(subject, tuple(results.values()))
    except ConfigError as problem:
        yield error("pods", str(problem), "The agent does not start with these settings.")
        return
    yield from of_sources(seen, subject)
    yield from of_processes(seen, subject)
    yield from of_allocations(seen, subject)


def _seconds(_: AgentSettings) -> float:
    return SECONDS + 8
