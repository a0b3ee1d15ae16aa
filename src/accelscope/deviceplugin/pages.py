"""What the plugin's HTTP server answers. The page is made when it is asked for: it is small."""

from collections.abc import Callable

from accelscope.deviceplugin.metrics import PluginView, render
from accelscope.metrics.exposition import OPENMETRICS_TYPE, TEXT_TYPE
from accelscope.serve import Handler, Request, Response, Route, accepts

Probe = Callable[[], str | None]  # what is wrong, in one line


class Pages:
    def __init__(self, view: Callable[[], PluginView], *, alive: Probe, ready: Probe) -> None:
        self._view = view
        self._alive = alive
        self._ready = ready

    def routes(self) -> dict[str, Handler | Route]:
        return {
            "/metrics": self._metrics,
            "/": self._index,
            "/healthz": Route(lambda _: _probe(self._alive()), guarded=False),
            "/readyz": Route(lambda _: _probe(self._ready()), guarded=False),
        }

    def _metrics(self, request: Request) -> Response:
        page = render(self._view())
        kind = accepts(request.headers.get("accept"), (TEXT_TYPE, OPENMETRICS_TYPE)) or TEXT_TYPE
        body = page.openmetrics if kind == OPENMETRICS_TYPE else page.text
        return Response({"identity": body}, content_type=kind)

    def _index(self, _: Request) -> Response:
        return Response.text(200, "AccelScope device plugin: /metrics, /healthz, /readyz")


def _probe(trouble: str | None) -> Response:
    return Response.text(200, "ok") if trouble is None else Response.text(503, trouble)
