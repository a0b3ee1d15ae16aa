"""A device plugin of the tests: it offers ids and gives them out, all that attribution needs of one."""

import importlib.util
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
from grpc_tools import protoc

_PROTO = Path(__file__).with_name("deviceplugin.proto")


def messages(folder: Path) -> Any:
    """The API's messages, compiled anew."""
    arguments = ["protoc", f"-I{_PROTO.parent}", f"--python_out={folder}", str(_PROTO)]
    assert protoc.main(arguments) == 0
    spec = importlib.util.spec_from_file_location("deviceplugin_pb2", folder / "deviceplugin_pb2.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@contextmanager
def offering(plugins_folder: Path, scratch: Path, resource: str, ids: Sequence[str]) -> Iterator[None]:
    """Registers with the kubelet whose folder this is, until it is left."""
    api = messages(scratch)
    over = threading.Event()

    def listed(_: bytes, __: grpc.ServicerContext) -> Iterator[bytes]:
        devices = [api.Device(ID=each, health="Healthy") for each in ids]
        yield api.ListAndWatchResponse(devices=devices).SerializeToString()
        over.wait()

    def allocated(request: bytes, _: grpc.ServicerContext) -> bytes:
        asked = api.AllocateRequest.FromString(request).container_requests
        answers = [
            api.ContainerAllocateResponse(envs={"OFFERED": ",".join(each.devices_ids)}) for each in asked
        ]
        return bytes(api.AllocateResponse(container_responses=answers).SerializeToString())

    handlers = {
        "GetDevicePluginOptions": grpc.unary_unary_rpc_method_handler(
            lambda *_: api.DevicePluginOptions().SerializeToString()
        ),
        "ListAndWatch": grpc.unary_stream_rpc_method_handler(listed),
        "Allocate": grpc.unary_unary_rpc_method_handler(allocated),
    }
    endpoint = f"{resource.replace('/', '-')}.sock"
    server = grpc.server(
        ThreadPoolExecutor(max_workers=4),
        [grpc.method_handlers_generic_handler("v1beta1.DevicePlugin", handlers)],
    )
    server.add_insecure_port(f"unix:{plugins_folder / endpoint}")
    server.start()
    try:
        with grpc.insecure_channel(f"unix:{plugins_folder / 'kubelet.sock'}") as channel:
            register = channel.unary_unary("/v1beta1.Registration/Register")
            wanted = api.RegisterRequest(version="v1beta1", endpoint=endpoint, resource_name=resource)
            register(wanted.SerializeToString(), timeout=30, wait_for_ready=True)
        yield
    finally:
        over.set()
        server.stop(grace=None).wait()
        (plugins_folder / endpoint).unlink(missing_ok=True)
