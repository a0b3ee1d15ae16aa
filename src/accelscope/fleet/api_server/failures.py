"""What aiohttp raises, in our words: one line that says what is wrong, and never a secret."""

import ssl
from collections.abc import Callable

import aiohttp

from accelscope.fleet.api_server.route import Route
from accelscope.kube.errors import KubeError, Reason
from accelscope.kube.tls import why

# What a request may end with beside an answer. ValueError: a URL or header that cannot be sent.
FAILURES = (aiohttp.ClientError, OSError, ValueError)


def explained(error: Exception, route: Route, url: str) -> KubeError:
    """`url` is that of the server."""
    if isinstance(error, KubeError):
        return error
    reason, told = next((reason, told) for kind, reason, told in _KINDS if isinstance(error, kind))
    return KubeError(reason, f"{url}: {told(error, route)}")


def _by(route: Route) -> str:
    return "" if route.proxy is None else f" by way of the proxy {shown_proxy(route.proxy)}"


def _not_trusted(error: Exception, route: Route) -> str:
    cause = getattr(error, "certificate_error", error)
    told = getattr(cause, "verify_message", None) or "it cannot be verified"
    by = route.authority or "the system's authorities"
    return f"the server's certificate is not trusted: {told} (CA: {by})"


def _tls(error: Exception, _: Route) -> str:
    cause = getattr(error, "os_error", error)
    return why(cause) if isinstance(cause, ssl.SSLError) else "the TLS handshake failed"


def _not_connected(error: Exception, route: Route) -> str:
    cause = getattr(error, "os_error", error)
    return f"cannot connect{_by(route)}: {getattr(cause, 'strerror', None) or type(cause).__name__}"


# The first that fits counts. The texts of others than these repeat what was to be sent.
_KINDS: tuple[tuple[type[Exception], Reason, Callable[[Exception, Route], str]], ...] = (
    (TimeoutError, Reason.TIMEOUT, lambda _, route: f"no answer in time{_by(route)}"),
    (aiohttp.ClientConnectorCertificateError, Reason.TLS, _not_trusted),
    (ssl.SSLCertVerificationError, Reason.TLS, _not_trusted),
    (
        aiohttp.ClientConnectorDNSError,
        Reason.UNREACHABLE,
        lambda _, route: f"the host cannot be found{_by(route)}",
    ),
    (
        aiohttp.ClientHttpProxyError,
        Reason.UNREACHABLE,
        lambda error, route: f"refused with {getattr(error, 'status', 'an error')}{_by(route)}",
    ),
    (aiohttp.ClientSSLError, Reason.TLS, _tls),
    (ssl.SSLError, Reason.TLS, _tls),
    (aiohttp.ClientConnectorError, Reason.UNREACHABLE, _not_connected),
    (aiohttp.ClientResponseError, Reason.BAD_ANSWER, lambda *_: "what came is no HTTP answer"),
    (aiohttp.ClientPayloadError, Reason.UNREACHABLE, lambda *_: "the answer ends in the middle"),
    (aiohttp.ClientConnectionError, Reason.UNREACHABLE, lambda *_: "the connection ended without an answer"),
    (OSError, Reason.UNREACHABLE, _not_connected),
    (Exception, Reason.BAD_ANSWER, lambda error, _: f"the request failed ({type(error).__name__})"),
)


def shown_proxy(proxy: str) -> str:
    """Without user and password."""
    scheme, _, rest = proxy.partition("://")
    return f"{scheme}://{rest.partition('/')[0].rpartition('@')[2]}"


def masked(error: KubeError, secrets: tuple[str, ...]) -> KubeError:
    """The same, where a server repeated what we showed it."""
    text = error.text
    for secret in secrets:
        text = text.replace(secret, "[token]")
    if text == error.text:
        return error
    return KubeError(error.reason, text, retry_after=error.retry_after, status=error.status)
