"""One finding for each place that tells whose what is."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping

from accelscope.attribution.options import PodSource
from accelscope.doctor.attribution.advice import of_source
from accelscope.doctor.attribution.look import Look
from accelscope.doctor.finding import Finding, counted, note, ok, sentence, warning
from accelscope.doctor.subject import Subject
from accelscope.model import AllocationSource, AttributionSourceState, UnattributedReason

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
