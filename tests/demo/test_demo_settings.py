"""Choices by environment variables."""

import socket
from collections.abc import Iterator

import pytest
from tools.demo.settings import HOST, BadSetting, Settings, free_port


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.socket() as listener:
        listener.bind((HOST, 0))
        listener.listen()
        yield listener.getsockname()[1]


def test_nothing_need_be_said() -> None:
    assert Settings.of({}) == Settings()


def test_everything_may_be_said() -> None:
    port = free_port(None, [])
    environ = {"NODE": "mixed", "NODES": "12", "DEMO_SECONDS": "1.5", "PROMETHEUS": "no", "PORT": str(port)}
    assert Settings.of(environ) == Settings(node="mixed", nodes=12, seconds=1.5, prometheus=False, port=port)


@pytest.mark.parametrize(
    ("environ", "problem"),
    [
        ({"NODE": "nothing"}, "NODE=nothing: nothing: No such file"),
        ({"NODES": "0"}, "NODES=0: expected a whole number from 1 to 10000"),
        ({"NODES": "many"}, "NODES=many: expected a whole number"),
        ({"PORT": "70000"}, "PORT=70000: expected a whole number from 0 to 65535"),
        ({"DEMO_SECONDS": "soon"}, "DEMO_SECONDS=soon: expected a number of seconds"),
        ({"DEMO_SECONDS": "nan"}, "DEMO_SECONDS=nan: expected a number of seconds"),
    ],
)
def test_a_bad_value_is_named(environ: dict[str, str], problem: str) -> None:
    with pytest.raises(BadSetting, match=problem):
        Settings.of(environ)


def test_a_port_that_was_asked_for_and_is_taken_is_an_error(taken: int) -> None:
    with pytest.raises(BadSetting, match=f"AGENT_PORT={taken}: somebody else listens there"):
        Settings.of({"AGENT_PORT": str(taken)})


def test_the_usual_port_gives_way_where_it_is_taken(taken: int) -> None:
    assert free_port(taken, []) != taken
    free = free_port(None, [])
    assert free_port(free, []) == free
    assert free_port(free, [free]) != free
    for settings in (Settings(), Settings(port=0, agent_port=0, prometheus_port=0)):
        ports = settings.ports()
        assert len(set(ports)) == 3
        assert 0 not in ports
