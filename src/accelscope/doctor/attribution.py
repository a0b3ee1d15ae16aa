"""Attribution: whether each source works, and which processes and allocations could not be resolved.

Runs the agent's own attribution once, on the devices and processes that the vendors' checks have read.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from accelscope.agent.assembly import attribution_options
from accelscope.agent.runner import Result
from accelscope.agent.settings import AgentSettings
from accelscope.attribution.attributor import Attribution, Attributor
from accelscope.attribution.device_ids import vendor_of
from accelscope.attribution.options import AttributionOptions, PodSource
from accelscope.config import ConfigError
from accelscope.doctor.check import (
    Area,
    Check,
    Finding,
    Severity,
    Subject,
    error,
    join_words,
    note,
    ok,
    pluralize,
    warning,
)
from accelscope.kube.endpoint import Reason
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

Results = Mapping[Vendor, Result]  # of the readers that have been checked

SECONDS = 12.0  # for the sources' first response: longer than their own timeouts
_PAUSE_SECONDS = 0.05
STARTING = "starting"  # the reason of a source that has not responded yet
_MAX_LISTED = 5  # in the text; the JSON report has all


@dataclass(frozen=True, slots=True)
class AttributionResult:
    options: AttributionOptions
    devices: tuple[Device, ...]
    attributed: Attribution

    def state(self, source: str) -> AttributionSourceState | None:
        """None if the source is not used with these settings or on this node."""
        return next((s for s in self.attributed.attribution if s.source == source), None)

    def by_pid(self) -> dict[int, list[Process]]:
        """A process has one entry per device that it uses."""
        found: dict[int, list[Process]] = {}
        for process in self.attributed.processes:
            found.setdefault(process.pid, []).append(process)
        return found

    def device_name(self, identity: str | None) -> str:
        """Vendor and index, or the id if two devices have the same."""
        names = {device.id: f"{device.vendor.value} {device.index}" for device in self.devices}
        name = names.get(identity or "")
        if name is None or list(names.values()).count(name) > 1:
            return identity or "an unknown device"
        return name


def attribution_area(results: Results) -> Area:
    """Runs after the vendors' areas, whose checks fill `results`."""
    return Area("attribution", (Check("attribution", partial(attribution, results), _seconds),))


def _seconds(_: AgentSettings) -> float:
    return SECONDS + 8


def attribution(results: Results, subject: Subject) -> Iterator[Finding]:
    try:
        result = attribute(subject, tuple(results.values()))
    except ConfigError as problem:
        yield error("pods", str(problem), "The agent does not start with these settings.")
        return
    yield from check_sources(result, subject)
    yield from check_processes(result, subject)
    yield from check_allocations(result)


def attribute(subject: Subject, results: Sequence[Result], seconds: float = SECONDS) -> AttributionResult:
    """Waits until every source has responded or failed. Raises ConfigError."""
    options = attribution_options(subject.settings, subject.node, subject.environ)
    devices = tuple(device for result in results for device in result.devices)
    processes = tuple(process for result in results for process in result.processes)
    attributor = Attributor(options)
    attributor.start()
    try:
        deadline = time.monotonic() + seconds
        attributor.begin()
        # Repeated, because the response of one source may start another.
        while _is_starting(attributor.attribute(devices, processes)) and time.monotonic() < deadline:
            time.sleep(_PAUSE_SECONDS)
        # Once more: a source may have responded while the last round ran.
        return AttributionResult(options, devices, attributor.attribute(devices, processes))
    finally:
        attributor.stop()


def _is_starting(attributed: Attribution) -> bool:
    return any(state.reason == STARTING for state in attributed.attribution)


