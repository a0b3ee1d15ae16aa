"""How each fault of the matrix is brought about, on a running scene. What only one fault shows is looked at
here too; what all have in common is the test's."""

import math
import resource
import shutil
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path

from tests.certificates import make_certificates
from tests.faults import api_front
from tests.faults.scene import INTERVAL_SECONDS, Scene, total
from tests.files import put
from tests.kube.kube_server import Asked, Peer, Step
from tests.waiting import PATIENCE_SECONDS, wait_until

from accelscope.model import Snapshot
from accelscope.simulate import SimulatedNode, read_node
from accelscope.simulate.faults import Fault as SimulatedFault
from accelscope.simulate.faults import FaultKind

Break = Callable[[Scene], AbstractContextManager[None]]

BREAKS: dict[str, Break] = {}
PREPARED: dict[str, Callable[[Scene], None]] = {}  # before the agent starts
DEVICE = 1  # the one that breaks where one does

_DAY_SECONDS = 86400
_CROWD = 280  # more clients than the limit, and not more than the agent answers with 503
_CROWDED_SECONDS = 4.2  # shorter than the 5 s that a request's head may take
_HANGS_SECONDS = 120  # a tool, or what it started
_END_SECONDS = 30.0  # "at once" on a busy machine; a wait for a hanging tool takes longer
_WATCHES = 2  # what the agent asks the API server for: pods, and slices where one has a claim


def of(name: str) -> Callable[[Callable[[Scene], Iterator[None]]], Callable[[Scene], Iterator[None]]]:
    def note(bring: Callable[[Scene], Iterator[None]]) -> Callable[[Scene], Iterator[None]]:
        BREAKS[name] = contextmanager(bring)
        return bring

    return note


def before(name: str) -> Callable[[Callable[[Scene], None]], Callable[[Scene], None]]:
    def note(prepare: Callable[[Scene], None]) -> Callable[[Scene], None]:
        PREPARED[name] = prepare
        return prepare

    return note


# What the simulated driver can do by itself.


def _simulated(kind: FaultKind, device: int | None = None) -> Break:
    @contextmanager
    def bring(scene: Scene) -> Iterator[None]:
        scene.node.set_faults([SimulatedFault(kind=kind, device=device)])
        yield
        scene.node.set_faults(())

    return bring


BREAKS |= {
    "driver-call-hangs": _simulated(FaultKind.HANG, DEVICE),
    "library-hangs": _simulated(FaultKind.LIBRARY_HANG),
    "device-lost": _simulated(FaultKind.LOST, DEVICE),
    "device-vanishes": _simulated(FaultKind.VANISHED, DEVICE),
    "driver-unloaded": _simulated(FaultKind.DRIVER_NOT_LOADED),
    "tool-hangs": _simulated(FaultKind.TOOL_HANG),
    "tool-killed": _simulated(FaultKind.TOOL_KILLED),
    "tool-truncated": _simulated(FaultKind.TOOL_TRUNCATED),
    "tool-garbage": _simulated(FaultKind.TOOL_GARBAGE),
    "tool-not-utf8": _simulated(FaultKind.TOOL_NON_UTF8),
}


@of("driver-upgraded")
def _driver_upgraded(scene: Scene) -> Iterator[None]:
    """The old module is removed first, because open handles of it would still work."""
    scene.node.set_faults([SimulatedFault(kind=FaultKind.DRIVER_NOT_LOADED)])
    scene.until(lambda s: all(device.stale for device in s.devices), "the old module is gone")
    scene.node.set_faults([SimulatedFault(kind=FaultKind.VERSION_MISMATCH)])
    yield
    scene.node.set_faults(())


@of("mig-changes")
def _mig_changes(scene: Scene) -> Iterator[None]:
    whole = scene.node.spec.text
    cut = whole.replace("{model: h100-80gb}", "{model: h100-80gb, mig: [3g.40gb, 3g.40gb]}")
    cut = cut[: cut.index("processes:")]  # a GPU that runs something cannot be cut
    scene.pause_node()
    SimulatedNode(read_node(cut), scene.node.folder).build(scene.node.at)
    scene.until(lambda s: len(s.devices[0].partitions) == 2, "the instances are there")
    yield
    SimulatedNode(scene.node.spec, scene.node.folder).build(scene.node.at)
    scene.over()
    scene.until(lambda s: not s.devices[0].partitions, "the instances are gone")


# Tools


