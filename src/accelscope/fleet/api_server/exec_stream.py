"""A command in a container: the frames of Kubernetes' remote command protocol, v4 and v5, over WebSocket."""

import json

import aiohttp

from accelscope.fleet.api_server.answer import ExecResult
from accelscope.kube.errors import KubeError, Reason
from accelscope.kube.refusal import reason_of

# They differ in how the end of stdin is told, of which there is none here.
PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
_STDOUT, _STDERR, _STATUS = 1, 2, 3
_STATUS_BYTES = 64 << 10
# Container runtimes tell the cause last, behind the words of all who passed it on.
_CAUSE_CHARACTERS = 150
_NO_SUCH_PROGRAM = ("executable file not found", "no such file or directory")


class ExecOutput:
    """What a command wrote, as long as that is not too much. Raises KubeError."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._channels = {_STDOUT: bytearray(), _STDERR: bytearray(), _STATUS: bytearray()}

    def feed(self, frame: bytes) -> None:
        """One message: the channel's number, then what was written to it."""
        if not frame:
            raise KubeError(Reason.BAD_ANSWER, "the command's answer has a frame without a channel")
        channel = self._channels.get(frame[0])
        if channel is None:
            return  # 0 is stdin's and 255 says that a channel is closed: nothing to take
        channel += memoryview(frame)[1:]
        if len(self._channels[_STATUS]) > _STATUS_BYTES:
            raise KubeError(Reason.BAD_ANSWER, "the command's status is far too long")
        if len(self._channels[_STDOUT]) + len(self._channels[_STDERR]) > self._limit:
            raise KubeError(Reason.TOO_LARGE, f"the command wrote more than {self._limit} bytes")

    def result(self) -> ExecResult:
        """Once the connection has ended."""
        status = bytes(self._channels[_STATUS])
        if not status:
            raise KubeError(Reason.UNREACHABLE, "the connection ended before the command did")
        return ExecResult(bytes(self._channels[_STDOUT]), bytes(self._channels[_STDERR]), _exit_code(status))


async def run_to_end(connection: aiohttp.ClientWebSocketResponse, output: ExecOutput) -> ExecResult:
    """Raises KubeError."""
    if connection.protocol not in PROTOCOLS:
        raise KubeError(
            Reason.BAD_ANSWER, "the server speaks neither v5.channel.k8s.io nor v4.channel.k8s.io"
        )
    async for message in connection:
        if message.type is aiohttp.WSMsgType.BINARY:
            output.feed(message.data)
        elif message.type is aiohttp.WSMsgType.TEXT:
            raise KubeError(Reason.BAD_ANSWER, "the command's answer is text where frames are due")
        elif message.type is aiohttp.WSMsgType.ERROR:
            raise KubeError(
                Reason.BAD_ANSWER, "the command's answer is no WebSocket stream, or one frame is too large"
            )
    return output.result()


def _exit_code(content: bytes) -> int:
    """Of a v1.Status. What is no exit code is why the command could not be run at all."""
    try:
        status = json.loads(content)
    except (ValueError, RecursionError):
        status = None
    if not isinstance(status, dict):
        raise KubeError(Reason.BAD_ANSWER, "the command's status is not JSON")
    if status.get("status") == "Success":
        return 0
    details = status.get("details")
    causes = details.get("causes") if isinstance(details, dict) else None
    if status.get("reason") == "NonZeroExitCode":
        for cause in causes if isinstance(causes, list) else ():
            code = (
                cause.get("message")
                if isinstance(cause, dict) and cause.get("reason") == "ExitCode"
                else None
            )
            if isinstance(code, str) and code.isascii() and code.isdigit() and len(code) < 10:
                return int(code)
    code, message = status.get("code"), status.get("message")
    told = message if isinstance(message, str) else "no reason told"
    if any(words in told for words in _NO_SUCH_PROGRAM):
        reason = Reason.NOT_FOUND
    else:
        reason = reason_of(code) if isinstance(code, int) else Reason.SERVER_ERROR
    cause = told if len(told) <= _CAUSE_CHARACTERS else f"… {told[-_CAUSE_CHARACTERS:]}"
    raise KubeError(reason, f"the command was not run: {cause}")
