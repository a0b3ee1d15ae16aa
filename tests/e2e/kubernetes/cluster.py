"""A real Kubernetes of one node, up in seconds and gone without a trace: etcd, API server, controller
manager, scheduler, kubelet and containerd, in namespaces of their own (node.py)."""

import json
import signal
import socket
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml
from tests.e2e.kubernetes import binaries, cgroups, images, programs
from tests.e2e.kubernetes.addresses import pod_address, service_address
from tests.e2e.kubernetes.api import Api
from tests.e2e.kubernetes.cache import Say, cache_folder, exclusive, to_stderr
from tests.e2e.kubernetes.commands import run
from tests.e2e.kubernetes.errors import ClusterError, CommandFailed
from tests.e2e.kubernetes.forward import Address, Forward
from tests.e2e.kubernetes.interruption import signals_interrupt
from tests.e2e.kubernetes.leftovers import find_leftovers
from tests.e2e.kubernetes.machine import check_machine, check_socket_path
from tests.e2e.kubernetes.node import ADDRESS, NAME, Node, Program, clear_up
from tests.e2e.kubernetes.pki import Certificate, write_kubeconfig
from tests.waiting import wait_until

PATIENCE_SECONDS = 120.0  # generous: a busy machine must not decide a test

_OTHER_RUN_SECONDS = 2700.0  # for another run's whole tests
_KUBELET = "/var/lib/kubelet"


