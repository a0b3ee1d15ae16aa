"""Guarded routes need a token from the file; the file may change."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.files import put
from tests.waiting import wait_until

from accelscope.serve import ServeError, Server, TokenFile

if TYPE_CHECKING:
    from tests.serve.conftest import Client

    Serve = Callable[..., Server]
    Connect = Callable[..., Client]


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text("old-secret\n\n  new-secret  \n")
    return path


@pytest.mark.parametrize(
    ("field", "status"),
    [
        ("", 401),
        ("Authorization: Bearer old-secret", 200),
        ("Authorization: Bearer new-secret", 200),
        ("Authorization: bearer   new-secret", 200),
        ("X-AccelScope-Token: new-secret", 200),
        ("Authorization: Basic x\r\nX-AccelScope-Token: new-secret", 200),
        ("Authorization: Bearer wrong\r\nX-AccelScope-Token: new-secret", 200),
        ("Authorization: Bearer wrong", 401),
        ("Authorization: Bearer", 401),
        ("Authorization: Bearer ", 401),
        ("Authorization: old-secret", 401),
        ("Authorization: Basic old-secret", 401),
        ("Authorization: Bearer old-secret new-secret", 401),
        ("Authorization: Bearer old-secre", 401),
        ("Authorization: Bearer \xff", 401),
        ("X-AccelScope-Token:", 401),
    ],
)
def test_who_may_read_the_page(
    serve: "Serve", connect: "Connect", token_file: Path, field: str, status: int
) -> None:
    client = connect(serve(auth=TokenFile(token_file)))
    client.send(
        f"GET /metrics HTTP/1.1\r\nHost: x\r\n{field}{field and chr(13) + chr(10)}\r\n".encode("latin-1")
    )
    answer = client.answer()
    assert answer.status == status
    if status == 401:
        assert answer.headers["www-authenticate"] == 'Bearer realm="accelscope"'
        assert b"secret" not in answer.body


def test_probes_need_no_token(serve: "Serve", connect: "Connect", token_file: Path) -> None:
    assert connect(serve(auth=TokenFile(token_file))).get("/healthz").status == 200


def _becomes(client: "Client", token: str, status: int) -> None:
    wait_until(lambda: client.get("/metrics", f"Authorization: Bearer {token}").status == status)


@pytest.mark.usefixtures("quick_refresh")
def test_tokens_change_while_running(
    serve: "Serve", connect: "Connect", token_file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    client = connect(serve(auth=TokenFile(token_file)))

    def said() -> list[str]:
        return [record.getMessage() for record in caplog.records]

    _becomes(client, "old-secret", 200)
    put(token_file, "new-secret\nnext-secret\n", 0o600)
    _becomes(client, "next-secret", 200)
    _becomes(client, "old-secret", 401)

    put(token_file, "\n", 0o600)
    wait_until(lambda: len(said()) == 2)
    assert client.get("/metrics", "Authorization: Bearer next-secret").status == 200
    token_file.unlink()
    wait_until(lambda: len(said()) == 3)
    assert client.get("/metrics", "Authorization: Bearer next-secret").status == 200
    put(token_file, "last-secret", 0o600)
    _becomes(client, "last-secret", 200)

    assert said() == [
        "tokens reloaded",
        f"cannot load the new token file; the old tokens stay valid: token file {token_file}: "
        "contains no token",
        f"cannot load the new token file; the old tokens stay valid: token file {token_file}: "
        "No such file or directory",
        "tokens reloaded",
    ]
    assert "secret" not in caplog.text


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "No such file or directory"),
        (b" \n", "contains no token"),
        (b"x" * 70000, "larger than 64 KiB"),
    ],
)
def test_a_file_that_cannot_be_used_is_an_error_at_the_start(
    tmp_path: Path, content: bytes | None, message: str
) -> None:
    path = tmp_path / "token"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ServeError) as raised:
        TokenFile(path)
    assert str(raised.value) == f"token file {path}: {message}"
