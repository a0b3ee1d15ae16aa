"""The page over HTTP: paths, access, caching and content policy."""

import gzip
from collections.abc import Mapping
from pathlib import Path

import aiohttp
import pytest
from tests.fleet.api.serving import serving, tokens_file
from tests.fleet.loop import run
from yarl import URL

from accelscope.fleet.api.access import AccessControl, TokensFile
from accelscope.fleet.api.app import TRAFFIC
from accelscope.fleet.api.problem import ApiLimits
from accelscope.fleet.page import BuiltPage
from accelscope.rate_limit import Rate

INDEX = b"<!doctype html><title>page</title>" + b"<!-- long enough to be worth compressing -->" * 50
SCRIPT = b"console.log('page');" * 200
FILES = {
    "index.html": INDEX,
    "favicon.svg": b"<svg/>",
    "assets/main-B4kZ_x9-.js": SCRIPT,
    "assets/main-0aB1cD2e.css": b"body{}",
}
PAGE = BuiltPage(FILES)
NO_PAGE = BuiltPage({})
# Accept headers of browsers, for a link and for a script.
FOLLOWS = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}
ANYTHING = {"Accept": "*/*"}

Answer = tuple[int, Mapping[str, str], bytes]


def request(
    path: str,
    headers: Mapping[str, str] = ANYTHING,
    *,
    method: str = "GET",
    page: BuiltPage = PAGE,
    access: AccessControl | None = None,
) -> Answer:
    """The raw response of the server of the page."""

    async def body() -> Answer:
        async with (
            serving(page=page, access=access) as client,
            aiohttp.ClientSession(auto_decompress=False) as session,
            # The raw path: clients normalise dots.
            session.request(
                method,
                URL(client.base + path, encoded=True),
                headers={"Accept-Encoding": "identity", **headers},
            ) as answer,
        ):
            return answer.status, answer.headers, await answer.read()

    return run(body())


@pytest.mark.parametrize(
    ("path", "content", "media_type"),
    [
        ("/", INDEX, "text/html; charset=utf-8"),
        ("/index.html", INDEX, "text/html; charset=utf-8"),
        ("/?vendor=nvidia&q=%22", INDEX, "text/html; charset=utf-8"),
        ("/favicon.svg", b"<svg/>", "image/svg+xml"),
        ("/assets/main-B4kZ_x9-.js", SCRIPT, "text/javascript; charset=utf-8"),
        ("/assets/main-0aB1cD2e.css", b"body{}", "text/css; charset=utf-8"),
    ],
)
def test_files_are_served_without_a_token(path: str, content: bytes, media_type: str) -> None:
    status, headers, body = request(path)
    assert (status, headers["Content-Type"], body) == (200, media_type, content)


@pytest.mark.parametrize(
    "path",
    [
        "/overview",
        "/nodes",
        "/nodes/berlin/alpha",
        "/nodes/berlin/alpha.example.org?tab=processes",
        "/devices/berlin/alpha/nvidia%3AGPU-7",
        "/pods/berlin/team%2Fa/train-0",
        "/clusters/",
        "/metrics-of-mine",
        "/apis",
    ],
)
def test_paths_of_the_page_return_html_only_to_browsers(path: str) -> None:
    status, headers, body = request(path, FOLLOWS)
    assert (status, body) == (200, INDEX)
    assert headers["Cache-Control"] == "no-cache"
    for accept in ("*/*", "application/json", "image/avif,*/*;q=0.8", "text/html;q=0, */*"):
        status, headers, _ = request(path, {"Accept": accept})
        assert (status, headers["Content-Type"]) == (404, "application/problem+json")


