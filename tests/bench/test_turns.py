"""What a server puts off until somebody asks is charged to the scrape that asks first."""

import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from bench.children import Child
from bench.effort import QUICK
from bench.scenes import Scene
from bench.turns import Exporter, Turn, take_turn

_WORK_SECONDS = 0.03
# A new page every second, which the first to ask has to wait for.
_LAZY_SERVER = """
import sys, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

class Page(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    made = 0

    def do_GET(self):
        if Page.made != int(time.monotonic()):
            Page.made = int(time.monotonic())
            ends = time.thread_time() + float(sys.argv[2])
            while time.thread_time() < ends:
                pass
        self.send_response(200)
        self.send_header("Content-Length", "9")
        self.end_headers()
        self.wfile.write(b"device 1\\n")

    def log_message(self, *_):
        pass

ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Page).serve_forever()
"""
_EFFORT = replace(
    QUICK, turn_collections=0, turn_first_scrapes=3, turn_intervals=0.5, turn_pauses=0, first_scrapes=0
)


@pytest.fixture(scope="module")
def turn(tmp_path_factory: pytest.TempPathFactory) -> Turn:
    folder: Path = tmp_path_factory.mktemp("turn")

    def start(port: int) -> Child:
        command = [sys.executable, "-c", _LAZY_SERVER, str(port), str(_WORK_SECONDS)]
        return Child("lazy", command, dict(os.environ), folder)

    exporter = Exporter("lazy", start, b"device", ours=True)
    take_turn(exporter, Scene("any", "", devices=0, processes=0), _EFFORT)
    [turn] = exporter.turns
    return turn


def test_every_first_scrape_meets_a_new_page(turn: Turn) -> None:
    assert len(turn.first) == 3
    assert min(turn.first) >= _WORK_SECONDS


def test_cpu_of_making_the_page_is_that_scrape_s(turn: Turn) -> None:
    assert min(turn.first_cpu) >= _WORK_SECONDS


def test_scrapes_that_follow_are_made_in_both_ways(turn: Turn) -> None:
    assert len(turn.fresh) >= len(turn.kept) > 0
