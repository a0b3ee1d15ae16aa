"""The output of a command in a pod, as an API server sends it over WebSocket."""

import json

from aiohttp import web

from accelscope.simulate.vendor import CommandOutput

PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
_STDOUT, _STDERR, _STATUS = b"\x01", b"\x02", b"\x03"


async def serve_command(request: web.BaseRequest, output: CommandOutput) -> web.WebSocketResponse:
    """Over WebSocket, in the newest protocol that the client has, too."""
    socket = web.WebSocketResponse(protocols=PROTOCOLS)
    await socket.prepare(request)
    if output.stdout:
        await socket.send_bytes(_STDOUT + output.stdout.encode())
    if output.stderr:
        await socket.send_bytes(_STDERR + output.stderr.encode())
    await socket.send_bytes(_STATUS + _status(output.exit_code))
    await socket.close()
    return socket


def _status(exit_code: int) -> bytes:
    status: dict[str, object] = {"metadata": {}, "status": "Success"}
    if exit_code:
        status = {
            "metadata": {},
            "status": "Failure",
            "message": f"command terminated with non-zero exit code: exit status {exit_code}",
            "reason": "NonZeroExitCode",
            "details": {"causes": [{"reason": "ExitCode", "message": str(exit_code)}]},
        }
    return json.dumps(status).encode()