def _troubled(lines: str) -> Break:
    @contextmanager
    def bring(scene: Scene) -> Iterator[None]:
        put(scene.trouble, lines + "\n")
        yield
        scene.trouble.unlink()

    return bring


BREAKS |= {
    # Its child has the scene's folder in its command line, by which leftovers are found.
    "tool-lingers": _troubled('sh -c "sleep 1000; :" "$0" & exec >&- 2>&-; sleep 1000'),
    "tool-floods": _troubled("exec yes 0123456789abcdef0123456789abcdef"),
    "tool-without-memory": _troubled("ulimit -v 2000"),
}


@before("tool-truncated")
@before("tool-not-utf8")
def _node_stands_still(scene: Scene) -> None:
    """So that its output can be compared."""
    scene.pause_node()


@of("tool-missing")
def _tool_missing(scene: Scene) -> Iterator[None]:
    tool = scene.folder / "nvidia-smi"
    away = tool.rename(scene.folder / "nvidia-smi.away")
    yield
    away.rename(tool)


# Processes


@of("proc-race")
def _proc_race(scene: Scene) -> Iterator[None]:
    raced = scene.folder / "raced"
    # Without the files that the node is writing at this moment: they are renamed.
    shutil.copytree(scene.node.folder / "proc", raced, symlinks=True, ignore=shutil.ignore_patterns(".*"))
    for number, folder in enumerate(sorted(raced.glob("[0-9]*"))):
        match number % 4:
            case 0:
                shutil.rmtree(folder)
            case 1:
                (folder / "stat").write_text("4242 (half")
            case 2:
                (folder / "status").write_text("")
            case _:
                (folder / "cgroup").unlink()
                (folder / "stat").unlink()
    _point(scene.proc, raced)
    yield
    _point(scene.proc, scene.node.folder / "proc")


def _point(link: Path, target: Path) -> None:
    new = link.with_name("new-link")
    new.symlink_to(target)
    new.rename(link)


@of("pid-reuse")
def _pid_reuse(scene: Scene) -> Iterator[None]:
    owners: set[tuple[str | None, str | None]] = set()

    def known(snapshot: Snapshot) -> bool:
        now = {(p.name, p.owner.pod if p.owner else None) for p in snapshot.processes}
        owners.update(now)
        return now == {("second", "new")}

    scene.expected_pods = None
    yield
    scene.node.write(201.0)
    scene.over()
    scene.until(known, "the new pod is known")
    assert ("second", "old") not in owners


# Kubernetes


@of("kubelet-restarts")
def _kubelet_restarts(scene: Scene) -> Iterator[None]:
    scene.cluster.kubelet_down()
    yield
    scene.cluster.kubelet_up()


@of("kubelet-gone-socket-left")
def _kubelet_gone(scene: Scene) -> Iterator[None]:
    scene.cluster.kubelet_down()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as left:
        left.bind(str(scene.socket))
    yield
    scene.cluster.kubelet_up()


@of("kubelet-hangs")
def _kubelet_hangs(scene: Scene) -> Iterator[None]:
    scene.cluster.kubelet_down()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as silent:
        silent.bind(str(scene.socket))
        silent.listen(64)
        yield
    scene.cluster.kubelet_up()


@of("api-server-gone")
def _api_server_gone(scene: Scene) -> Iterator[None]:
    series = 'accelscope_attribution_source_errors_total{reason="unreachable"}'
    with _asked_seldom(lambda: total(scene.page(), series)):
        scene.front.close()
        yield
    scene.front.open()


@contextmanager
def _asked_seldom(count: Callable[[], float]) -> Iterator[None]:
    """The pauses after attempts in vain are at least 1, 2, 4 s and so on. (One that finds its version gone
    is followed by another at once.)"""
    before, began = count(), time.monotonic()
    yield
    attempts = 2 + math.log2(1 + time.monotonic() - began)
    assert count() - before <= _WATCHES * attempts


def _front(trouble: api_front.Trouble, *, new_token: bool = False) -> Break:
    @contextmanager
    def bring(scene: Scene) -> Iterator[None]:
        with _asked_seldom(lambda: scene.front.troubled):
            scene.front.make(trouble)
            yield
        scene.front.make(None)
        if new_token:
            _new_token(scene)

    return bring


def _new_token(scene: Scene) -> None:
    scene.cluster.rotate_token()
    scene.note_token()