# Advice by source and reason.
HOST_PID = (
    "set hostPID: true in the pod (docker run --pid=host), or --proc-root if /proc is mounted elsewhere."
)
_RETRIES = "The agent retries and uses the last response until then."
_KUBELET_PERMISSION = (
    "The agent's ClusterRole needs get on nodes/pods, which kubelets support since 1.33. Older kubelets need "
    "nodes/proxy, which permits running commands in every pod: do not grant it, use --pod-source api-server."
)
_CREDENTIALS = (
    "--kube-token-file must name a valid token of this cluster that the agent's user can read; in a pod, set "
    "automountServiceAccountToken: true and a serviceAccountName."
)
_API_SERVER: Mapping[str, str] = {
    Reason.UNREACHABLE: (
        "Check --kube-api-url, and that NetworkPolicies and firewalls let the agent reach the API server."
    ),
    Reason.TIMEOUT: "Check whether a NetworkPolicy or firewall drops packets to the API server.",
    Reason.TLS: (
        "--kube-ca-file must contain the CA that signed the API server's certificate, and the certificate "
        "must be valid for the host in --kube-api-url."
    ),
    Reason.UNAUTHORIZED: _CREDENTIALS,
    Reason.NOT_FOUND: "--kube-api-url does not point to a Kubernetes API server.",
    Reason.CONFLICT: _RETRIES,
    Reason.GONE: _RETRIES,
    Reason.THROTTLED: f"The API server is overloaded. {_RETRIES}",
    Reason.SERVER_ERROR: f"The API server returned an error: see its log. {_RETRIES}",
    Reason.BAD_ANSWER: "--kube-api-url does not point to a Kubernetes API server.",
    Reason.TOO_LARGE: "The response exceeds the size limit; please report it.",
}
_KUBELET: Mapping[str, str] = {
    **_API_SERVER,
    Reason.UNREACHABLE: (
        "Check that the kubelet listens at --kubelet-url. In a pod, 127.0.0.1 is the node only with "
        "hostNetwork: true; otherwise use the address from status.hostIP."
    ),
    Reason.TIMEOUT: "Check whether a firewall drops packets to --kubelet-url.",
    Reason.TLS: (
        "Most kubelets have a self-signed certificate: let the cluster's CA sign it (serverTLSBootstrap: "
        "true), or set --kubelet-ca-file to the kubelet's own."
    ),
    Reason.UNAUTHORIZED: f"The kubelet needs authentication.webhook.enabled: true. {_CREDENTIALS}",
    Reason.FORBIDDEN: _KUBELET_PERMISSION,
    Reason.NOT_FOUND: "--kubelet-url does not point to a kubelet.",
    Reason.SERVER_ERROR: f"The kubelet returned an error: see `journalctl -u kubelet`. {_RETRIES}",
    Reason.THROTTLED: f"The kubelet is overloaded. {_RETRIES}",
    Reason.BAD_ANSWER: "--kubelet-url does not point to a kubelet.",
}
_MOUNT = (
    "Mount the node's /var/lib/kubelet/pod-resources into the pod (hostPath, read-only is enough). If the "
    "kubelet uses another folder, set --pod-resources-socket."
)
_POD_RESOURCES: Mapping[str, str] = {
    UnaryReason.NO_SOCKET: _MOUNT,
    UnaryReason.REFUSED: (
        "Check that the kubelet runs (`systemctl status kubelet`). Mount its folder, not the socket: a "
        "restarted kubelet creates a new socket."
    ),
    UnaryReason.NO_PERMISSION: (
        "The socket belongs to root: run the agent as user 0 (runAsUser: 0, no capability is needed); with "
        "SELinux, also allow the container to connect to it."
    ),
    UnaryReason.TIMEOUT: "The kubelet hangs: see `journalctl -u kubelet` and whether the node is Ready.",
    UnaryReason.UNIMPLEMENTED: "The server there is not a kubelet, or is older than 1.13.",
    UnaryReason.UNAVAILABLE: f"The kubelet is overloaded or shutting down. {_RETRIES}",
    UnaryReason.SERVER_ERROR: f"The kubelet returned an error: see `journalctl -u kubelet`. {_RETRIES}",
    UnaryReason.BAD_ANSWER: "The server at --pod-resources-socket is not a kubelet.",
    UnaryReason.TOO_LARGE: "The kubelet's response exceeds the size limit; please report it.",
}
_NOT_YET = "Run doctor again. If this persists, a server accepts connections but does not respond."


def _permission(what: str) -> str:
    return (
        f"The agent's ClusterRole needs list and watch on {what} (docs/attribution.md has an example), and a "
        "ClusterRoleBinding must grant it to the agent's ServiceAccount."
    )


