"""What to do about a sink that may not write, by its reason."""

from collections.abc import Mapping

from accelscope.kube.errors import Reason
from accelscope.sinks import feature_file

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
    return (_FOLDER if sink == feature_file.FEATURE_FILE else _API_SERVER).get(reason, _GOES_ON)
