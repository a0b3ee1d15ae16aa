"""scripts/audit, with stand-ins for OSV and npm: what is found fails, what cannot be asked is told."""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.programs import script
from tests.repository import REPOSITORY

NOT_RUN = "not run: no advisory source can be reached"
CLEAN = '{"vulnerabilities": {}}'


class Osv:
    """Knows of one advisory, on the last of its pages, unless it is told what to answer."""

    def __init__(self) -> None:
        self.vulnerable = ("", "")
        self.pages = 1
        self.answer: tuple[int, bytes] | None = None
        self.asked: list[dict[str, Any]] = []
        self.url = ""

    def to(self, body: bytes) -> tuple[int, bytes]:
        queries = json.loads(body)["queries"]
        self.asked += queries
        known: list[dict[str, Any]] = []
        for each in queries:
            page = int(each.get("page_token", "1"))
            if (each["package"]["ecosystem"], each["package"]["name"]) != self.vulnerable:
                known.append({})
            elif page < self.pages:
                known.append({"next_page_token": str(page + 1)})
            else:
                known.append({"vulns": [{"id": "OSV-1"}]})
        return self.answer or (200, json.dumps({"results": known}).encode())


@pytest.fixture
def osv() -> Iterator[Osv]:
    source = Osv()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            status, body = source.to(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        source.url = f"http://127.0.0.1:{server.server_port}/v1/querybatch"
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield source
        server.shutdown()
        thread.join()


def audit(osv: str, npm: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(REPOSITORY / "scripts" / "audit"), f"--osv={osv}", f"--npm={npm}", *options],
        env={"PATH": "/usr/bin:/bin", "NO_PROXY": "127.0.0.1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def npm(folder: Path, says: str, code: int = 0) -> Path:
    return script(
        folder / "npm", f"cat <<'END'\n{says}\nEND\necho 'npm error audit refused' >&2\nexit {code}"
    )


def test_nothing_known(osv: Osv, tmp_path: Path) -> None:
    done = audit(osv.url, npm(tmp_path, f"npm: installing\n{CLEAN}"), "--must-run")
    assert done.returncode == 0, done.stdout + done.stderr
    assert ", 0 with known vulnerabilities" in done.stdout
    assert "not run" not in done.stdout
    asked = {(each["package"]["ecosystem"], each["package"]["name"]) for each in osv.asked}
    assert {("PyPI", "h2"), ("PyPI", "aiohttp"), ("PyPI", "setuptools"), ("npm", "preact")} <= asked


@pytest.mark.parametrize(
    ("vulnerable", "told", "where"),
    [
        (("PyPI", "h2"), "PyPI h2 ", "requirements/agent.txt"),
        (("npm", "vite"), "npm vite ", "web/package-lock.json"),
    ],
)
def test_what_is_found_fails(
    osv: Osv, tmp_path: Path, vulnerable: tuple[str, str], told: str, where: str
) -> None:
    osv.vulnerable = vulnerable
    done = audit(osv.url, npm(tmp_path, CLEAN))
    assert done.returncode == 1
    [line] = [each for each in done.stdout.splitlines() if told in each]
    assert where in line
    assert line.endswith(": OSV-1")


@pytest.mark.parametrize("pages", [2, 3])
def test_what_stands_on_a_later_page_is_found(osv: Osv, tmp_path: Path, pages: int) -> None:
    osv.vulnerable, osv.pages = ("PyPI", "h2"), pages
    done = audit(osv.url, npm(tmp_path, CLEAN))
    assert done.returncode == 1, done.stdout
    assert ", 1 with known vulnerabilities" in done.stdout
    asked = [each.get("page_token") for each in osv.asked if each["package"]["name"] == "h2"]
    assert asked == [None, *(str(page) for page in range(2, pages + 1))]


def test_pages_without_end_are_no_verdict(osv: Osv, tmp_path: Path) -> None:
    osv.vulnerable, osv.pages = ("PyPI", "h2"), 1_000_000
    done = audit(osv.url, npm(tmp_path, CLEAN), "--must-run")
    assert done.returncode == 2, done.stdout
    assert f"audit: OSV: {NOT_RUN} (OSV has more results" in done.stdout


def test_what_npm_finds_fails_without_osv(tmp_path: Path) -> None:
    found = npm(tmp_path, '{"vulnerabilities": {"vite": {"severity": "high"}}}', code=1)
    done = audit("http://127.0.0.1:9/", found)
    assert done.returncode == 1
    assert f"audit: OSV: {NOT_RUN}" in done.stdout
    assert "npm vite: high" in done.stdout


@pytest.mark.parametrize(
    "answer",
    [
        None,
        (500, b""),
        (403, b"<html>"),
        (200, b"<html>"),
        (200, b"[]"),
        (200, b'{"results": []}'),
        (200, b'{"results": [1]}'),
    ],
)
def test_what_cannot_be_asked_is_said_and_is_no_verdict(
    osv: Osv, tmp_path: Path, answer: tuple[int, bytes] | None
) -> None:
    osv.answer = answer
    url = osv.url if answer else "http://127.0.0.1:9/"
    refusing = npm(tmp_path, '{"message": "405 Method Not Allowed"}', code=1)
    done = audit(url, refusing)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"audit: OSV: {NOT_RUN} (" in done.stdout
    assert f"audit: npm audit: {NOT_RUN} (audit refused)" in done.stdout
    assert "known vulnerabilities" not in done.stdout
    assert audit(url, refusing, "--must-run").returncode == 2


def test_no_npm_is_said(osv: Osv, tmp_path: Path) -> None:
    done = audit(osv.url, tmp_path / "none")
    assert done.returncode == 0
    assert f"audit: npm audit: {NOT_RUN}" in done.stdout
