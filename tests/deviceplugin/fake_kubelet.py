"""A kubelet as far as device plugins see one: grpcio's server for registration and pod-resources, and a
client that listens to whoever registers. It starts and forgets as the real one does."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import grpc
from tests.waiting import PATIENCE_SECONDS, wait_until

from accelscope.deviceplugin.messages import allocatable_pb2
from accelscope.deviceplugin.messages import device_plugin_pb2 as messages

SERVICE = "v1beta1.DevicePlugin"


class PluginClient:
    """Calls a plugin on its socket."""

    def __init__(self, socket: Path) -> None:
        # A connection of its own: another client's failed one would make this one wait for its turn.
        self._channel = grpc.insecure_channel(f"unix:{socket}", [("grpc.use_local_subchannel_pool", 1)])

    def __enter__(self) -> "PluginClient":
        return self

    def __exit__(self, *_: object) -> None:
        self._channel.close()

    def _unary(self, method: str, request: Any, answer: Any) -> Any:
        call = self._channel.unary_unary(
            f"/{SERVICE}/{method}",
            request_serializer=type(request).SerializeToString,
            response_deserializer=answer.FromString,
        )
        return call(request, timeout=PATIENCE_SECONDS)

    def options(self) -> Any:
        return self._unary("GetDevicePluginOptions", messages.Empty(), messages.Options)

    def listen(self) -> Any:
        call = self._channel.unary_stream(
            f"/{SERVICE}/ListAndWatch",
            request_serializer=messages.Empty.SerializeToString,
            response_deserializer=messages.DeviceList.FromString,
        )
        return call(messages.Empty())

    def allocate(self, *containers: list[str]) -> list[Any]:
        request = messages.AllocateRequest(
            container_requests=[messages.ContainerAllocateRequest(device_ids=ids) for ids in containers]
        )
        return list(self._unary("Allocate", request, messages.AllocateResponse).container_responses)

    def preferred(self, available: list[str], must: list[str], size: int) -> list[str]:
        each = messages.ContainerPreferredAllocationRequest(
            available_device_ids=available, must_include_device_ids=must, allocation_size=size
        )
        request = messages.PreferredAllocationRequest(container_requests=[each])
        answer = self._unary("GetPreferredAllocation", request, messages.PreferredAllocationResponse)
        return list(answer.container_responses[0].device_ids)

    def pre_start(self, ids: list[str]) -> Any:
        return self._unary(
            "PreStartContainer", messages.PreStartContainerRequest(device_ids=ids), messages.Empty
        )

    def raw(self, method: str, request: bytes) -> bytes:
        answer: bytes = self._channel.unary_unary(f"/{SERVICE}/{method}")(request, timeout=PATIENCE_SECONDS)
        return answer


class FakeKubelet:
    """`folder` is that of device plugins. `refusal` is what a registration is answered with, if anything."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.socket = folder / "kubelet.sock"
        self.pod_resources = folder.parent / "pod-resources.sock"
        self.refusal: str | None = None
        self.registrations: list[Any] = []
        self.lists: dict[str, dict[str, Any]] = {}  # resource -> id -> Device
        self.foreign: dict[str, list[str]] = {}  # what other plugins serve
        self.allocated: dict[str, list[str]] | None = {}  # what containers hold; None: List fails
        self._up = False
        self._lock = threading.Lock()
        self._streams: list[Any] = []  # all that are open
        self._listening: dict[str, Any] = {}  # resource -> the stream of the plugin that registered last
        self._threads: list[threading.Thread] = []
        self._servers: list[Any] = []

    def start(self) -> None:
        """Empties its folder, as the real one does."""
        for path in self.folder.iterdir():
            path.unlink(missing_ok=True)
        self._up = True
        self._serve(
            self.socket, "v1beta1.Registration", {"Register": (self._register, messages.RegisterRequest)}
        )
        with suppress(FileNotFoundError):
            self.pod_resources.unlink()
        self._serve(
            self.pod_resources,
            "v1.PodResourcesLister",
            {
                "GetAllocatableResources": (self._allocatable, messages.Empty),
                "List": (self._pods, messages.Empty),
            },
        )

    def stop(self) -> None:
        with self._lock:
            self._up = False
        for server in self._servers:
            server.stop(grace=None).wait()
        self._servers.clear()
        self.drop_streams()
        for thread in self._threads:
            thread.join(PATIENCE_SECONDS)
        self.lists.clear()

    def restart(self) -> None:
        self.stop()
        self.start()

    def drop_streams(self) -> None:
        """Forget a plugin without restarting."""
        with self._lock:
            for stream in self._streams:
                stream.cancel()

    def ids(self, resource: str) -> list[str]:
        return list(self.lists.get(resource, {}))

    def health(self, resource: str) -> dict[str, str]:
        return {device.id: device.health for device in self.lists.get(resource, {}).values()}

    def wait_for(self, resource: str, true: Callable[[dict[str, str]], object], what: str) -> None:
        wait_until(lambda: resource in self.lists and true(self.health(resource)), what)

    @contextmanager
    def client(self, resource: str) -> Iterator[PluginClient]:
        endpoint = next(r.endpoint for r in reversed(self.registrations) if r.resource_name == resource)
        with PluginClient(self.folder / endpoint) as client:
            yield client

    def _serve(self, socket: Path, service: str, methods: dict[str, tuple[Any, Any]]) -> None:
        server = grpc.server(
            ThreadPoolExecutor(4),
            [
                grpc.method_handlers_generic_handler(
                    service,
                    {
                        method: grpc.unary_unary_rpc_method_handler(
                            answer,
                            request_deserializer=request.FromString,
                            response_serializer=lambda message: message.SerializeToString(),
                        )
                        for method, (answer, request) in methods.items()
                    },
                )
            ],
        )
        server.add_insecure_port(f"unix:{socket}")
        server.start()
        self._servers.append(server)

    def _register(self, request: Any, context: Any) -> Any:
        if self.refusal is not None:
            context.abort(grpc.StatusCode.UNKNOWN, self.refusal)
        self.registrations.append(request)
        thread = threading.Thread(target=self._listen, args=(request,), daemon=True)
        self._threads.append(thread)
        thread.start()
        return messages.Empty()

    def _listen(self, request: Any) -> None:
        resource = request.resource_name
        with PluginClient(self.folder / request.endpoint) as client:
            stream = client.listen()
            with self._lock:
                self._streams.append(stream)
                self._listening[resource] = stream
                if not self._up:
                    stream.cancel()
            with suppress(grpc.RpcError):
                for answer in stream:
                    self._take(resource, stream, {device.id: device for device in answer.devices})
            with self._lock:
                self._streams.remove(stream)
                if self._listening[resource] is stream:
                    self.lists.pop(resource, None)

    def _take(self, resource: str, stream: Any, devices: dict[str, Any]) -> None:
        """What a plugin says that another has taken the place of does not count."""
        with self._lock:
            if self._listening[resource] is stream:
                self.lists[resource] = devices

    def _pods(self, _request: Any, context: Any) -> Any:
        """One pod that holds everything that is allocated."""
        allocated = self.allocated
        if allocated is None:
            context.abort(grpc.StatusCode.UNAVAILABLE, "the kubelet is busy")
            raise AssertionError("abort does not return")
        devices = [
            allocatable_pb2.AllocatableDevices(resource_name=resource, device_ids=ids)
            for resource, ids in allocated.items()
        ]
        container = allocatable_pb2.ContainerResources(name="main", devices=devices)
        pod = allocatable_pb2.PodResources(name="holder", namespace="default", containers=[container])
        return allocatable_pb2.AllocatedResources(pods=[pod])

    def _allocatable(self, _request: Any, _context: Any) -> Any:
        served = {
            resource: [device.id for device in devices.values() if device.health == "Healthy"]
            for resource, devices in list(self.lists.items())
        }
        return allocatable_pb2.AllocatableResources(
            devices=[
                allocatable_pb2.AllocatableDevices(resource_name=resource, device_ids=ids)
                for resource, ids in {**served, **self.foreign}.items()
            ]
        )
