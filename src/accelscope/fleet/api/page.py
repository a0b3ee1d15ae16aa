"""The web page over HTTP. It holds no data, so that it is open; what it shows it asks the API for.

The page is one document for all of its places: `/nodes/berlin/alpha` exists only in it. A path that nobody
else answers is therefore the page's for whoever asks for a document, and stays a problem for programs.
"""

from collections.abc import Mapping

from accelscope.fleet.api.answering import NO_FRAMES, SECURITY_HEADERS, confirms
from accelscope.fleet.api.routes import ROUTES
from accelscope.fleet.api.sending import Body, Ready, accepted, takes_gzip
from accelscope.fleet.page import BuiltPage, PageFile

# Style attributes that a script sets are no inline style to a browser: charts may do that.
PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    f"font-src 'self'; {NO_FRAMES}"
)
_HEADERS = {**SECURITY_HEADERS, "Content-Security-Policy": PAGE_POLICY, "Vary": "Accept, Accept-Encoding"}
_A_YEAR = "public, max-age=31536000, immutable"
_ASK_AGAIN = "no-cache"
_NOT_A_PLACE = {"assets"} | {route.path.split("/")[1] for route in ROUTES}
_NOT_BUILT = b"""\
<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>AccelScope: no page</title></head>
<body>
<h1>The page is not built</h1>
<p>This installation of AccelScope came without its web page. In a clone, <code>make page</code> builds it and
<code>make wheel</code> packs it; then start the fleet anew.</p>
<p>The API is there: <a href="/docs">/docs</a> describes it.</p>
</body>
</html>
"""


def page_answer(page: BuiltPage, path: str, headers: Mapping[str, str]) -> Ready | None:
    """None: the path is none of the page's."""
    found = page.file(path)
    if found is None:
        if path != "/" and not _is_place(path, headers.get("Accept", "")):
            return None
        found = page.index
    if found is None:
        unbuilt = {**_HEADERS, "Content-Type": "text/html; charset=utf-8", "Cache-Control": "no-store"}
        return Ready(404, unbuilt, Body((_NOT_BUILT,)))
    return _sent(found, headers)


def _sent(file: PageFile, asked: Mapping[str, str]) -> Ready:
    headers = {**_HEADERS, "ETag": file.etag, "Cache-Control": _A_YEAR if file.lasts else _ASK_AGAIN}
    if confirms(asked.get("If-None-Match"), file.etag):
        return Ready(304, headers)
    headers["Content-Type"] = file.media_type
    if takes_gzip(asked.get("Accept-Encoding", "")) and file.compressed is not None:
        headers["Content-Encoding"] = "gzip"
        return Ready(200, headers, Body((file.compressed,), "gzip"))
    return Ready(200, headers, Body((file.content,)))


def _is_place(path: str, accept: str) -> bool:
    """Whether somebody went there with a browser. Never below what others answer for: a mistyped path of the
    API must not look like an answer."""
    root = path.split("/")[1]  # empty in //elsewhere.example, which scripts would take for another host
    # Browsers name HTML. Programs that take anything do not mean it.
    return root not in _NOT_A_PLACE and root != "" and accepted(accept).get("text/html", False)