_BY_SOURCE: Mapping[str, Mapping[str, str]] = {
    "processes": {
        "hidden": HOST_PID[0].upper() + HOST_PID[1:],
        "unreadable": (
            "/proc could not be read for lack of file descriptors or memory: raise the agent's limits "
            "(LimitNOFILE of the unit, resources of the container)."
        ),
    },
    "pods": {**_API_SERVER, Reason.FORBIDDEN: _permission("pods")},
    "pod-resources": _POD_RESOURCES,
    "annotations": {
        "bad_annotation": (
            "`kubectl get pod -o yaml` shows the pod's hami.io annotations. If HAMi wrote them, please "
            "report them with HAMi's version. The pod's share is not shown."
        )
    },
    "resource-slices": {
        **_API_SERVER,
        Reason.FORBIDDEN: _permission("resourceslices of the group resource.k8s.io"),
        Reason.NOT_FOUND: (
            "This API server has no ResourceSlices of resource.k8s.io v1, v1beta2 or v1beta1; "
            "set --no-resource-slices if claims need not be resolved."
        ),
    },
    "node": {**_API_SERVER, Reason.FORBIDDEN: _permission("nodes")},
    "shares": {
        "bad_ratio": "The file must contain one number above 0, such as 2 or 2.5, and nothing else.",
        "unreadable": "Make the file readable for the agent's user, or set another --gpu-allocation-file.",
        "missing": "Restore the file, or restart the agent if devices are no longer shared.",
    },
    "job-mapping": {"unreadable": "Make the folder and its files readable for the agent's user."},
}


def source_advice(source: str, reason: str, subject: Subject) -> str:
    if reason == STARTING:
        return _NOT_YET
    if source == "pods" and subject.settings.pod_source == PodSource.KUBELET:
        return _KUBELET.get(reason, _RETRIES)
    return _BY_SOURCE.get(source, {}).get(reason, _RETRIES)


UNATTRIBUTED_ADVICE: Mapping[UnattributedReason, str] = {
    UnattributedReason.NOT_IN_A_POD: "Nothing: they run outside Kubernetes and are shown with their owner.",
    UnattributedReason.PROCESS_GONE: (
        f"Nothing if they have ended. If they still run, {HOST_PID} For hidepid, see the area `node`."
    ),
    UnattributedReason.NO_PERMISSION: (
        "The agent may not read their /proc/PID/cgroup or mountinfo. Allow it in the AppArmor or SELinux "
        "profile, or run the agent as root."
    ),
    UnattributedReason.CGROUP_HIDDEN: (
        "The kernel shows their cgroup as /, and their mounts name no container: run the agent in the node's "
        "cgroup namespace (privileged: true, docker run --cgroupns=host). Processes in the root cgroup "
        "cannot be told apart from these."
    ),
    UnattributedReason.POD_UNKNOWN: (
        "Nothing if the pod has just started or ended. If no pod is known, NODE_NAME is probably not the "
        "Node's name (spec.nodeName)."
    ),
    UnattributedReason.NO_POD_SOURCE: (
        "They run in pods, but no source for pod names is configured: run the agent in a pod with a "
        "ServiceAccount, or set --kube-api-url and --kube-token-file, or --pod-source kubelet."
    ),
    UnattributedReason.NO_PROCESS: (
        "The driver itself uses a little. If it is most of a device, the driver hides its processes (set "
        "hostPID: true), or a killed process has left memory allocated (reset the device)."
    ),
}


_ID_ADVICE = (
    "Check that the device's driver is readable (above) and its reader is enabled (--readers). A device that "
    "was replaced after the pod started no longer exists. Otherwise AccelScope does not support this form of "
    "id: please report it."
)
_CLAIM_ADVICE = (
    "This node's ResourceSlices contain the device of a claim: see resource-slices above, and "
    "docs/attribution.md for the permission that they need. The claim is shown without its device."
)


def check_allocations(result: AttributionResult) -> Iterator[Finding]:
    allocations = result.attributed.allocations
    containers = {(a.namespace, a.pod, a.container) for a in allocations}
    unknown = [a for a in allocations if a.device is None and _is_ours(a)]
    foreign = sorted({_kind(a) for a in allocations if a.device is None and not _is_ours(a)})
    details = {"ids": len(allocations), "containers": len(containers), "foreign": foreign}
    count = pluralize(len(allocations), "device id is", "device ids are")
    others = f"; not accelerators: {', '.join(foreign)}" if foreign else ""
    by = pluralize(len(containers), "container", "containers")
    found = f"{count} allocated to {by}{others}" if allocations else "no allocation is known"
    yield ok("allocations", found, **details)
    plugin = [a for a in unknown if a.source is not AllocationSource.CLAIM]
    claimed = [a for a in unknown if a.source is AllocationSource.CLAIM]
    if plugin:
        ids = [_allocation_document(a) for a in plugin]
        yield warning("unknown ids", _list_unknown(plugin), _ID_ADVICE, ids=ids)
    if claimed:
        finding = warning if result.options.resource_slices else note
        ids = [_allocation_document(a) for a in claimed]
        yield finding("unknown claims", _list_unknown(claimed), _CLAIM_ADVICE, ids=ids)


