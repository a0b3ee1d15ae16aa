"""Without file descriptors, threads or disk space, each part reports it, continues and leaves nothing."""

import errno
import os
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest
from tests.costless import costless
from tests.no_threads import no_threads
from tests.waiting import wait_until

from accelscope.agent.runner import Deadlines, Runner
from accelscope.attribution.device_ids import DeviceIndex
from accelscope.attribution.options import AttributionOptions
from accelscope.attribution.pod_resources import (
    ClaimDevice,
    PodResources,
    PodResourcesClient,
    PodResourcesPoller,
)
from accelscope.attribution.processes import ProcessTable
from accelscope.attribution.watches import ClaimWatch
from accelscope.deviceplugin.watch import DriverCalls
from accelscope.kube.endpoint import Endpoint
from accelscope.kube.unary import UnaryError, UnaryReason, unary_call
from accelscope.model import Reading, Vendor
from accelscope.simulate import SimulatedNode
from accelscope.sinks.labels import write_file
from accelscope.sinks.sink import SinkError
from accelscope.vendors.common.contract import Paths, ReaderError, ReaderOptions, Survey
from accelscope.vendors.common.tool import PeriodicRunner
from accelscope.vendors.nvidia.reader import NvmlSource


def refuse(*_: object, **__: object) -> NoReturn:
    raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


def test_a_kubelet_call_without_a_file_descriptor_is_reported_as_exhausted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(socket, "socket", refuse)
    with pytest.raises(UnaryError, match="Too many open files") as raised:
        unary_call("/none.sock", "/v1.PodResourcesLister/List", timeout_seconds=1)
    assert raised.value.reason is UnaryReason.REFUSED


def test_the_kubelet_poller_continues_after_an_unexpected_error(caplog: pytest.LogCaptureFixture) -> None:
    faults: Iterator[Exception] = iter([ValueError("unforeseen"), ValueError("unforeseen")])

    class Faulty(PodResourcesClient):
        def list(self) -> tuple[PodResources, ...]:
            for fault in faults:
                raise fault
            return (PodResources("ns", "pod", ()),)

    holdings = PodResourcesPoller(Faulty("/none.sock", 1.0), time.time, time.monotonic, in_cluster=True)
    for _ in range(2):
        holdings.begin()
        assert holdings.latest(30.0) == ()
        assert (holdings.state().up, holdings.state().reason) == (False, "internal")
    assert sum("unexpected error" in record.getMessage() for record in caplog.records) == 1
    holdings.begin()
    assert holdings.latest(30.0) == (PodResources("ns", "pod", ()),)
    assert holdings.state().up


def test_the_kubelet_is_called_once_a_thread_is_available() -> None:
    class Answering(PodResourcesClient):
        def list(self) -> tuple[PodResources, ...]:
            return (PodResources("ns", "pod", ()),)

    holdings = PodResourcesPoller(Answering("/none.sock", 1.0), time.time, time.monotonic, in_cluster=True)
    with no_threads():
        holdings.begin()
        assert holdings.latest(0.0) == ()
    assert (holdings.state().up, holdings.state().reason) == (False, "exhausted")
    holdings.begin()
    assert holdings.latest(30.0) == (PodResources("ns", "pod", ()),)
    assert holdings.state().up


def test_claims_are_watched_once_a_thread_is_available() -> None:
    claims = ClaimWatch(AttributionOptions(node="n1", api_server=Endpoint("http://127.0.0.1:1")))
    claimed = ClaimDevice("gpu.nvidia.com", "n1", "gpu-0", None, ())
    with no_threads():
        assert claims.resolve(claimed, DeviceIndex([])).device is None
    assert (claims.is_needed, claims.state()) == (True, None), "the next collection tries again"
    claims.resolve(claimed, DeviceIndex([]))
    assert claims.state() is not None
    claims.stop()


def test_a_tool_is_run_once_a_thread_is_available() -> None:
    tool = PeriodicRunner(lambda: 1, 60.0, name="tool")
    with no_threads():
        assert tool.latest().failures == ("exhausted",)
    wait_until(lambda: tool.latest().value == 1)
    tool.close()


def test_the_plugin_calls_a_driver_again_after_a_lack_of_threads() -> None:
    calls = DriverCalls()
    with no_threads(), pytest.raises(ReaderError, match="no thread") as raised:
        calls.call("k1", lambda: 1, 30.0)
    assert (raised.value.reason, calls.abandoned) == ("exhausted", frozenset())
    assert calls.call("k1", lambda: 1, 30.0) == 1
    calls.close()


def test_a_reader_without_a_file_descriptor_is_counted_as_exhausted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Exhausted:
        vendor = Vendor("nvidia")

        def survey(self) -> Survey:
            refuse()

        def read(self, key: str) -> Reading:
            refuse()

        def close(self) -> None: ...

    changed = threading.Condition()
    runner = Runner(Exhausted(), deadlines=Deadlines(30, 30, 60), changed=changed)
    with changed:
        runner.begin()
    wait_until(lambda: not runner.busy)
    with changed:
        assert [(c.reason, c.count) for c in runner.result().state.errors] == [("exhausted", 1)]
        runner.stop()
    assert not [record for record in caplog.records if record.exc_info]


def test_a_driver_that_cannot_be_checked_has_not_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the library is let go of, and there is no descriptor to load it again with."""
    node = SimulatedNode(costless("nvidia-mixed"), tmp_path / "node")
    node.build()
    settings = node.agent_settings()
    source = NvmlSource(ReaderOptions(Paths(proc=Path(settings["proc_root"])), settings))
    before = source.survey()
    with monkeypatch.context() as patch:
        patch.setattr(Path, "iterdir", refuse)
        patch.setattr("accelscope.vendors.nvidia.reader.load_binding", refuse)
        assert source.survey() == before
    source.close()


def test_processes_that_cannot_be_read_have_not_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = ProcessTable(Path("/proc"), Path("/etc/passwd"))
    [known] = table.look_up([os.getpid()]).values()
    assert table.obstacle is None
    open_file = os.open

    def only_folders(path: str, flags: int, *mode: int, dir_fd: int | None = None) -> int:
        if dir_fd is not None:
            refuse()
        return open_file(path, flags, *mode)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", only_folders)
        assert table.look_up([os.getpid()]) == {os.getpid(): known}
    assert table.obstacle == "Too many open files"
    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refuse)
        assert table.look_up([os.getpid()]) == {}
    assert table.look_up([os.getpid()]) == {os.getpid(): known}  # at once, not after a while
    assert table.obstacle is None


def test_a_failed_write_of_a_feature_file_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> NoReturn:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "chmod", full)
    with pytest.raises(SinkError) as raised:
        write_file(tmp_path, {"accelscope.io/nvidia.count": "2"})
    assert raised.value.reason == "no_space"
    assert list(tmp_path.iterdir()) == []
