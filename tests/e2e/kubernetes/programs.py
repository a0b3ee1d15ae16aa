"""What the cluster's programs are told: their command lines and configuration files.

Where a setting is not Kubernetes' own default, the reason stands beside it.
"""

import json
from dataclasses import dataclass
from pathlib import Path

import yaml
from tests.e2e.kubernetes.images import PAUSE_TAG
from tests.e2e.kubernetes.node import ADDRESS, API_SERVICE_ADDRESS, NAME
from tests.e2e.kubernetes.pki import Authority, User, write_kubeconfig, write_tokens

API_ADDRESS = ("127.0.0.1", 443)
ADMIN = "admin"

_ETCD = "http://127.0.0.1:2379"
_ETCD_PEER = "http://127.0.0.1:2380"
_CONTROLLER_MANAGER = "system:kube-controller-manager"
_SCHEDULER = "system:kube-scheduler"
_KUBELET = f"system:node:{NAME}"
_USERS = (
    User(ADMIN, ("system:masters",)),
    User(_CONTROLLER_MANAGER),
    User(_SCHEDULER),
    User(_KUBELET, ("system:nodes",)),
)


@dataclass(frozen=True, slots=True)
class Secrets:
    authority: Authority
    ca_file: Path
    admin_token: str
    api_server: tuple[str, ...]  # options
    controller_manager: tuple[str, ...]
    scheduler: tuple[str, ...]
    kubelet: tuple[str, ...]
    kubelet_config: dict[str, object]


def make_secrets(folder: Path) -> Secrets:
    pki = folder / "pki"
    authority = Authority(pki)
    tokens = write_tokens(pki / "tokens.csv", _USERS)
    server = f"https://{API_ADDRESS[0]}:{API_ADDRESS[1]}"
    config = {
        user: str(
            write_kubeconfig(pki / f"{user.rpartition(':')[2]}.kubeconfig", server, authority.ca_file, token)
        )
        for user, token in tokens.items()
    }
    serving = authority.issue(
        "kube-apiserver",
        "/CN=kube-apiserver",
        ("127.0.0.1", ADDRESS, API_SERVICE_ADDRESS),
        ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"),
    )
    to_kubelet = authority.issue("to-kubelet", "/O=system:masters/CN=kube-apiserver-to-kubelet")
    kubelet = authority.issue("kubelet", f"/CN={NAME}", ("127.0.0.1", ADDRESS), (NAME,))
    signing, verifying = authority.key_pair("service-accounts")

    def delegating(user: str) -> tuple[str, ...]:
        given = [f"--{which}kubeconfig={config[user]}" for which in ("", "authentication-", "authorization-")]
        return (*given, f"--cert-dir={pki / user.rpartition(':')[2]}")

    return Secrets(
        authority=authority,
        ca_file=authority.ca_file,
        admin_token=tokens[ADMIN],
        api_server=(
            f"--tls-cert-file={serving.certificate}",
            f"--tls-private-key-file={serving.key}",
            f"--client-ca-file={authority.ca_file}",
            f"--token-auth-file={pki / 'tokens.csv'}",
            f"--service-account-key-file={verifying}",
            f"--service-account-signing-key-file={signing}",
            f"--kubelet-client-certificate={to_kubelet.certificate}",
            f"--kubelet-client-key={to_kubelet.key}",
            f"--kubelet-certificate-authority={authority.ca_file}",
        ),
        controller_manager=(
            *delegating(_CONTROLLER_MANAGER),
            f"--service-account-private-key-file={signing}",
            f"--root-ca-file={authority.ca_file}",
        ),
        scheduler=delegating(_SCHEDULER),
        kubelet=(f"--kubeconfig={config[_KUBELET]}",),
        kubelet_config={
            "tlsCertFile": str(kubelet.certificate),
            "tlsPrivateKeyFile": str(kubelet.key),
            "authentication": {
                "anonymous": {"enabled": False},
                "webhook": {"enabled": True},
                "x509": {"clientCAFile": str(authority.ca_file)},
            },
        },
    )


def etcd(folder: Path) -> list[str]:
    return [
        "etcd",
        f"--data-dir={folder / 'etcd'}",
        f"--listen-client-urls={_ETCD}",
        f"--advertise-client-urls={_ETCD}",
        f"--listen-peer-urls={_ETCD_PEER}",
        f"--initial-advertise-peer-urls={_ETCD_PEER}",
        f"--initial-cluster=default={_ETCD_PEER}",
    ]