class Cluster:
    """As a context manager. What it raises is a ClusterError, with what the failed program said."""

    node_name = NAME
    node_address = ADDRESS

    def __init__(self, say: Say = to_stderr) -> None:
        self._say = say
        self.folder = cache_folder() / "run"
        self.logs_folder = self.folder / "logs"
        self._own: dict[str, Program] = {}  # without which there is no cluster
        self._started: list[Program] = []
        self._images: set[Path] = set()  # archives of those that it has
        self._undo = ExitStack()

    def __enter__(self) -> Self:
        self.node = Node(self.folder)
        check_socket_path(self.device_plugins_folder / "accelscope-test.sock")
        with ExitStack() as undo:
            lock = cache_folder() / "run.lock"
            undo.enter_context(exclusive(lock, "a cluster", say=self._say, seconds=_OTHER_RUN_SECONDS))
            if self.folder.exists() and clear_up(self.folder):
                self._say("an earlier run did not take its cluster down; that is done now")
                cgroups.remove_left_behind()
            check_machine()
            undo.enter_context(signals_interrupt())
            self._boot(undo)
            self._undo = undo.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        started = time.monotonic()
        self._undo.close()
        self._say(
            f"the cluster is gone after {time.monotonic() - started:.1f} s; logs are in {self.logs_folder}"
        )

    def leftovers(self) -> list[str]:
        """What is still there of a cluster that has been taken down; nothing, if all is well."""
        return find_leftovers(self.folder, self._pid_namespace)

    # --- talking to it --------------------------------------------------------------------------------

    def kubectl(
        self,
        *arguments: str,
        input: str | None = None,  # noqa: A002 - as subprocess calls it
        seconds: float = PATIENCE_SECONDS,
    ) -> str:
        """As the administrator, from outside. What it printed."""
        return run([self._kubectl, *arguments], input=input, environment=self._environment, seconds=seconds)

    def helm(self, *arguments: str, seconds: float = PATIENCE_SECONDS) -> str:
        """Built at the first call."""
        helm = binaries.program("helm", self._say)
        return run([helm, *arguments], environment=self._environment, seconds=seconds)

    def apply(self, *documents: str | dict[str, Any]) -> str:
        """YAML texts, or objects."""
        texts = [text if isinstance(text, str) else yaml.safe_dump(text) for text in documents]
        return self.kubectl("apply", "--filename=-", input="\n---\n".join(texts))

    def get(self, resource: str, namespace: str = "default") -> Any:
        """An object by `kind/name`, or a list by kind."""
        return json.loads(self.kubectl("get", resource, f"--namespace={namespace}", "--output=json"))

    def wait_for(
        self,
        resource: str,
        condition: str,
        *,
        namespace: str = "default",
        seconds: float = PATIENCE_SECONDS,
    ) -> None:
        """`condition` as kubectl wait has it: `condition=Ready`, `delete`, `jsonpath={.status.phase}=Failed`.
        What does not exist yet is waited for."""
        words = ["wait", resource, f"--namespace={namespace}", f"--timeout={seconds:g}s"]
        try:
            if condition != "delete":
                self.kubectl(*words, "--for=create", seconds=seconds + 30)
            self.kubectl(*words, f"--for={condition}", seconds=seconds + 30)
        except CommandFailed as error:
            raise ClusterError(f"{error}\n{self._described(resource, namespace)}") from error

    def exec(
        self,
        pod: str,
        *command: str,
        namespace: str = "default",
        container: str | None = None,
        input: str | None = None,  # noqa: A002 - as subprocess calls it
    ) -> str:
        words = ["exec", pod, f"--namespace={namespace}"]
        if container is not None:
            words.append(f"--container={container}")
        if input is not None:
            words.append("--stdin")
        return self.kubectl(*words, "--", *command, input=input)

    def logs(self, pod: str, *options: str, namespace: str = "default") -> str:
        return self.kubectl("logs", pod, f"--namespace={namespace}", *options)

    def token_for(self, service_account: str, *options: str, namespace: str = "default") -> str:
        """From the TokenRequest API; options are those of `kubectl create token`."""
        return self.kubectl("create", "token", service_account, f"--namespace={namespace}", *options).strip()

    def client_certificate(self, user: str) -> Certificate:
        """By which the API server knows whoever shows it as this user, of no group."""
        return self._secrets.authority.issue(f"client-{user}", f"/CN={user}")

    # --- reaching into it -----------------------------------------------------------------------------

    @property
    def kubelet_folder(self) -> Path:
        """What the node has at /var/lib/kubelet; pods' own mounts are not to be seen in it."""
        return self.node.outside(_KUBELET)

    @property
    def pod_resources_socket(self) -> Path:
        return self.kubelet_folder / "pod-resources" / "kubelet.sock"

    @property
    def device_plugins_folder(self) -> Path:
        return self.kubelet_folder / "device-plugins"

    def forward(self, target: str, port: int, namespace: str = "default") -> Forward:
        """To a port of `pod/name`, or of whichever endpoint of `service/name` is ready. Use it in a with
        statement."""
        kind, _, name = target.partition("/")
        find: dict[str, Callable[[], Address]] = {
            "pod": lambda: pod_address(self.api, namespace, name, port),
            "service": lambda: service_address(self.api, namespace, name, port),
        }
        if kind not in find:
            raise ValueError(f"{target}: neither pod/name nor service/name")
        return Forward(self.node.network_namespace, find[kind])

    def processes_of(self, pod: str, container: str, namespace: str = "default") -> list[int]:
        """The machine's numbers of a running container's processes."""
        status = self.get(f"pod/{pod}", namespace)["status"]
        ids = {each["name"]: each.get("containerID", "") for each in status.get("containerStatuses", ())}
        if not ids.get(container):
            raise ClusterError(f"{namespace}/{pod} has no running container {container}")
        return sorted(cgroups.processes(ids[container].rpartition("//")[2]))

    def import_image(self, image: images.Image) -> None:
        """Pods name it by its tag, with imagePullPolicy Never. One that it has costs nothing."""
        if image.archive in self._images:
            return
        ctr = ["ctr", f"--address={programs.containerd_socket(self.folder)}", "--namespace=k8s.io"]
        self.node.run(*ctr, "images", "import", image.archive)
        self._images.add(image.archive)

    def start_program(
        self, name: str, *command: str | Path, environment: dict[str, str] | None = None
    ) -> Program:
        """Another program in the node; it ends with the node, if nobody stops it before."""
        program = self.node.spawn(self.logs_folder / f"{name}.log", *command, environment=environment)
        self._started.append(program)
        return program

    # --- disturbing it --------------------------------------------------------------------------------

    def stop_api_server(self) -> None:
        """At once, as by a power cut: told to end, it would wait a minute for those who watch."""
        self._own.pop("kube-apiserver").stop(signal.SIGKILL)

    def start_api_server(self) -> None:
        """Until it is ready."""
        self._start_own("kube-apiserver", *programs.api_server(self._secrets))
        self._until(lambda: self.api.answers("/readyz"), "the API server is ready")

    def restart_kubelet(self) -> None:
        """Until it serves again; pods keep running."""
        self._own.pop("kubelet").stop()
        self._start_kubelet()

    # --- its making -----------------------------------------------------------------------------------

    def _boot(self, undo: ExitStack) -> None:
        self._kubectl = binaries.program("kubectl", self._say)
        pause = images.pause_image(self._say)
        started = time.monotonic()
        self.logs_folder.mkdir(parents=True, exist_ok=True)
        for old in self.logs_folder.iterdir():
            old.unlink()
        undo.callback(self._end)
        self.node.start(images.pause_program(self._say), self._kubectl.parent)
        self._pid_namespace = self.node.pid_namespace.readlink()
        self._secrets = programs.make_secrets(self.folder)
        self._start_own("etcd", *programs.etcd(self.folder))
        self._start_own("containerd", *programs.containerd(self.folder))
        self._open_api(undo)
        self.start_api_server()
        self._start_own("kube-controller-manager", *programs.controller_manager(self._secrets))
        self._start_own("kube-scheduler", *programs.scheduler(self._secrets))
        self._until(lambda: _listens(programs.containerd_socket(self.folder)), "containerd serves")
        self.import_image(pause)
        self._start_kubelet()
        self._until(self._node_is_ready, "the node is ready")
        account = "/api/v1/namespaces/default/serviceaccounts/default"
        self._until(lambda: self.api.answers(account), "pods have an account")
        self._say(f"the cluster is up after {time.monotonic() - started:.1f} s; its folder is {self.folder}")

    def _open_api(self, undo: ExitStack) -> None:
        forward = undo.enter_context(Forward(self.node.network_namespace, lambda: programs.API_ADDRESS))
        self.api_url = f"https://{forward.address}"
        self.ca_file = self._secrets.ca_file
        self.admin_token = self._secrets.admin_token
        self.admin_token_file = self.folder / "admin.token"
        self.admin_token_file.write_text(self.admin_token)
        self.api = Api(forward.port, self.ca_file, self.admin_token)
        self.kubeconfig = write_kubeconfig(
            self.folder / "admin.kubeconfig", self.api_url, self.ca_file, self.admin_token
        )
        self._environment = {
            "KUBECONFIG": str(self.kubeconfig),
            "HOME": str(self.folder),  # where both programs keep their caches
            "PATH": "/usr/local/bin:/usr/bin:/bin",
        }

    def _start_kubelet(self) -> None:
        self._start_own("kubelet", *programs.kubelet(self.folder, self._secrets))
        sockets = (self.pod_resources_socket, self.device_plugins_folder / "kubelet.sock")
        self._until(lambda: all(map(_listens, sockets)), "the kubelet serves its sockets")

    def _end(self) -> None:
        self.node.stop()
        for program in self._started:
            program.reap()
        cgroups.remove_left_behind()

    def _start_own(self, name: str, *command: str) -> None:
        self._own[name] = self.start_program(name, *command)

    def _until(self, condition: Callable[[], bool], what: str) -> None:
        """A program that has ended by itself ends the wait."""

        def fulfilled() -> bool:
            for program in self._own.values():
                program.check()
            return condition()

        try:
            wait_until(fulfilled, what, PATIENCE_SECONDS)
        except AssertionError as error:
            tails = "\n".join(f"--- {name}\n{each.tail(10)}" for name, each in self._own.items())
            raise ClusterError(f"{error}\n{tails}") from None

    def _node_is_ready(self) -> bool:
        reply = self.api.request("GET", f"/api/v1/nodes/{NAME}")
        conditions = reply.json()["status"].get("conditions", ()) if reply.status == 200 else ()
        return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)

    def _described(self, resource: str, namespace: str) -> str:
        try:
            return self.kubectl("describe", resource, f"--namespace={namespace}")
        except CommandFailed as error:
            return str(error)


def _listens(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            return False
        return True
