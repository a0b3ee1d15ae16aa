"""Whether the agent can have its port, and who has it otherwise."""

import errno
import re
import socket
from collections.abc import Iterator
from dataclasses import dataclass

from accelscope.doctor.check import Check
from accelscope.doctor.finding import Finding, error, ok
from accelscope.doctor.subject import Subject
from accelscope.kube.client import Client
from accelscope.kube.endpoint import Endpoint, EndpointError
from accelscope.kube.errors import KubeError
from accelscope.kube.message import Head
from accelscope.serve import ServeError, Server

_ANSWER_SECONDS = 1.0
_ANSWER_BYTES = 256 * 1024
_EVERYWHERE = {"": "localhost", "*": "localhost", "::": "localhost", "0.0.0.0": "127.0.0.1"}  # noqa: S104
_OUR_PAGE = re.compile(r"<h1>AccelScope agent ?([^<]*)</h1>")
# What the agent answers those who may not see its page.
_OUR_REFUSALS = ('realm="accelscope"', "a client certificate is needed here; the probes work without")


@dataclass(frozen=True, slots=True)
class Tenant:
    """Who listens on the port."""

    name: str
    ours: bool = False


def port(subject: Subject) -> Iterator[Finding]:
    settings = subject.settings
    number = settings.exporter_port
    if number == 0:
        yield ok("port", "any free one, told in the log when the agent starts")
        return
    host = _EVERYWHERE.get(settings.exporter_host, settings.exporter_host)
    tenant = _tenant(host, number)
    if tenant is None:
        yield _listening(settings.exporter_host, number)
    elif tenant.ours:
        yield ok("port", f"{number} is served by {tenant.name}", port=number, tenant=tenant.name)
    else:
        yield _taken(number, tenant.name)


def _listening(host: str, number: int) -> Finding:
    """Try as the agent would."""
    server = Server({}, host=host, port=number)
    try:
        server.start()
    except ServeError as problem:
        cause = problem.__cause__
        code = cause.errno if isinstance(cause, OSError) else None
        if code == errno.EADDRINUSE:
            return _taken(number, "a program that does not answer here")
        if code in (errno.EACCES, errno.EPERM):
            advice = (
                "Ports below 1024 need the capability NET_BIND_SERVICE: choose another with --exporter-port."
            )
        else:
            advice = "--exporter-host must be an address of this machine; leave it out to listen on all."
        return error("port", str(problem), advice, port=number)
    server.stop()
    return ok("port", f"{number} is free", port=number)


def _taken(number: int, tenant: str) -> Finding:
    advice = f"See who it is with `ss -ltnp 'sport = :{number}'`; end it, or set another --exporter-port."
    if tenant == "dcgm-exporter":
        advice = (
            "Both have 9400 by default: give AccelScope another port (--exporter-port 9410, and the same "
            "where Prometheus scrapes it), or remove dcgm-exporter once nothing uses its names any more."
        )
    return error("port", f"{number} is taken by {tenant}", advice, port=number, tenant=tenant)


def _tenant(host: str, number: int) -> Tenant | None:
    """None: nobody listens there. No token is sent: whoever listens may not be who it should be."""
    try:
        with socket.create_connection((host, number), _ANSWER_SECONDS):
            pass
    except OSError:
        return None
    speaks_http = False
    for encrypted in (False, True):  # a server with TLS may answer plain HTTP too, with a refusal
        start = _answer(host, number, "/", encrypted=encrypted) or ""
        page = _OUR_PAGE.search(start)
        if page is not None:
            return Tenant(f"an AccelScope agent {page[1]}".rstrip(), ours=True)
        if any(refusal in start for refusal in _OUR_REFUSALS):
            return Tenant("an AccelScope agent, guarded", ours=True)
        metrics = _answer(host, number, "/metrics", encrypted=encrypted)
        if "DCGM_FI_" in (metrics or ""):
            return Tenant("dcgm-exporter")
        speaks_http |= metrics is not None
    return Tenant("another HTTP server" if speaks_http else "another program")


def _answer(host: str, number: int, path: str, *, encrypted: bool) -> str | None:
    """Header values and the beginning of the body; None if what listens does not speak HTTP."""
    authority = f"[{host}]:{number}" if ":" in host else f"{host}:{number}"
    url = f"{'https' if encrypted else 'http'}://{authority}"
    received = bytearray()
    head: Head | None = None
    try:
        # Nothing secret is sent, so the server's certificate does not matter.
        endpoint = Endpoint(url, skip_tls_verify=True, allow_http=True)
        client = Client(endpoint, timeout_seconds=_ANSWER_SECONDS, user_agent="accelscope-doctor")
        stream = client.stream(path, idle_seconds=_ANSWER_SECONDS, accept="*/*", any_status=True)
        with stream:
            head = stream.head
            for piece in stream:
                received += piece
                if len(received) >= _ANSWER_BYTES:
                    break
    except (KubeError, EndpointError):
        pass  # what came until then is used
    return None if head is None else "\n".join((*head.headers.values(), received.decode("latin-1")))


def _seconds(_: object) -> float:
    return 15.0  # four questions, each with a time of its own


PORT_CHECKS = (
    Check("port", port, _seconds, "What listens there does not answer: see `ss -ltnp` for who it is."),
)