def _is_ours(allocation: Allocation) -> bool:
    """Device plugins and drivers also offer network cards and FPGAs. Annotations are always about
    accelerators, and old kubelets do not report a claim's driver."""
    kind = _kind(allocation)
    return not kind or allocation.source is AllocationSource.ANNOTATION or vendor_of(kind) is not None


def _kind(allocation: Allocation) -> str:
    """The resource, or the driver of a claim."""
    return allocation.resource or allocation.device_id.partition("/")[0]


def _list_unknown(unknown: Sequence[Allocation]) -> str:
    named = [
        f"{a.device_id} of {a.namespace}/{a.pod} ({a.claim or a.resource or a.source.value})"
        for a in unknown[:_MAX_LISTED]
    ]
    more = f" and {len(unknown) - _MAX_LISTED} more" if len(unknown) > _MAX_LISTED else ""
    return f"not a device of this node: {', '.join(named)}{more}"


def _allocation_document(allocation: Allocation) -> dict[str, str | None]:
    return {
        "namespace": allocation.namespace,
        "pod": allocation.pod,
        "container": allocation.container,
        "resource": allocation.resource,
        "claim": allocation.claim,
        "device_id": allocation.device_id,
    }


_ID_LENGTH = 12  # of a container's id, as container tools show it
_DRIVER_MEMORY = 0.1  # fraction of a device's memory that a driver may use itself
_GIB = 1 << 30
# Reasons that are temporary while the source is up.
_SOURCE_OF_REASON = {UnattributedReason.PROCESS_GONE: "processes", UnattributedReason.POD_UNKNOWN: "pods"}


def check_processes(result: AttributionResult, subject: Subject) -> Iterator[Finding]:
    processes = result.by_pid()
    by_reason: dict[UnattributedReason, list[list[Process]]] = {}
    for on in processes.values():
        owner = on[0].owner
        if owner is not None and owner.reason is not None:
            by_reason.setdefault(owner.reason, []).append(on)
    yield _attributed(processes, sum(map(len, by_reason.values())))
    for reason in UnattributedReason:
        if reason in by_reason:
            yield _unattributed(reason, by_reason[reason], result, subject)
    yield from _unattributed_memory(result)


def _attributed(processes: Mapping[int, Sequence[Process]], others: int) -> Finding:
    total = len(processes)
    owners = (on[0].owner for on in processes.values())
    pods = {(owner.namespace, owner.pod) for owner in owners if owner is not None and owner.reason is None}
    details = {"processes": total, "of_pods": total - others, "pods": len(pods)}
    if not total:
        return ok("attributed", "no process to attribute", **details)
    found = f"{total - others} of {pluralize(total, 'process', 'processes')} attributed to "
    return ok("attributed", found + pluralize(len(pods), "pod", "pods"), **details)


def _unattributed(
    reason: UnattributedReason,
    listed: Sequence[Sequence[Process]],
    result: AttributionResult,
    subject: Subject,
) -> Finding:
    severity = _severity(reason, result, subject)
    named = [_process_name(on, result) for on in listed[:_MAX_LISTED]]
    more = f" and {len(listed) - _MAX_LISTED} more" if len(listed) > _MAX_LISTED else ""
    return Finding(
        name=reason.value,
        severity=severity,
        found=f"{pluralize(len(listed), 'process', 'processes')}: {', '.join(named)}{more}",
        advice=None if severity is Severity.OK else _advice(reason, result),
        details={"reason": reason.value, "processes": [_process_document(on, result) for on in listed]},
    )


def _severity(reason: UnattributedReason, result: AttributionResult, subject: Subject) -> Severity:
    """A note if the reason is normal or configured, a warning if something is missing."""
    if reason is UnattributedReason.NOT_IN_A_POD:
        return Severity.OK if result.options.pods is PodSource.OFF else Severity.NOTE
    if reason is UnattributedReason.NO_POD_SOURCE and subject.settings.pod_source == PodSource.OFF:
        return Severity.NOTE
    if reason not in _SOURCE_OF_REASON or _is_down(_SOURCE_OF_REASON[reason], result):
        return Severity.WARNING
    # A few may have started or ended between two reads; if no pod is known at all, the cause is another.
    known = any(p.owner is not None and p.owner.reason is None for p in result.attributed.processes)
    return Severity.NOTE if known or reason is UnattributedReason.PROCESS_GONE else Severity.WARNING


