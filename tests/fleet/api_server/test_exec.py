"""Commands in pods, against servers with Kubernetes' remote command protocol and against others."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st
from tests.fleet.api_server.served import Handler, served, session_at, status
from tests.fleet.loop import run

from accelscope.fleet.api_server.session import ExecOutput, ExecResult, Session
from accelscope.fleet.clusters import AddressAccess
from accelscope.kube.endpoint import KubeError, Reason

COMMAND = ["nvidia-smi", "--query-gpu=index,name", "--format=csv", "a&b c"]
SUCCESS = json.dumps({"kind": "Status", "status": "Success"}).encode()

Play = Callable[[web.WebSocketResponse], Awaitable[None]]


def failure(reason: str, message: str, causes: list[dict[str, str]] | None = None, code: int = 500) -> bytes:
    document: dict[str, object] = {
        "kind": "Status",
        "status": "Failure",
        "reason": reason,
        "message": message,
        "code": code,
    }
    if causes is not None:
        document["details"] = {"causes": causes}
    return json.dumps(document).encode()


def speaking(play: Play, *protocols: str) -> Handler:
    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        connection = web.WebSocketResponse(protocols=protocols or ("v5.channel.k8s.io",))
        await connection.prepare(request)
        await play(connection)
        return connection

    return handler


def frames(*sent: tuple[int, bytes]) -> Play:
    async def play(connection: web.WebSocketResponse) -> None:
        for channel in (0, 1, 2, 3):
            await connection.send_bytes(bytes((channel,)))  # API servers begin with these
        for channel, content in sent:
            await connection.send_bytes(bytes((channel,)) + content)
        await connection.close()

    return play


async def execute(session: Session, timeout_seconds: float = 5.0, limit_bytes: int = 10_000) -> ExecResult:
    return await session.exec(
        "gpu-operator",
        "driver-x",
        "nvidia-driver-ctr",
        COMMAND,
        timeout_seconds=timeout_seconds,
        limit_bytes=limit_bytes,
    )


def result_of(handler: Handler, **options: float) -> ExecResult:
    async def go() -> ExecResult:
        async with served(handler) as server, session_at(server.url) as session:
            return await execute(session, **options)  # type: ignore[arg-type]

    return run(go())


def error_of(handler: Handler, **options: float) -> KubeError:
    with pytest.raises(KubeError) as raised:
        result_of(handler, **options)
    return raised.value


@pytest.mark.parametrize("protocol", ["v5.channel.k8s.io", "v4.channel.k8s.io"])
async def test_a_command_returns_its_whole_output(protocol: str, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("t0ken")
    play = frames((1, b"0, "), (2, b"warning"), (1, b"A100\n"), (255, b"\x01"), (3, SUCCESS))
    async with served(speaking(play, protocol)) as server:
        access = AddressAccess(url=server.url, token_file=str(token))
        async with session_at(access) as session:
            result = await execute(session)
        assert result == ExecResult(b"0, A100\n", b"warning", 0)
        (requests,) = server.requests
        assert requests.path == "/api/v1/namespaces/gpu-operator/pods/driver-x/exec"
        assert requests.query.getall("command") == COMMAND
        assert requests.query["container"] == "nvidia-driver-ctr"
        assert (requests.query["stdout"], requests.query["stderr"]) == ("true", "true")
        assert "stdin" not in requests.query
        assert requests.headers["Authorization"] == "Bearer t0ken"
        assert requests.headers["User-Agent"].startswith("accelscope-fleet/")
        offered = requests.headers["Sec-WebSocket-Protocol"].replace(" ", "")
        assert offered == "v5.channel.k8s.io,v4.channel.k8s.io"


def test_a_failing_command_returns_its_exit_code() -> None:
    status_of_it = failure("NonZeroExitCode", "exit", [{"reason": "ExitCode", "message": "9"}])
    play = frames((2, b"no devices"), (3, status_of_it))
    assert result_of(speaking(play)) == ExecResult(b"", b"no devices", 9)


# The error text of containerd: the cause is at the end of a long line.
NO_SUCH_TOOL = (
    "Internal error occurred: Internal error occurred: error executing command in container: failed to exec "
    f'in container: failed to start exec "{"0123456789abcdef" * 4}": OCI runtime exec failed: exec failed: '
    'unable to start container process: exec: "nvidia-smi": executable file not found in $PATH: unknown'
)


@pytest.mark.parametrize(
    ("play", "reason", "expected"),
    [
        (
            frames((3, failure("InternalError", "exec: nvidia-smi: not found"))),
            Reason.SERVER_ERROR,
            "not found",
        ),
        (frames((3, failure("InternalError", NO_SUCH_TOOL))), Reason.NOT_FOUND, "executable file not found"),
        (
            frames((3, failure("NonZeroExitCode", "x", [{"reason": "ExitCode", "message": "?"}]))),
            Reason.SERVER_ERROR,
            "x",
        ),
        (frames((3, b"oops")), Reason.BAD_ANSWER, "not JSON"),
        (frames((3, b"[]")), Reason.BAD_ANSWER, "not JSON"),
        (frames((1, b"half")), Reason.UNREACHABLE, "before the command exited"),
        (frames((1, bytes(20_000)), (3, SUCCESS)), Reason.TOO_LARGE, "more than 10000 bytes"),
        (frames((3, bytes(100_000))), Reason.BAD_ANSWER, "too long"),
    ],
)
def test_the_error_explains_why_there_is_no_result(play: Play, reason: Reason, expected: str) -> None:
    error = error_of(speaking(play))
    assert error.reason is reason
    assert expected in error.text


def test_a_hanging_command_times_out() -> None:
    async def play(connection: web.WebSocketResponse) -> None:
        await asyncio.sleep(30)

    error = error_of(speaking(play), timeout_seconds=0.3)
    assert error.reason is Reason.TIMEOUT
    assert "nvidia-smi in gpu-operator/driver-x" in error.text


def test_endless_output_is_rejected() -> None:
    async def play(connection: web.WebSocketResponse) -> None:
        while not connection.closed:
            await connection.send_bytes(b"\x01" + bytes(4096))

    assert error_of(speaking(play)).reason is Reason.TOO_LARGE


def test_text_messages_are_rejected() -> None:
    async def play(connection: web.WebSocketResponse) -> None:
        await connection.send_str("hello")
        await connection.receive()

    assert error_of(speaking(play)).reason is Reason.BAD_ANSWER


def test_an_empty_frame_is_rejected() -> None:
    async def play(connection: web.WebSocketResponse) -> None:
        await connection.send_bytes(b"")
        await connection.receive()

    assert error_of(speaking(play)).reason is Reason.BAD_ANSWER


def test_a_huge_frame_is_rejected() -> None:
    async def play(connection: web.WebSocketResponse) -> None:
        await connection.send_bytes(b"\x01" + bytes(3 << 20))
        await connection.receive()

    assert error_of(speaking(play)).reason in (Reason.BAD_ANSWER, Reason.TOO_LARGE)


def test_a_server_with_another_protocol_is_rejected() -> None:
    assert "v4.channel.k8s.io" in error_of(speaking(frames((3, SUCCESS)), "v1.channel.k8s.io")).text


def test_a_closed_connection_is_reported() -> None:
    async def play(connection: web.WebSocketResponse) -> None:
        await connection.send_bytes(b"\x01half")
        transport = connection._req.transport  # type: ignore[union-attr]
        assert transport is not None
        transport.abort()

    assert error_of(speaking(play)).reason is Reason.UNREACHABLE


@pytest.mark.parametrize(
    ("code", "message", "reason"),
    [
        (403, 'pods "driver-x" is forbidden: User "u" cannot get pods/exec', Reason.FORBIDDEN),
        (404, 'pods "driver-x" not found', Reason.NOT_FOUND),
        (400, "container x is not valid for pod driver-x", Reason.BAD_ANSWER),
        (500, "unable to upgrade connection: container not found", Reason.SERVER_ERROR),
    ],
)
def test_the_error_contains_the_message_of_the_server(code: int, message: str, reason: Reason) -> None:
    async def handler(_: web.BaseRequest) -> web.StreamResponse:
        return status(code, message)

    error = error_of(handler)
    assert (error.reason, error.status) == (reason, code)
    assert message in error.text


def test_an_endless_error_body_is_truncated() -> None:
    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse(status=403)
        await response.prepare(request)
        while True:
            await response.write(b"no " * 10_000)

    assert error_of(handler).reason is Reason.FORBIDDEN


def test_a_server_with_only_spdy_is_reported() -> None:
    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse(status=101, headers={"Connection": "Upgrade", "Upgrade": "SPDY/3.1"})
        await response.prepare(request)
        return response

    error = error_of(handler)
    assert error.reason is Reason.BAD_ANSWER
    assert "SPDY/3.1" in error.text
    assert "proxies" in error.text


async def test_an_unreachable_server_is_reported() -> None:
    async with session_at("https://127.0.0.1:1") as session:
        with pytest.raises(KubeError, match="cannot connect") as raised:
            await execute(session)
        assert raised.value.reason is Reason.UNREACHABLE


def test_a_plain_response_is_rejected() -> None:
    async def handler(_: web.BaseRequest) -> web.StreamResponse:
        return web.Response(text="fine")

    assert "WebSocket expected" in error_of(handler).text


async def test_a_rotated_token_is_used(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("old")

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        if request.headers["Authorization"] == "Bearer new":
            return await speaking(frames((3, SUCCESS)))(request)
        token.write_text("new")
        return status(401, "Unauthorized")

    async with (
        served(handler) as server,
        session_at(AddressAccess(url=server.url, token_file=str(token))) as session,
    ):
        assert (await execute(session)).exit_code == 0


async def test_commands_leave_no_connections_open() -> None:
    handler = speaking(frames((1, b"x"), (3, SUCCESS)))
    async with served(handler) as server, session_at(server.url) as session:
        results = await asyncio.gather(*(execute(session) for _ in range(30)))
        assert {result.stdout for result in results} == {b"x"}


@given(st.lists(st.binary(max_size=40), max_size=8))
def test_any_frames_are_a_result_or_an_error(sent: list[bytes]) -> None:
    output = ExecOutput(64)
    try:
        for frame in sent:
            output.feed(frame)
        output.result()
    except KubeError:
        pass


def test_channels_are_separated() -> None:
    output = ExecOutput(100)
    for channel, content in ((1, b"a"), (2, b"b"), (9, b"c"), (1, b"d"), (3, SUCCESS[:5]), (3, SUCCESS[5:])):
        output.feed(bytes((channel,)) + content)
    assert output.result() == ExecResult(b"ad", b"b", 0)