BREAKS |= {
    "api-server-cuts": _front(api_front.cutting),
    "api-server-slow": _front(api_front.silent),
    "api-server-401": _front(api_front.refusing(401), new_token=True),
    "api-server-403": _front(api_front.refusing(403), new_token=True),
    "api-server-429": _front(api_front.refusing(429, "Retry-After: 1")),
    "api-server-500": _front(api_front.refusing(500)),
    "api-server-garbage": _front(api_front.answering(200, b'{"kind":"PodList","items":[{{{"\n')),
}


@of("api-server-410")
def _api_server_410(scene: Scene) -> Iterator[None]:
    scene.cluster.expire_versions()
    scene.cluster.disconnect()
    yield


@of("token-rotates")
def _token_rotates(scene: Scene) -> Iterator[None]:
    yield
    _new_token(scene)
    asked = len(scene.cluster.requests())
    scene.cluster.disconnect()
    scene.over()
    wait_until(lambda: len(scene.cluster.requests()) > asked, "the watch goes on")
    assert total(scene.page(), 'accelscope_attribution_source_errors_total{reason="unauthorized"}') == 0


def _refused_patches(status: int, *, new_token: bool = False) -> Break:
    @contextmanager
    def bring(scene: Scene) -> Iterator[None]:
        over = False

        def step(peer: Peer, asked: Asked) -> None:
            if over:
                scene.api.answer(peer, asked)
            else:
                peer.document(status, {"kind": "Status", "code": status, "message": "no"})

        steps: list[Step] = [step] * 200
        written = dict(scene.api.annotations)
        scene.api.fail(*steps)
        yield
        assert scene.api.annotations.keys() == written.keys()
        over = True
        if new_token:
            scene.rotate_node_token()

    return bring


BREAKS |= {
    "node-patch-409": _refused_patches(409),
    "node-patch-403": _refused_patches(403, new_token=True),
}


# Files and disks


@of("readers-token-rotates")
def _readers_token_rotates(scene: Scene) -> Iterator[None]:
    old, new = scene.agent._token, f"page-token-{time.monotonic_ns()}"
    scene.secrets.add(new)
    put(scene.token_file, f"{old}\n{new}\n")
    wait_until(lambda: _status(scene, new) == 200, "the new token is taken")
    scene.agent._token = new
    yield
    put(scene.token_file, f"{new}\n")
    scene.over()
    wait_until(lambda: _status(scene, old or "") == 401, "the old token is refused")


def _status(scene: Scene, token: str) -> int:
    return scene.agent.get("/metrics", authorization=f"Bearer {token}").status


@of("certificate-rotates")
def _certificate_rotates(scene: Scene) -> Iterator[None]:
    (scene.folder / "new-ca").mkdir()
    made = make_certificates(scene.folder / "new-ca")
    scene.secrets.update(line for line in made.server_key.read_text().splitlines() if "-----" not in line)
    put(scene.key, made.server_key.read_text())  # of another certificate than is there
    wait_until(lambda: "do not belong together" in scene.agent.log(), "the files are looked at")
    yield
    put(scene.certificate, made.server.read_text())
    scene.over()
    trust = made.trust()

    def is_new() -> bool:
        try:
            with (
                socket.create_connection(("127.0.0.1", scene.agent.port), PATIENCE_SECONDS) as plain,
                trust.wrap_socket(plain, server_hostname="127.0.0.1"),
            ):
                return True
        except OSError:
            return False

    wait_until(is_new, "the new certificate is shown")


@of("settings-garbage")
def _settings_garbage(scene: Scene) -> Iterator[None]:
    put(scene.folder / "agent.yaml", "collectionInterval: [never\n")
    yield
    put(scene.folder / "agent.yaml", "logLevel: debug\n")


def _fill(folder: Path) -> Path:
    filler = folder / "filler"
    with suppress(OSError), filler.open("wb", buffering=0) as file:
        while True:
            file.write(b"x" * 512)
    return filler


@of("disk-full")
def _disk_full(scene: Scene) -> Iterator[None]:
    (scene.disk / "accelscope").unlink()
    filler = _fill(scene.disk)
    scene.restart()
    yield
    wait_until(lambda: _errors(scene, "no_space") >= 2, "it is tried again")
    assert {path.name for path in scene.disk.iterdir()} == {"filler"}
    filler.unlink()


def _errors(scene: Scene, reason: str) -> float:
    return total(scene.page(), f'accelscope_sink_errors_total{{reason="{reason}"}}')


