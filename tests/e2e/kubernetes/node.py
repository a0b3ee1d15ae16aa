"""The node: mount, network and pid namespaces of its own, in which the cluster's programs run.

Nothing that happens in them reaches the machine: pods' mounts and addresses are the node's alone, and so are
the files that the kubelet and its like keep at fixed places. What is shared is the kernel's cgroups.
When the first process of the pid namespace ends, the kernel ends all the others; that is the tear-down.
"""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.e2e.kubernetes.commands import run
from tests.e2e.kubernetes.errors import ClusterError
from tests.waiting import wait_until

NAME = "node1"
ADDRESS = "10.250.0.1"  # the kubelet refuses a loopback address
API_SERVICE_ADDRESS = "10.96.0.1"

KEPT = ("logs", "node.log")  # in the run folder, after the end: somebody may want to know why

_END_SECONDS = 30.0
_FIXED_FOLDERS = ("/etc/kubernetes", "/var/lib/kubelet", "/var/lib/cni", "/var/log")
# What the kubelet wants of the kernel. It would write the machine's own, so that it finds these instead.
_SYSCTLS = {
    "vm/overcommit_memory": 1,
    "vm/panic_on_oom": 0,
    "kernel/panic": 10,
    "kernel/panic_on_oops": 1,
    "kernel/keys/root_maxkeys": 1_000_000,
    "kernel/keys/root_maxbytes": 25_000_000,
}


class Node:
    """`folder` is the run's: what the node's programs see at fixed places lies under it, by the same path."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._holder: subprocess.Popen[bytes] | None = None
        self._pid = 0  # of the first process, as the machine counts

    @property
    def network_namespace(self) -> Path:
        return Path(f"/proc/{self._pid}/ns/net")

    @property
    def pid_namespace(self) -> Path:
        return Path(f"/proc/{self._pid}/ns/pid")

    def outside(self, path: str) -> Path:
        """Where the machine finds what the node has at one of the fixed places."""
        return self.folder / "root" / path.lstrip("/")

    def start(self, pause: Path, programs: Path) -> None:
        """With `pause` as its first process, and with this folder of programs before the machine's."""
        self._pause = pause.resolve()
        self._environment = {
            # Not the user's: a proxy that is set there would be asked for addresses that only the node has.
            "PATH": f"{programs}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": str(self.folder),
        }
        # The signals that follow a parent's death make the node die with this process, however that dies.
        command = ["setpriv", "--pdeathsig", "KILL", "unshare", "--kill-child", "--mount", "--net", "--pid"]
        command += ["--fork", "--mount-proc", "--propagation", "private", str(self._pause)]
        with (self.folder / "node.log").open("wb") as log:
            self._holder = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        wait_until(self._found_first_process, "the node's namespaces are there")
        made = [path for path in _FIXED_FOLDERS if not Path(path).exists()]
        _write_record(self.folder, self._pid, made)
        self._prepare()

    def run(self, *command: str | os.PathLike[str], input: str | None = None, seconds: float = 120.0) -> str:  # noqa: A002
        """A command in the node, to its end. Raises CommandFailed."""
        return run([*self._enter(), *command], input=input, environment=self._environment, seconds=seconds)

    def spawn(
        self, log: Path, *command: str | os.PathLike[str], environment: Mapping[str, str] | None = None
    ) -> "Program":
        """A program that goes on running in the node; what it says is added to the log."""
        with log.open("ab") as file:
            entered = subprocess.Popen(
                [*self._enter(), *command],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                env={**self._environment, **(environment or {})},
                start_new_session=True,
            )
        return Program(entered, log)

    def stop(self) -> None:
        """Ends everything in the node. Harmless when it has ended already."""
        if self._holder is not None:
            if self._pid:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self._pid, signal.SIGKILL)
            else:
                self._holder.kill()
            self._holder.wait(_END_SECONDS)
            self._holder = None
        clear_up(self.folder)

    def _enter(self) -> list[str]:
        assert self._pid, "the node has not been started"
        return ["nsenter", f"--target={self._pid}", "--mount", "--net", "--pid", "--"]

    def _found_first_process(self) -> bool:
        assert self._holder is not None
        if self._holder.poll() is not None:
            said = (self.folder / "node.log").read_text().strip()
            raise ClusterError(f"no namespaces for the node: {said}")
        for pid in _children(self._holder.pid):
            with contextlib.suppress(OSError):
                if Path(f"/proc/{pid}/exe").readlink() == self._pause:
                    self._pid = pid
        return self._pid != 0

    def _prepare(self) -> None:
        # The kubelet hands mounts on to its pods only from a shared tree.
        self.run("mount", "--make-rshared", "/")
        # Sockets and locks at fixed places: containerd's shims, runc, network namespaces, xtables.
        self.run("mount", "-t", "tmpfs", "tmpfs", "/run")
        for path in _FIXED_FOLDERS:
            Path(path).mkdir(parents=True, exist_ok=True)
            self.outside(path).mkdir(parents=True)
            self.run("mount", "--bind", self.outside(path), path)
        # With the machine's own name: programs look it up, and no name server can be reached from here.
        hosts = f"127.0.0.1 localhost {socket.gethostname()}\n{ADDRESS} {NAME}\n"
        self._put_over("/etc/hosts", hosts)
        for name, value in _SYSCTLS.items():
            self._put_over(f"/proc/sys/{name}", f"{value}\n")
        for words in (
            "link set lo up",
            # The API server listens on all addresses at port 443: so its Service needs no kube-proxy.
            f"address add {API_SERVICE_ADDRESS}/32 dev lo",
            "link add node0 type bridge",
            f"address add {ADDRESS}/24 dev node0",
            "link set node0 up",
            f"route add default via {ADDRESS}",
        ):
            self.run("ip", *words.split())

    def _put_over(self, path: str, content: str) -> None:
        cover = self.outside(path)
        cover.parent.mkdir(parents=True, exist_ok=True)
        cover.write_text(content)
        self.run("mount", "--bind", cover, path)


