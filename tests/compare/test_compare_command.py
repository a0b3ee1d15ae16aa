"""`accelscope compare`: URLs, files and standard input, its output and exit code, and errors in one line."""

import gzip
import io
import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.certificates import make_certificates
from tests.compare.pages import ENERGY, GPU, LICENCE, TEMPERATURE, counter, gauge

from accelscope.cli.main import main
from accelscope.metrics.exposition import OPENMETRICS_TYPE, TEXT_TYPE

OLD = gauge(TEMPERATURE, (GPU, 40)) + gauge(LICENCE, (GPU, 0))
NEW = gauge(TEMPERATURE, (GPU, 40))

Respond = Callable[[BaseHTTPRequestHandler], None]


@contextmanager
def server(respond: Respond, context: ssl.SSLContext | None = None) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            respond(self)

        def log_message(self, *_: object) -> None:
            pass

    listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if context is not None:
        listening.socket = context.wrap_socket(listening.socket, server_side=True)
    thread = threading.Thread(target=listening.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"{'http' if context is None else 'https'}://127.0.0.1:{listening.server_port}"
    finally:
        listening.shutdown()
        listening.server_close()
        thread.join()


def responding(
    body: bytes | str, content_type: str = TEXT_TYPE, status: int = 200, encoding: str | None = None
) -> Respond:
    content = body.encode() if isinstance(body, str) else body

    def respond(request: BaseHTTPRequestHandler) -> None:
        request.send_response(status)
        request.send_header("Content-Type", content_type)
        request.send_header("Content-Length", str(len(content)))
        if encoding is not None:
            request.send_header("Content-Encoding", encoding)
        request.end_headers()
        request.wfile.write(content)

    return respond


@pytest.fixture
def old(tmp_path: Path) -> str:
    file = tmp_path / "old.prom"
    file.write_text(OLD)
    return str(file)


@pytest.fixture
def new(tmp_path: Path) -> str:
    file = tmp_path / "new.prom"
    file.write_text(NEW)
    return str(file)


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line that the command prints with exit code 2."""
    assert main(["compare", *arguments]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("accelscope compare: ")
    assert printed.err.count("\n") == 1
    return printed.err


# --- output and exit code


def test_pages_that_differ_give_1(old: str, new: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", old, new]) == 1
    printed = capsys.readouterr().out
    assert "Not available (change the queries, or accept with --ignore):" in printed
    assert f"{LICENCE}  1 series  licences of virtual GPUs are not read" in printed
    assert "The pages differ: 1 name missing, 0 different" in printed


def test_known_differences_can_be_accepted(old: str, new: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", old, new, "--ignore", "*_VGPU_*"]) == 0
    assert "Nothing is missing" in capsys.readouterr().out


def test_the_result_can_be_a_document(old: str, new: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", old, new, "--output", "json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert [each["name"] for each in found["missing_names"]] == [LICENCE]
    assert found["old"]["source"] == old


def test_the_dialect_can_be_forced(old: str, new: str, capsys: pytest.CaptureFixture[str]) -> None:
    main(["compare", old, new, "--dialect", "amd", "--output", "json"])
    assert json.loads(capsys.readouterr().out)["dialect"] == "amd"


def test_the_tolerance_can_be_set(tmp_path: Path, new: str) -> None:
    file = tmp_path / "warm.prom"
    file.write_text(NEW.replace("} 40", "} 42"))
    assert main(["compare", str(file), new]) == 0
    assert main(["compare", str(file), new, "--tolerance", "1"]) == 1


def test_a_page_can_come_from_standard_input(
    new: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(OLD.encode())))
    assert main(["compare", "-", new]) == 1
    assert "old   - (dcgm-exporter)" in capsys.readouterr().out


# --- URLs


@pytest.mark.parametrize("path", ["", "/", "/metrics", "/other/path"])
def test_a_url_without_a_path_means_metrics(path: str, new: str) -> None:
    asked: list[str] = []

    def respond(request: BaseHTTPRequestHandler) -> None:
        asked.append(request.path)
        responding(NEW)(request)

    with server(respond) as url:
        assert main(["compare", url + path, new]) == 0
        assert main(["compare", new, (url + path).removeprefix("http://")]) == 0
    assert set(asked) == {path if len(path) > 1 else "/metrics"}


def test_the_text_format_is_asked_for_as_openmetrics_has_no_type_for_some_counters(new: str) -> None:
    headers: list[Any] = []

    def respond(request: BaseHTTPRequestHandler) -> None:
        headers.append(request.headers)
        responding(NEW)(request)

    with server(respond) as url:
        main(["compare", url, new])
    assert headers[0]["Accept"].startswith("text/plain;version=0.0.4,")
    assert headers[0]["Accept-Encoding"] == "gzip"


@pytest.mark.parametrize(
    ("body", "content_type", "encoding"),
    [
        (gzip.compress(NEW.encode()), TEXT_TYPE, "gzip"),
        (NEW.replace("} 40", '} 40 # {trace_id="1"} 40') + "# EOF\n", OPENMETRICS_TYPE, None),
        (b"\xef\xbb\xbf" + NEW.encode(), TEXT_TYPE, None),
    ],
)
def test_pages_may_be_compressed_or_in_openmetrics(
    body: bytes, content_type: str, encoding: str | None, new: str
) -> None:
    with server(responding(body, content_type, encoding=encoding)) as url:
        assert main(["compare", url, new]) == 0


def test_a_compressed_file_is_decompressed(tmp_path: Path, new: str) -> None:
    file = tmp_path / "page.gz"
    file.write_bytes(gzip.compress(NEW.encode()))
    assert main(["compare", str(file), new]) == 0


def test_rates_of_counters_are_compared_over_the_interval(capsys: pytest.CaptureFixture[str]) -> None:
    def counting(step: float) -> Respond:
        values = iter(range(100))

        def respond(request: BaseHTTPRequestHandler) -> None:
            responding(counter(ENERGY, (GPU, next(values) * step)))(request)

        return respond

    with server(counting(1000)) as one, server(counting(1000)) as same, server(counting(5000)) as other:
        assert main(["compare", one, same, "--interval", "200ms"]) == 0
        assert main(["compare", one, other, "--interval", "200ms"]) == 1
    assert "rate per second" in capsys.readouterr().out


def test_each_url_gets_its_own_token(tmp_path: Path) -> None:
    tokens: list[str | None] = []

    def respond(request: BaseHTTPRequestHandler) -> None:
        tokens.append(request.headers["Authorization"])
        responding(NEW)(request)

    file = tmp_path / "token"
    file.write_text("secret-of-new\n")
    with server(responding(NEW)) as other, server(respond) as url:
        assert main(["compare", other, url, "--token-file", str(file)]) == 0
        assert main(["compare", url, other, "--token-file", str(file)]) == 0
        assert main(["compare", url, other, "--old-token-file", str(file)]) == 0
    assert tokens == ["Bearer secret-of-new", None, "Bearer secret-of-new"]


def test_https_needs_a_known_certificate_unless_told_otherwise(
    tmp_path: Path, new: str, capsys: pytest.CaptureFixture[str]
) -> None:
    certificates = make_certificates(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.server, certificates.server_key)
    with server(responding(NEW), context) as url:
        told = refused(capsys, url, new)
        assert "certificate is not trusted" in told
        assert "--ca-file" in told
        assert main(["compare", url, new, "--ca-file", str(certificates.ca)]) == 0
        assert capsys.readouterr().err == ""
        assert main(["compare", url, new, "--insecure-skip-tls-verify"]) == 0
        assert "certificates are not verified" in capsys.readouterr().err


# --- errors


def test_a_page_that_is_not_found(new: str, capsys: pytest.CaptureFixture[str]) -> None:
    with server(responding("404 page not found\n", status=404)) as url:
        told = refused(capsys, url + "/wrong", new)
    assert "404" in told
    assert "name the path of the metrics page" in told


def test_a_page_that_needs_a_token(new: str, capsys: pytest.CaptureFixture[str]) -> None:
    with server(responding("Unauthorized", status=401)) as url:
        told = refused(capsys, url, new)
    assert "401 Unauthorized" in told
    assert "--old-token-file" in told


@pytest.mark.parametrize("content_type", ["text/html; charset=utf-8", "text/plain"])
def test_an_html_page(content_type: str, new: str, capsys: pytest.CaptureFixture[str]) -> None:
    with server(responding("<html><a href='/metrics'>Metrics</a></html>", content_type)) as url:
        assert "this is an HTML page, not metrics" in refused(capsys, url + "/", new)


def test_a_redirect_is_not_followed_and_its_target_not_printed(
    tmp_path: Path, new: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def respond(request: BaseHTTPRequestHandler) -> None:
        request.send_response(302)
        request.send_header("Location", "/login?token=secret")
        request.send_header("Content-Length", "0")
        request.end_headers()

    file = tmp_path / "token"
    file.write_text("secret")
    with server(respond) as url:
        told = refused(capsys, url, new, "--old-token-file", str(file))
    assert "HTTP status 302; redirects are not followed" in told
    assert "secret" not in told


def test_a_response_that_ends_too_early(new: str, capsys: pytest.CaptureFixture[str]) -> None:
    def respond(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.send_header("Content-Length", "10000")
        request.end_headers()
        request.wfile.write(NEW.encode())

    with server(respond) as url:
        assert "closed before the end" in refused(capsys, url, new)


def test_a_truncated_file(tmp_path: Path, new: str, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "cut.prom"
    file.write_text(NEW[:-30])
    assert "the page is truncated" in refused(capsys, str(file), new)
    file.write_bytes(gzip.compress(NEW.encode())[:-12])
    assert "gzip data is incomplete" in refused(capsys, str(file), new)
    file.write_bytes(b"\x1f\x8bno gzip at all")
    assert "damaged gzip data" in refused(capsys, str(file), new)


def test_a_page_of_100_mb_is_not_read_to_its_end(
    tmp_path: Path, new: str, capsys: pytest.CaptureFixture[str]
) -> None:
    sent = 0

    def respond(request: BaseHTTPRequestHandler) -> None:
        nonlocal sent
        request.send_response(200)
        request.end_headers()
        piece = NEW.encode() * 1000
        try:
            while sent < 100_000_000:
                request.wfile.write(piece)
                sent += len(piece)
        except OSError:
            pass  # the client has gone

    with server(respond) as url:
        assert "larger than 32 MiB" in refused(capsys, url, new)
    assert sent < 100_000_000
    bomb = tmp_path / "bomb.gz"
    bomb.write_bytes(gzip.compress(b"# \n" * 34_000_000, compresslevel=1))
    assert "larger than 32 MiB" in refused(capsys, str(bomb), new)


def test_a_server_that_never_ends_its_page(new: str, capsys: pytest.CaptureFixture[str]) -> None:
    stop = threading.Event()

    def respond(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.end_headers()
        try:
            while not stop.wait(0.05):
                request.wfile.write(b"# still here\n")
        except OSError:
            pass

    with server(respond) as url:
        try:
            assert "timed out" in refused(capsys, url, new, "--timeout", "500ms")
        finally:
            stop.set()


def test_nothing_listens(new: str, capsys: pytest.CaptureFixture[str]) -> None:
    with server(responding(NEW)) as url:
        pass
    assert "cannot connect" in refused(capsys, url, new)


def test_two_pages_that_cannot_be_read_are_both_named(capsys: pytest.CaptureFixture[str]) -> None:
    with server(responding(NEW)) as old, server(responding(NEW)) as new:
        pass
    text = refused(capsys, old, new)
    assert old in text
    assert new in text


def test_bytes_that_are_no_text(tmp_path: Path, new: str, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "binary"
    file.write_bytes(b"\xff\xfe\x00")
    assert "not UTF-8" in refused(capsys, str(file), new)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["missing.prom", "NEW"], "missing.prom: no such file; a URL begins with http:// or https://"),
        (["NEW", "/no/such/file"], "/no/such/file: no such file"),
        (["-", "-"], "only one of OLD and NEW can be standard input"),
        (["NEW", "NEW", "--interval", "1s"], "--interval requires URLs"),
        (["NEW", "NEW", "--client-key", "x"], "--client-key requires --client-certificate"),
        (["NEW", "NEW", "--token-file", "x"], "a token file for NEW requires a URL"),
        (["NEW", "NEW", "--old-token-file", "x"], "a token file for OLD requires a URL"),
        (["http://user:secret@node1:9400", "NEW"], "must not contain a user or password"),
        (["HTTP://user:secret@node1:9400", "NEW"], "must not contain a user or password"),
        (["ftp://user:secret@node1", "NEW"], "must not contain a user or password"),
        (["http://node1:9400/metrics?token=secret", "NEW"], "a query or fragment is not allowed"),
        (["", "NEW"], "OLD is empty"),
        (["http://node1:port", "NEW"], "the port is not a whole number"),
        (["http://node1:9400/metrics?x=y", "NEW"], "a query or fragment is not allowed"),
    ],
)
def test_arguments_that_cannot_be_used(
    arguments: list[str], told: str, new: str, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [new if argument == "NEW" else argument for argument in arguments]
    error = refused(capsys, *given)
    assert told in error
    assert "secret" not in error


def test_a_folder_is_no_page(tmp_path: Path, new: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "Is a directory" in refused(capsys, str(tmp_path), new)


@pytest.mark.parametrize(
    "arguments", [[], ["old"], ["old", "new", "--dialect", "x"], ["old", "new", "--tolerance", "101"]]
)
def test_invalid_options_name_the_help(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["compare", *arguments])
    assert "(see accelscope compare --help)" in capsys.readouterr().err
