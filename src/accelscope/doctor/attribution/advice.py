"""What to do about a source of attribution that is not up, by its reason; and about a process that is no
pod's, by its reason."""

from collections.abc import Mapping

from accelscope.attribution.options import PodSource
from accelscope.doctor.attribution.look import UNDECIDED
from accelscope.doctor.subject import Subject
from accelscope.kube.errors import Reason
from accelscope.kube.unary import UnaryReason
from accelscope.model import UnattributedReason

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