class Program:
    """One that runs in the node. `pid` is the machine's number for it."""

    def __init__(self, entered: subprocess.Popen[bytes], log: Path) -> None:
        self._entered = entered
        self.log = log

    @property
    def pid(self) -> int | None:
        """nsenter stays behind as its parent; None once it has ended."""
        return next(iter(_children(self._entered.pid)), None)

    def check(self) -> None:
        """Raises ClusterError if it has ended."""
        if self._entered.poll() is not None:
            raise ClusterError(f"{self.log.stem} ended with {self._entered.returncode}:\n{self.tail()}")

    def stop(self, signal_number: int = signal.SIGTERM) -> None:
        """Harmless when it has ended already."""
        deadline = time.monotonic() + _END_SECONDS
        if (pid := self.pid) is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal_number)
        try:
            self._entered.wait(max(deadline - time.monotonic(), 0))
        except subprocess.TimeoutExpired:
            if (pid := self.pid) is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self._entered.wait(_END_SECONDS)

    def reap(self) -> None:
        """After the node's end, which ended this too."""
        self._entered.wait(_END_SECONDS)

    def tail(self, lines: int = 30) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])


def clear_up(folder: Path) -> bool:
    """Ends the node that was started in this run folder, also one whose tests were killed; removes its files
    and the folders of the machine that it made to mount over. Logs stay. Whether there was such a node."""
    record = _read_record(folder)
    if record is None:
        return False
    pid, started, made = record
    if _start_of(pid) == started:
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: _start_of(pid) != started, "the node has ended", _END_SECONDS)
    for path in made:
        with contextlib.suppress(OSError):  # not empty: somebody else has use for it by now
            Path(path).rmdir()
    for entry in folder.iterdir():
        if entry.name in KEPT:
            continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()
    return True


def _write_record(folder: Path, pid: int, made: list[str]) -> None:
    (folder / "node.json").write_text(json.dumps({"pid": pid, "started": _start_of(pid), "made": made}))


def _read_record(folder: Path) -> tuple[int, str, list[str]] | None:
    try:
        record = json.loads((folder / "node.json").read_text())
    except FileNotFoundError:
        return None
    return record["pid"], record["started"], record["made"]


def _start_of(pid: int) -> str | None:
    """Tells one process from a later one with the same number, across reboots too; None: there is none."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    ticks = stat.rpartition(")")[2].split()[19]  # since boot, of the process's start
    return f"{Path('/proc/sys/kernel/random/boot_id').read_text().strip()} {ticks}"


def _children(pid: int) -> Iterator[int]:
    try:
        listed = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return
    yield from map(int, listed.split())
