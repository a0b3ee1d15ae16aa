import argparse
import shlex
import sys
from pathlib import Path

import pytest
from bench.children import Workshop, free_port, running
from bench.effort import QUICK
from bench.peers import given_peer
from bench.scraper import Scraper, series_of

_EXPORTER = """
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer

class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        page = f"node_folder{{path=\\"{sys.argv[2]}\\"}} 1\\n".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(page)))
        self.end_headers()
        self.wfile.write(page)

HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


def test_an_exporter_of_the_command_line_is_started_and_scraped(tmp_path: Path) -> None:
    program = tmp_path / "an exporter.py"
    program.write_text(_EXPORTER)
    command = shlex.join([sys.executable, str(program), "{port}", "{node}/sys"])
    peer = given_peer(f"mine={command}")
    assert (peer.name, peer.on_scrape) == ("mine", True)
    workshop, port = Workshop(tmp_path, QUICK, peers=[peer]), free_port()
    assert workshop.missing(peer) == ""
    scraper = Scraper(port, compressed=False)
    with running(workshop.peer(peer, port, tmp_path / "node")) as child:
        child.wait_for_page(scraper, peer.shows)
        page = scraper.scrape().body
    assert series_of(page) == 1
    assert f"{tmp_path}/node/sys".encode() in page


def test_an_exporter_with_an_interval_has_collections() -> None:
    peer = given_peer("mine=sh --port={port} --every={interval}s '{{}}'")
    assert not peer.on_scrape
    assert peer.command(["sh"], 80, Path("/node"), 5) == ["sh", "--port=80", "--every=5s", "{}"]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("sh --port={port}", "the command has no"),
        ("mine", "is not NAME=COMMAND"),
        ("mine=", "is not NAME=COMMAND"),
        ("mine=sh --port 80", "mine: the command has no {port}"),
        ("mine=sh {port} {host}", "mine: KeyError"),
        ("mine=sh {port} {", "mine: ValueError"),
        ("mine=sh {port} 'open", "mine: ValueError"),
        ("mine=/no/such {port}", "mine: /no/such is not an executable program"),
    ],
)
def test_a_command_that_cannot_be_run_is_rejected(text: str, error: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError) as raised:
        given_peer(text)
    assert error in str(raised.value)