@of("disk-read-only")
def _disk_read_only(scene: Scene) -> Iterator[None]:
    _remount(scene.disk, "ro")
    scene.restart()
    yield
    _remount(scene.disk, "rw")


def _remount(folder: Path, how: str) -> None:
    subprocess.run(
        ["mount", "-o", f"remount,{how}", str(folder)], check=True, capture_output=True, timeout=30
    )


@before("log-cannot-be-written")
def _log_on_a_small_disk(scene: Scene) -> None:
    scene.small_disk("log", scene.stack)


@of("log-cannot-be-written")
def _log_cannot_be_written(scene: Scene) -> Iterator[None]:
    filler = _fill(scene.folder / "log")
    scene.node.set_faults([SimulatedFault(kind=FaultKind.LOST, device=DEVICE)])
    yield
    filler.unlink()
    scene.node.set_faults(())


# Limits and clocks


@of("no-descriptors")
def _no_descriptors(scene: Scene) -> Iterator[None]:
    usual = resource.prlimit(scene.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(scene.pid, resource.RLIMIT_NOFILE, (scene.usage().files + 1, usual[1]))
    with ExitStack() as stack:
        for _ in range(8):
            stack.enter_context(_connected(scene)).sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        time.sleep(4 * INTERVAL_SECONDS)
        yield
        resource.prlimit(scene.pid, resource.RLIMIT_NOFILE, usual)


@before("clock-jumps")
def _preload_clock(scene: Scene) -> None:
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))))
    library, offset = scene.folder / "clock.so", scene.folder / "clock-offset"
    source = Path(__file__).with_name("clock.c")
    subprocess.run(
        [compiler, "-O2", "-shared", "-fPIC", "-o", str(library), str(source), "-ldl"], check=True, timeout=60
    )
    offset.write_bytes(struct.pack("q", 0))
    scene.environment |= {"LD_PRELOAD": str(library), "FAULTY_CLOCK": str(offset)}


@of("clock-jumps")
def _clock_jumps(scene: Scene) -> Iterator[None]:
    energy = _energy(scene.snapshot())
    for seconds in (_DAY_SECONDS, -_DAY_SECONDS):
        with (scene.folder / "clock-offset").open("r+b") as file:
            file.write(struct.pack("q", seconds))
        jumped = scene.until(
            lambda s, off=seconds: abs(s.taken_at - time.time() - off) < PATIENCE_SECONDS,  # type: ignore[misc]
            "the agent sees the other time",
        )
        later = scene.until(
            lambda s, at=jumped: s.agent.collections >= at.agent.collections + 3,  # type: ignore[misc]
            "collections go on",
        )
        assert 0 < later.taken_at - jumped.taken_at < PATIENCE_SECONDS
        grown = _energy(later) - energy
        assert 0 <= grown < 2 * 500 * PATIENCE_SECONDS  # two cards, no day's worth
        energy = _energy(later)
    yield


def _energy(snapshot: Snapshot) -> float:
    of_pods = sum(usage.energy_joules or 0.0 for usage in snapshot.pod_usages)
    return of_pods + sum(balance.idle_energy_joules or 0.0 for balance in snapshot.balances)


# HTTP


def _connected(scene: Scene) -> socket.socket:
    return socket.create_connection(("127.0.0.1", scene.agent.port), PATIENCE_SECONDS)


@of("slow-loris")
def _slow_loris(scene: Scene) -> Iterator[None]:
    until = time.monotonic() + _CROWDED_SECONDS
    with ExitStack() as stack:
        crowd = set()
        for _ in range(_CROWD):
            client = stack.enter_context(_connected(scene))
            client.sendall(b"GET /metrics HTTP/1.1\r\nX-Slow: ")
            crowd.add(client)
        ended: dict[socket.socket, bytes] = {}  # and the received bytes

        def gave_way() -> bool:
            return b"" in ended.values()

        while time.monotonic() < until or not (gave_way() or len(ended) == len(crowd)):
            ended |= {client: told for client in crowd - ended.keys() if (told := _drip(client)) is not None}
            time.sleep(INTERVAL_SECONDS)
        assert gave_way(), "each was waited for until its time was up"
        yield


def _drip(client: socket.socket) -> bytes | None:
    """One more byte; the answer if there is one, none if the connection has ended without."""
    try:
        client.send(b"x", socket.MSG_DONTWAIT)
        return client.recv(100, socket.MSG_DONTWAIT)
    except BlockingIOError:
        return None
    except OSError:
        return b""