def _is_down(source: str, result: AttributionResult) -> bool:
    state = result.state(source)
    return state is None or not state.up


def _advice(reason: UnattributedReason, result: AttributionResult) -> str:
    source = _SOURCE_OF_REASON.get(reason)
    if source is not None and _is_down(source, result):
        return f"Fix {source} above first."
    return UNATTRIBUTED_ADVICE[reason]


def _process_name(on: Sequence[Process], result: AttributionResult) -> str:
    process = on[0]
    where = ", ".join(result.device_name(p.device) for p in on[:2]) + (" ..." if len(on) > 2 else "")
    owner = f", {_owner(process.owner)}" if process.owner is not None and process.owner.name else ""
    return f"{process.name or 'unnamed'} (pid {process.pid} on {where}{owner})"


def _owner(owner: Owner) -> str:
    name = owner.name or ""
    if owner.kind is OwnerKind.CONTAINER:
        name = name[:_ID_LENGTH]
    return f"{owner.kind.value.replace('_', ' ')} {name}"


def _process_document(on: Sequence[Process], result: AttributionResult) -> dict[str, Any]:
    process = on[0]
    return {
        "pid": process.pid,
        "name": process.name,
        "devices": [result.device_name(p.device) for p in on],
        "owner_kind": None if process.owner is None else process.owner.kind.value,
        "owner": None if process.owner is None else process.owner.name,
    }


def _unattributed_memory(result: AttributionResult) -> Iterator[Finding]:
    totals = {device.id: device.memory_total_bytes for device in result.devices}
    # Devices whose driver lists processes without their memory.
    incomplete = {process.device for process in result.attributed.processes if process.memory_bytes is None}
    used = {
        result.device_name(other.device): other.memory_used_bytes
        for other in result.attributed.unattributed
        if other.reason is UnattributedReason.NO_PROCESS
        and other.memory_used_bytes is not None
        and other.memory_used_bytes > _DRIVER_MEMORY * (totals.get(other.device) or 0)
        and other.device not in incomplete
    }
    if used:
        amounts = ", ".join(f"{count / _GIB:.1f} GiB of {device}" for device, count in used.items())
        yield note(
            UnattributedReason.NO_PROCESS.value,
            f"memory in use without a process: {amounts}",
            UNATTRIBUTED_ADVICE[UnattributedReason.NO_PROCESS],
            memory_bytes=used,
        )


_POD_SERVERS = {"api-server": "the API server", "kubelet": "the kubelet"}


def check_sources(result: AttributionResult, subject: Subject) -> Iterator[Finding]:
    for source, (unused, up) in SOURCES.items():
        state = result.state(source)
        if state is None:
            yield unused(result, subject)
        elif state.up:
            yield up(result, subject)
        else:
            yield _down(state, subject)


def _down(state: AttributionSourceState, subject: Subject) -> Finding:
    reason = state.reason or "unknown"
    return warning(
        state.source,
        f"{reason}: {state.error}" if state.error else f"no response yet ({reason})",
        source_advice(state.source, reason, subject),
        reason=reason,
        detail=state.detail,
        errors={item.reason: item.count for item in state.errors},
    )


def _processes(result: AttributionResult, _: Subject) -> Finding:
    processes = result.by_pid()
    if not processes:
        return ok("processes", "no process uses a device now")
    owners = [on[0].owner for on in processes.values()]
    gone = sum(owner is not None and owner.reason is UnattributedReason.PROCESS_GONE for owner in owners)
    found = f"{len(processes) - gone} of {len(processes)} on devices found in {result.options.proc}"
    return ok("processes", found, processes=len(processes), gone=gone)


def _no_processes(_: AttributionResult, __: Subject) -> Finding:
    return ok("processes", "off")


def _pods(result: AttributionResult, _: Subject) -> Finding:
    state = result.state("pods")
    server = _POD_SERVERS.get((state and state.detail) or "", "the server")
    pods = pluralize(len(result.attributed.pods), "pod has or uses", "pods have or use")
    return ok("pods", f"{server} responds; {pods} a device", pods=len(result.attributed.pods))


def _no_pods(_: AttributionResult, subject: Subject) -> Finding:
    if subject.settings.pod_source == PodSource.OFF:
        return ok("pods", "off by setting: pods are shown by uid")
    return ok("pods", "not in Kubernetes; pod attribution is off")


def _pod_resources(result: AttributionResult, _: Subject) -> Finding:
    state = result.state("pod-resources")
    return ok("pod-resources", f"the kubelet responds, API version {state and state.detail}")