@pytest.mark.parametrize(
    "path",
    [
        "/api",
        "/api/",
        "/api/v1/nothing",
        "/api/v2/nodes",
        "/docs/nothing",
        "/openapi.json/nothing",
        "/metrics/nothing",
        "/healthz/nothing",
        "/readyz/nothing",
        "/assets/",
        "/assets/main-of-an-older-build.js",
        "//elsewhere.example/nodes",
    ],
)
def test_unknown_paths_of_the_api_do_not_return_the_page(path: str) -> None:
    status, headers, _ = request(path, FOLLOWS)
    assert (status, headers["Content-Type"]) == (404, "application/problem+json")


def test_routes_of_the_api_take_precedence_over_the_page() -> None:
    for path in ("/healthz", "/readyz", "/metrics", "/docs", "/openapi.json", "/api/v1/nodes"):
        status, _, body = request(path, FOLLOWS)
        assert status == 200
        assert body != INDEX
    assert request("/api/v1/clusters/berlin/refresh", FOLLOWS)[0] == 405


@pytest.mark.parametrize(
    "path",
    [
        "/assets/../../../pyproject.toml",
        "/assets/..%2f..%2f__init__.py",
        "/%2e%2e/built_page.py",
        "/assets/%2e%2e/index.html%00.js",
        "/assets//main-B4kZ_x9-.js",
        "/assets/./main-B4kZ_x9-.js",
        "/assets\\main-B4kZ_x9-.js",
        "/built_page.py",
        "/etc/passwd",
    ],
)
def test_only_built_files_are_served(path: str) -> None:
    status, _, body = request(path)
    assert (status, body in FILES.values()) == (404, False)
    status, _, body = request(path, FOLLOWS)
    assert status == 404 or body == INDEX


def test_only_files_with_a_hash_in_their_name_are_cached_forever() -> None:
    for path, kept in [
        ("/assets/main-B4kZ_x9-.js", "public, max-age=31536000, immutable"),
        ("/", "no-cache"),
        ("/favicon.svg", "no-cache"),
    ]:
        assert request(path)[1]["Cache-Control"] == kept


@pytest.mark.parametrize("path", ["/", "/nodes/berlin/alpha", "/assets/main-B4kZ_x9-.js"])
def test_a_cached_file_is_not_sent_again(path: str) -> None:
    _, headers, _ = request(path, FOLLOWS)
    status, again, body = request(
        path, {**FOLLOWS, "If-None-Match": headers["ETag"], "Accept-Encoding": "gzip"}
    )
    assert (status, body) == (304, b"")
    assert again["ETag"] == headers["ETag"]
    assert "Content-Security-Policy" in again
    assert request(path, {**FOLLOWS, "If-None-Match": '"another"'})[0] == 200


def test_another_build_has_other_etags() -> None:
    other = BuiltPage({**FILES, "index.html": INDEX + b" "})
    assert request("/", page=other)[1]["ETag"] != request("/")[1]["ETag"]
    assert request("/favicon.svg", page=other)[1]["ETag"] == request("/favicon.svg")[1]["ETag"]


def test_files_are_compressed_if_the_client_accepts_gzip() -> None:
    for path, content in [("/", INDEX), ("/assets/main-B4kZ_x9-.js", SCRIPT)]:
        _, headers, body = request(path, {"Accept-Encoding": "gzip, deflate, br"})
        assert headers["Content-Encoding"] == "gzip"
        assert "Accept-Encoding" in headers["Vary"]
        assert len(body) < len(content)
        assert gzip.decompress(body) == content
    assert "Content-Encoding" not in request("/favicon.svg", {"Accept-Encoding": "gzip"})[1], "too small"


@pytest.mark.parametrize("path", ["/", "/nodes", "/assets/main-B4kZ_x9-.js"])
@pytest.mark.parametrize("encoding", ["identity", "gzip"])
def test_head_returns_the_same_headers_without_content(path: str, encoding: str) -> None:
    headers = {"Accept-Encoding": encoding, **FOLLOWS}
    _, whole, body = request(path, headers)
    status, head, nothing = request(path, headers, method="HEAD")
    assert (status, nothing) == (200, b"")
    assert int(head["Content-Length"]) == len(body)
    for name in ("Content-Type", "ETag", "Cache-Control", "Content-Security-Policy"):
        assert head[name] == whole[name]


