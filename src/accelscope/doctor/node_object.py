"""The Node object: whether the annotations and labels that are enabled can be written.

Requests to the API server are dry runs, which change nothing.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from functools import partial
from pathlib import Path

from accelscope import __version__
from accelscope.agent.assembly import attribution_options, chosen_annotations, features, writer_of
from accelscope.agent.runner import Result
from accelscope.agent.settings import AgentSettings
from accelscope.config import ConfigError
from accelscope.doctor.check import Area, Check, Finding, Subject, error, ok, pluralize, warning
from accelscope.kube.client import Client
from accelscope.kube.endpoint import KubeError, Reason
from accelscope.model import AgentState, Snapshot, Vendor
from accelscope.sinks import annotation, labels
from accelscope.sinks.annotation import document_builder
from accelscope.sinks.documents import fit
from accelscope.sinks.sink import SinkError

Results = Mapping[Vendor, Result]  # of the readers that have been checked
_REQUEST_SECONDS = 10.0

_RETRIES = "The agent retries; metrics are not affected."
# Advice by the reason of a sink's error.
_API_SERVER: Mapping[str, str] = {
    Reason.FORBIDDEN: (
        "The agent's ClusterRole needs patch on nodes (docs/node-object.md), and a ClusterRoleBinding must "
        "grant it to the agent's ServiceAccount. If an admission policy rejects the request, NODE_NAME must "
        "be the Node that this pod runs on."
    ),
    Reason.NOT_FOUND: (
        "No Node has this name: set NODE_NAME in the pod from the field spec.nodeName (valueFrom: fieldRef), "
        "or set --node-name."
    ),
    Reason.UNAUTHORIZED: (
        "--kube-token-file must name a token of this cluster that has not expired, and the agent's user must "
        "be allowed to read it."
    ),
    Reason.UNREACHABLE: (
        "Check --kube-api-url, and that NetworkPolicies and firewalls let the agent reach the API server."
    ),
    Reason.TIMEOUT: "Check whether a NetworkPolicy or firewall drops packets to the API server.",
    Reason.TLS: "--kube-ca-file must contain the CA that signed the API server's certificate.",
    Reason.TOO_LARGE: (
        "The annotations of a Node may have 256 KiB in total, and others use most of it. The agent writes as "
        "much as fits. If that is too little, remove annotations: `kubectl get node NODE -o json`."
    ),
    Reason.BAD_ANSWER: (
        "The API server or an admission webhook rejects the change, or --kube-api-url is not an API server: "
        "see the text above."
    ),
}
_FOLDER: Mapping[str, str] = {
    "no_folder": (
        "Mount the node's features.d into the pod (hostPath, type DirectoryOrCreate) at the path in "
        "--feature-file-folder."
    ),
    "no_permission": (
        "Make the folder writable for the agent's user: on most nodes it belongs to root (runAsUser: 0)."
    ),
    "read_only": "Mount the folder without readOnly: true.",
}


def advice_for(sink: str, reason: str) -> str:
    return (_FOLDER if sink == labels.FEATURE_FILE else _API_SERVER).get(reason, _RETRIES)


def node_object_area(results: Results) -> Area:
    """Runs after the vendors' areas, whose checks fill `results`."""
    return Area("node object", (Check("node-object", partial(node_object, results), _seconds),))


def node_object(results: Results, subject: Subject) -> Iterator[Finding]:
    settings = subject.settings
    annotations = chosen_annotations(settings)
    if not annotations and settings.feature_labels == "off":
        yield ok("off", "annotations and labels are off: the Node object is not written")
        return
    snapshot = _snapshot(results, subject)
    if annotations:
        yield _dry_run(annotation.NAME, partial(_annotation, annotations, snapshot), subject)
    if settings.feature_labels == "node":
        yield _dry_run(labels.LABELS, partial(_labels, snapshot), subject)
    if settings.feature_labels == "nfd":
        yield _dry_run(labels.FEATURE_FILE, partial(_feature_file, snapshot), subject)


def _dry_run(name: str, write: Callable[[Subject], str], subject: Subject) -> Finding:
    try:
        return ok(name, write(subject))
    except ConfigError as problem:
        return error(name, str(problem), "The agent does not start with these settings.")
    except (KubeError, SinkError) as problem:
        full = isinstance(problem, KubeError) and annotation.is_node_full(problem)
        reason = str(Reason.TOO_LARGE if full else problem.reason)
        return warning(name, f"{reason}: {problem}", advice_for(name, reason), reason=reason)


def _annotation(annotations: tuple[str, ...], snapshot: Snapshot, subject: Subject) -> str:
    forms = {name: fit(document_builder(name)[0](snapshot)) for name in annotations}
    with _client(subject) as client:
        annotation.annotate(client, subject.node, forms, dry_run=True)
    sizes = ", ".join(f"{name} ({len(form.text)} bytes)" for name, form in forms.items())
    return f"the API server accepts {sizes} for the Node {subject.node}"


def _labels(snapshot: Snapshot, subject: Subject) -> str:
    found = features(subject.settings)(snapshot)
    with _client(subject) as client:
        labels.apply_labels(client, subject.node, found, writer=writer_of(subject.settings), dry_run=True)
    return f"the API server accepts {_label_count(found)} for the Node {subject.node}"


def _feature_file(snapshot: Snapshot, subject: Subject) -> str:
    folder = Path(subject.settings.feature_file_folder)
    labels.check_folder(folder)
    return f"{folder} is writable; {_label_count(features(subject.settings)(snapshot))} to write"


def _label_count(found: Mapping[str, str]) -> str:
    return pluralize(len(found), "label", "labels")


def _client(subject: Subject) -> "closing[Client]":
    api_server = attribution_options(subject.settings, subject.node, subject.environ).api_server
    if api_server is None:
        raise ConfigError("not in a Kubernetes cluster; set --kube-api-url")
    return closing(Client(api_server, timeout_seconds=_REQUEST_SECONDS))


def _snapshot(results: Results, subject: Subject) -> Snapshot:
    now = subject.clock()
    return Snapshot(
        node=subject.node,
        taken_at=now,
        agent=AgentState(version=__version__, started_at=now),
        devices=tuple(device for result in results.values() for device in result.devices),
        readers=tuple(result.state for result in results.values()),
    )


def _seconds(_: AgentSettings) -> float:
    return 2 * _REQUEST_SECONDS + 5