def _no_pod_resources(result: AttributionResult, _: Subject) -> Finding:
    if result.options.pod_resources_socket is None:
        return ok("pod-resources", "off by setting: allocated devices are unknown")
    return ok(
        "pod-resources", f"no kubelet on this node: {result.options.pod_resources_socket} does not exist"
    )


def _annotations(result: AttributionResult, _: Subject) -> Finding:
    shares = sum(a.source is AllocationSource.ANNOTATION for a in result.attributed.allocations)
    return ok("annotations", f"{pluralize(shares, 'share', 'shares')} by HAMi", shares=shares)


def _no_annotations(_: AttributionResult, __: Subject) -> Finding:
    return ok("annotations", "no pod has annotations of a device-sharing scheduler")


def _resource_slices(_: AttributionResult, __: Subject) -> Finding:
    return ok("resource-slices", "the API server responds")


def _no_resource_slices(result: AttributionResult, _: Subject) -> Finding:
    claims = {a.claim for a in result.attributed.allocations if a.claim is not None}
    if not claims:
        return ok("resource-slices", "not needed: no pod has a resource claim")
    off = "off by setting" if not result.options.resource_slices else "no API server"
    return ok(
        "resource-slices", f"{off}; the devices of {pluralize(len(claims), 'claim', 'claims')} are unknown"
    )


def _node(result: AttributionResult, _: Subject) -> Finding:
    labels = dict(result.attributed.node_labels)
    missing = [name for name in result.options.node_labels if name not in labels]
    if missing:
        return note(
            "node",
            f"the Node {result.options.node} has no label {join_words(missing)}",
            "Nothing if only other nodes have it. Otherwise check that NODE_NAME is the Node's name, and see "
            "`kubectl get node --show-labels`.",
            missing=missing,
        )
    return ok("node", ", ".join(f"{name}={value}" for name, value in labels.items()), labels=labels)


def _no_node(_: AttributionResult, subject: Subject) -> Finding:
    if not subject.settings.node_labels:
        return ok("node", "not needed: --node-labels is not set")
    return warning(
        "node",
        "--node-labels is set, but no API server is configured",
        "Run the agent in a pod, or set --kube-api-url and --kube-token-file.",
    )


def _shares(result: AttributionResult, _: Subject) -> Finding:
    ratios = Counter(b.share_ratio for b in result.attributed.balances if b.share_ratio is not None)
    devices = len(result.devices)
    details = {"ratios": {f"{ratio:g}": count for ratio, count in ratios.items()}, "devices": devices}
    if devices and not ratios:
        return warning(
            "shares",
            "no device matches the configured ratios",
            "Name devices in `shares` by id, uuid, serial, PCI address or index, and models as shown above; "
            "* and ? are wildcards.",
            **details,
        )
    divided = [f"{count} divided into {ratio:g}" for ratio, count in ratios.items()]
    return ok(
        "shares", f"of {pluralize(devices, 'device', 'devices')} {join_words(divided) or 'none'}", **details
    )


def _no_shares(_: AttributionResult, subject: Subject) -> Finding:
    path = subject.settings.gpu_allocation_file
    if path and "gpu_allocation_file" in subject.loaded.origins:
        return warning(
            "shares",
            f"{path} does not exist",
            "Create or mount it, with one number: the shares per device. The agent reads it once it exists.",
        )
    return ok("shares", "off: no shares are configured")


def _job_mapping(result: AttributionResult, _: Subject) -> Finding:
    with_jobs = sum(bool(balance.jobs) for balance in result.attributed.balances)
    found = f"{result.options.job_mapping_folder} names jobs for {with_jobs} of {len(result.devices)} devices"
    return ok("job-mapping", found, devices=with_jobs)


def _no_job_mapping(_: AttributionResult, __: Subject) -> Finding:
    return ok("job-mapping", "off: --job-mapping-folder is not set")


_SourceCheck = Callable[[AttributionResult, Subject], Finding]
# The findings for a source that is not used, and for one that is up.
SOURCES: Mapping[str, tuple[_SourceCheck, _SourceCheck]] = {
    "processes": (_no_processes, _processes),
    "pods": (_no_pods, _pods),
    "pod-resources": (_no_pod_resources, _pod_resources),
    "annotations": (_no_annotations, _annotations),
    "resource-slices": (_no_resource_slices, _resource_slices),
    "node": (_no_node, _node),
    "shares": (_no_shares, _shares),
    "job-mapping": (_no_job_mapping, _job_mapping),
}