def test_unsupported_methods_are_rejected() -> None:
    status, headers, _ = request("/", method="POST")
    assert (status, headers["Allow"]) == (405, "GET, HEAD, OPTIONS")
    status, headers, _ = request("/", method="OPTIONS")
    assert (status, headers["Allow"]) == (204, "GET, HEAD, OPTIONS")
    assert request("/nodes", FOLLOWS, method="POST")[0] == 404


@pytest.mark.parametrize("page", [PAGE, NO_PAGE], ids=["built", "not built"])
def test_the_content_policy_allows_only_the_own_server(page: BuiltPage) -> None:
    _, headers, _ = request("/", page=page)
    policy = dict(
        directive.strip().split(" ", 1) for directive in headers["Content-Security-Policy"].split(";")
    )
    assert policy == {
        "default-src": "'none'",
        "script-src": "'self'",
        "style-src": "'self'",
        "connect-src": "'self'",
        "img-src": "'self' data:",
        "font-src": "'self'",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
    }
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert not [name for name in headers if name.lower().startswith("access-control")]


def test_the_page_needs_no_token_and_the_data_does(tmp_path: Path) -> None:
    access = AccessControl(tokens=TokensFile(str(tokens_file(tmp_path))))
    assert request("/", access=access)[0] == 200
    assert request("/nodes/berlin/alpha", FOLLOWS, access=access)[0] == 200
    assert request("/assets/main-B4kZ_x9-.js", access=access)[0] == 200
    assert request("/api/v1/nodes", access=access)[0] == 401


async def test_the_page_does_not_count_against_the_rate_limit() -> None:
    limits = ApiLimits(requests=Rate(per_second=0.1, burst=2))
    async with serving(page=PAGE, limits=limits) as client:
        for path in ("/", "/favicon.svg", "/assets/main-B4kZ_x9-.js") * 3:
            assert (await client.ask(path))[0] == 200
        assert (await client.ask("/api/v1/version"))[0] == 200


@pytest.mark.parametrize("limits", [ApiLimits(concurrent_requests=0), ApiLimits(unsent_bytes=0)])
async def test_the_page_counts_against_the_limits_of_the_server(limits: ApiLimits) -> None:
    async with serving(page=PAGE, limits=limits) as client:
        status, headers, _ = await client.ask("/")
        assert (status, headers["Retry-After"]) == (503, "1")


async def test_requests_for_the_page_are_counted_together() -> None:
    async with serving(page=PAGE) as client:
        for path in ("/", "/favicon.svg", "/assets/none-0aB1cD2e.js"):
            await client.ask(path)
        await client.ask("/nodes", headers=FOLLOWS)
        assert client.app[TRAFFIC].requests == {("/", 200): 3}


@pytest.mark.parametrize("path", ["/", "/nodes/berlin/alpha"])
def test_without_a_built_page_the_response_explains_how_to_build_it(path: str) -> None:
    status, headers, body = request(path, FOLLOWS, page=NO_PAGE)
    assert (status, headers["Content-Type"]) == (404, "text/html; charset=utf-8")
    assert headers["Cache-Control"] == "no-store"
    assert b"make page" in body
    assert b'href="/docs"' in body


def test_the_api_works_without_a_page() -> None:
    for path in ("/readyz", "/healthz", "/docs", "/api/v1/nodes"):
        assert request(path, page=NO_PAGE)[0] == 200
    assert request("/favicon.svg", page=NO_PAGE)[0] == 404
    assert request("/nodes", page=NO_PAGE)[1]["Content-Type"] == "application/problem+json"


def test_no_file_is_served_without_the_index() -> None:
    half = BuiltPage({"assets/main-B4kZ_x9-.js": SCRIPT})
    assert request("/", page=half)[0] == 404
    assert request("/assets/main-B4kZ_x9-.js", page=half)[0] == 404