@of("slow-readers")
def _slow_readers(scene: Scene) -> Iterator[None]:
    with ExitStack() as stack:
        for _ in range(_CROWD):
            client = stack.enter_context(socket.socket())
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
            client.connect(("127.0.0.1", scene.agent.port))
            with suppress(OSError):
                client.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" * 50)
        time.sleep(_CROWDED_SECONDS)
        yield


@of("oversized-http")
def _oversized_http(scene: Scene) -> Iterator[None]:
    requests = {
        b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\n\r\n": b"414",
        b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 20_000 + b"\r\n": b"431",
        b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n": b"413",
        b"\x00\x01\x02 nonsense\r\n\r\n": b"400",
    }
    for request, status in requests.items():
        with _connected(scene) as client:
            with suppress(OSError):  # it may be refused before all of it is sent
                client.sendall(request)
            assert client.recv(100).split()[1] == status
    yield


@of("clients-reset")
def _clients_reset(scene: Scene) -> Iterator[None]:
    request = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"
    for cut in (*range(0, len(request), 4), len(request)):
        for _ in range(4):
            with _connected(scene) as client:
                client.sendall(request[:cut])
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    yield


@of("tls-garbage")
def _tls_garbage(scene: Scene) -> Iterator[None]:
    hello = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
    for rubbish in (b"", b"\0" * 5000, b"\xff" * 200, hello, hello + b"\xaa" * 600, b"SSH-2.0-x\r\n"):
        for _ in range(10):
            with _connected(scene) as client, suppress(OSError):
                client.sendall(rubbish)
                client.shutdown(socket.SHUT_WR)
                client.recv(100)
    with _connected(scene) as client:
        client.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        told = client.makefile("rb").read()
        assert told.startswith(b"HTTP/1.1 400 ")
        assert told.endswith(b"\r\n\r\nthis port requires https://\n")
    yield


# Signals


@of("sigterm")
def _sigterm(scene: Scene) -> Iterator[None]:
    scene.agent.stop()
    scene.logs.append(scene.agent.log())
    _ended_at_any_time(scene, signal.SIGTERM, (0, -signal.SIGTERM))
    _ended_while_a_tool_hangs(scene)
    yield
    scene.ended_at = time.monotonic()
    scene.start()


@of("sigkill")
def _sigkill(scene: Scene) -> Iterator[None]:
    scene.agent._process.kill()
    scene.agent._process.wait(PATIENCE_SECONDS)
    scene.logs.append(scene.agent.log())
    _ended_at_any_time(scene, signal.SIGKILL, (-signal.SIGKILL,))
    yield
    scene.ended_at = time.monotonic()
    scene.start()


def _ended_at_any_time(scene: Scene, number: signal.Signals, codes: tuple[int, ...]) -> None:
    for delay in (0.0, 0.1, 0.2, 0.3, 0.5, 0.8):
        _end(scene, lambda delay=delay: time.sleep(delay), number, codes)  # type: ignore[misc]


def _ended_while_a_tool_hangs(scene: Scene) -> None:
    """At the first that it runs, and at one of the later ones, whose end does not end the others' turn."""
    hangs = f'sh -c "sleep {_HANGS_SECONDS}; :" "$0"\n'

    def is_hung() -> bool:
        return any(f"sleep {_HANGS_SECONDS}" in line for line in scene.leftovers())

    for trouble in (hangs, f'case "$1" in pmon|--query-compute-apps*) {hangs};; esac\n'):
        put(scene.trouble, trouble)
        _end(scene, lambda: wait_until(is_hung, "the tool hangs"), signal.SIGTERM, (0,))
    scene.trouble.unlink()


def _end(scene: Scene, wait: Callable[[], None], number: signal.Signals, codes: tuple[int, ...]) -> None:
    """An agent that is started, and ended after this wait."""
    log = scene.folder / "ended.log"
    with log.open("wb") as file:
        process = subprocess.Popen(scene.agent._command, stdin=subprocess.DEVNULL, stderr=file)
    try:
        wait()
        process.send_signal(number)
        assert process.wait(_END_SECONDS) in codes, log.read_text()
    finally:
        process.kill()
        process.wait()
    scene.logs.append(log.read_text())
    wait_until(lambda: not scene.leftovers(), f"no tool runs on: {scene.leftovers()}", _END_SECONDS)
