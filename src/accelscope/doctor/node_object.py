"""The area of what the agent writes to the Node object."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from functools import partial
from pathlib import Path

from accelscope import __version__
from accelscope.agent.assembly import attribution_options, chosen_annotations, features, writer_of
from accelscope.agent.runner import Result
from accelscope.agent.settings import AgentSettings
from accelscope.config import ConfigError
from accelscope.doctor.check import Area, Check, Finding, Subject, counted, error, ok, warning
from accelscope.kube.client import Client
from accelscope.kube.errors import KubeError, Reason
from accelscope.model import AgentState, Snapshot, Vendor
from accelscope.sinks import annotation, labels
from accelscope.sinks.annotation import recipe_of
from accelscope.sinks.documents import fitted
from accelscope.sinks.sink import SinkError

# --- advice ------------------------------------------------------------
# What to do about a sink that may not write, by its reason.


_GOES_ON = "The agent goes on trying by itself, and the page does not suffer."
_API_SERVER: Mapping[str, str] = {
    Reason.FORBIDDEN: (
        "The agent's ClusterRole needs patch on nodes (docs/node-object.md), and a ClusterRoleBinding must "
        "give it to the agent's ServiceAccount. If an admission policy refuses, NODE_NAME must be the Node "
        "that this pod runs on."
    ),
    Reason.NOT_FOUND: (
        "There is no Node of this name: set NODE_NAME in the pod from the field spec.nodeName (valueFrom: "
        "fieldRef), or give --node-name."
    ),
    Reason.UNAUTHORIZED: (
        "--kube-token-file must name a token of this cluster that has not expired, and the agent's user must "
        "be allowed to read it."
    ),
    Reason.UNREACHABLE: (
        "Is --kube-api-url right, and does a NetworkPolicy or firewall let the agent through to the API "
        "server?"
    ),
    Reason.TIMEOUT: "Does a NetworkPolicy or firewall swallow what the agent sends to the API server?",
    Reason.TLS: "--kube-ca-file must hold the authority that signed the API server's certificate.",
    Reason.TOO_LARGE: (
        "All annotations of a Node together have 256 KiB, and others have most of it. The agent writes as "
        "much as fits; if that is too little, remove what nobody needs: `kubectl get node NODE -o json`."
    ),
    Reason.BAD_ANSWER: (
        "The API server or one of its admission webhooks refuses the change, or something else answers: see "
        "the text above and --kube-api-url."
    ),
}
_FOLDER: Mapping[str, str] = {
    "no_folder": (
        "Mount the node's features.d into the pod (hostPath, type DirectoryOrCreate), and see that "
        "--feature-file-folder names where."
    ),
    "no_permission": "Let the agent's user write to the folder: on most nodes it is root's (runAsUser: 0).",
    "read_only": "Mount the folder without readOnly: true.",
}


def of_reason(sink: str, reason: str) -> str:
    return (_FOLDER if sink == labels.FEATURE_FILE else _API_SERVER).get(reason, _GOES_ON)


# --- area ------------------------------------------------------------
# Whether each sink that is on may write: asked of the API server as a dry run, which changes nothing.


Results = Mapping[Vendor, Result]  # of the readers, as far as they have come
_REQUEST_SECONDS = 10.0


def node_object_area(results: Results) -> Area:
    """Comes after the vendors' areas, whose checks fill `results`."""
    return Area("node object", (Check("node-object", partial(node_object, results), _seconds),))


def node_object(results: Results, subject: Subject) -> Iterator[Finding]:
    settings = subject.settings
    annotations = chosen_annotations(settings)
    if not annotations and settings.feature_labels == "off":
        yield ok("off", "nothing is written to the Node object: no annotation and no labels are on")
        return
    snapshot = _snapshot(results, subject)
    if annotations:
        yield _rehearsed(annotation.NAME, partial(_annotation, annotations, snapshot), subject)
    if settings.feature_labels == "node":
        yield _rehearsed(labels.LABELS, partial(_labels, snapshot), subject)
    if settings.feature_labels == "nfd":
        yield _rehearsed(labels.FEATURE_FILE, partial(_feature_file, snapshot), subject)


def _rehearsed(name: str, rehearse: Callable[[Subject], str], subject: Subject) -> Finding:
    try:
        return ok(name, rehearse(subject))
    except ConfigError as problem:
        return error(name, str(problem), "The agent does not start with these settings.")
    except (KubeError, SinkError) as problem:
        full = isinstance(problem, KubeError) and annotation.leaves_no_room(problem)
        reason = str(Reason.TOO_LARGE if full else problem.reason)
        return warning(name, f"{reason}: {problem}", of_reason(name, reason), reason=reason)


def _annotation(annotations: tuple[str, ...], snapshot: Snapshot, subject: Subject) -> str:
    forms = {name: fitted(recipe_of(name)[0](snapshot)) for name in annotations}
    with _client(subject) as client:
        annotation.annotate(client, subject.node, forms, dry_run=True)
    sizes = ", ".join(f"{name} ({len(form.text)} bytes)" for name, form in forms.items())
    return f"the API server would take {sizes} for the Node {subject.node}"


def _labels(snapshot: Snapshot, subject: Subject) -> str:
    found = features(subject.settings)(snapshot)
    with _client(subject) as client:
        labels.apply_labels(client, subject.node, found, writer=writer_of(subject.settings), dry_run=True)
    return f"the API server would take {_counted(found)} for the Node {subject.node}"


def _feature_file(snapshot: Snapshot, subject: Subject) -> str:
    folder = Path(subject.settings.feature_file_folder)
    labels.check_folder(folder)
    return f"{folder} can be written, with {_counted(features(subject.settings)(snapshot))}"


def _counted(found: Mapping[str, str]) -> str:
    return counted(len(found), "label", "labels")


def _client(subject: Subject) -> "closing[Client]":
    api_server = attribution_options(subject.settings, subject.node, subject.environ).api_server
    if api_server is None:
        raise ConfigError("not in a cluster; give --kube-api-url")
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