def api_server(secrets: Secrets) -> list[str]:
    return [
        "kube-apiserver",
        f"--etcd-servers={_ETCD}",
        "--bind-address=0.0.0.0",
        f"--secure-port={API_ADDRESS[1]}",
        f"--advertise-address={ADDRESS}",
        "--service-cluster-ip-range=10.96.0.0/24",
        # The Service's address is the node's own; there is nothing to keep up to date.
        "--endpoint-reconciler-type=none",
        "--service-account-issuer=https://kubernetes.default.svc",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--allow-privileged=true",
        "--kubelet-preferred-address-types=InternalIP",
        *secrets.api_server,
    ]


def controller_manager(secrets: Secrets) -> list[str]:
    own = ["--use-service-account-credentials=true", "--leader-elect=false", "--bind-address=127.0.0.1"]
    return ["kube-controller-manager", *own, *secrets.controller_manager]


def scheduler(secrets: Secrets) -> list[str]:
    return ["kube-scheduler", "--leader-elect=false", "--bind-address=127.0.0.1", *secrets.scheduler]


def containerd_socket(folder: Path) -> Path:
    return folder / "containerd.sock"


def containerd(folder: Path) -> list[str]:
    network = folder / "cni"
    network.mkdir()
    (network / "10-pods.conflist").write_text(json.dumps(_pod_network(), indent=1))
    config = folder / "containerd.toml"
    config.write_text(_CONTAINERD.format(folder=folder, socket=containerd_socket(folder), pause=PAUSE_TAG))
    return ["containerd", f"--config={config}"]


# Its root may lack CAP_SYS_RESOURCE, without which no process may make itself less likely to be killed when
# memory is short; and a container host need not have AppArmor's tools.
_CONTAINERD = """\
version = 2
root = "{folder}/containerd"
state = "{folder}/containerd-state"
[grpc]
  address = "{socket}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause}"
  restrict_oom_score_adj = true
  disable_apparmor = true
  stream_server_address = "127.0.0.1"
  stream_server_port = "0"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{folder}/cni"
"""


def _pod_network() -> dict[str, object]:
    addresses = {
        "type": "host-local",
        "ranges": [[{"subnet": "10.244.0.0/24"}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    bridge = {"type": "bridge", "bridge": "cni0", "isGateway": True, "hairpinMode": True, "ipam": addresses}
    return {"cniVersion": "0.4.0", "name": "pods", "plugins": [bridge, {"type": "loopback"}]}


def kubelet(folder: Path, secrets: Secrets) -> list[str]:
    socket = containerd_socket(folder)
    config = folder / "kubelet.yaml"
    manifests = folder / "manifests"
    manifests.mkdir(exist_ok=True)
    document = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        **secrets.kubelet_config,
        "address": "0.0.0.0",
        "authorization": {"mode": "Webhook"},
        "containerRuntimeEndpoint": f"unix://{socket}",
        "staticPodPath": str(manifests),
        "resolvConf": "",  # the machine's name servers cannot be reached from the node
        # A machine for tests: no systemd, perhaps swap and the old cgroups, and others may fill its disk.
        "cgroupDriver": "cgroupfs",
        "failCgroupV1": False,
        "failSwapOn": False,
        "evictionHard": {
            "memory.available": "100Mi",
            "nodefs.available": "0%",
            "nodefs.inodesFree": "0%",
            "imagefs.available": "0%",
            "imagefs.inodesFree": "0%",
        },
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        # It must find the kernel as it wants it (node.py sees to that); it is not to write there.
        "protectKernelDefaults": True,
        "makeIPTablesUtilChains": False,
        # Tests wait for these: what is known of the node, and changed ConfigMaps in pods.
        "nodeStatusUpdateFrequency": "1s",
        "syncFrequency": "1s",
    }
    config.write_text(yaml.safe_dump(document))
    return [
        "kubelet",
        f"--config={config}",
        f"--hostname-override={NAME}",
        f"--node-ip={ADDRESS}",
        f"--containerd={socket}",  # cadvisor's metrics of single containers need it
        *secrets.kubelet,
    ]
