"""The certificate that the fleet shows, while its files change."""

import asyncio
import logging
import shutil
import ssl
from pathlib import Path

import pytest
from tests.certificates import Certificates, make_certificates
from tests.fleet.loop import run

from accelscope.config import ConfigError
from accelscope.fleet.own_certificate import OwnCertificate


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("first"))


@pytest.fixture(scope="module")
def second(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("second"))


async def shown(context: ssl.SSLContext) -> bytes | None:
    """The certificate that a client of a server with this context sees."""

    async def nothing(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    server = await asyncio.start_server(nothing, "127.0.0.1", 0, ssl=context)
    async with server:
        port = server.sockets[0].getsockname()[1]
        client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client)
        seen: bytes | None = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        await reader.read()
        writer.close()
        return seen


def test_a_new_certificate_is_shown_and_a_bad_one_is_not_taken(
    first: Certificates, second: Certificates, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    certificate, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    shutil.copy(first.server, certificate)
    shutil.copy(first.server_key, key)

    async def go() -> None:
        own = OwnCertificate(str(certificate), str(key))
        before = await shown(own.context)
        own.look()
        assert await shown(own.context) == before

        shutil.copy(second.server, certificate)  # and the key of the other
        own.look()
        assert await shown(own.context) == before

        shutil.copy(second.server_key, key)
        own.look()
        after = await shown(own.context)
        assert after not in (None, before)

        key.write_text("nothing")
        own.look()
        assert await shown(own.context) == after

    run(go())
    said = [record.getMessage() for record in caplog.records]
    assert sum("the old certificate stays" in line for line in said) == 2
    assert said.count("certificate re-read") == 1


@pytest.mark.parametrize("content", [None, "", "nothing"])
def test_files_that_cannot_be_used_are_an_error_at_the_start(
    content: str | None, first: Certificates, tmp_path: Path
) -> None:
    key = tmp_path / "tls.key"
    if content is not None:
        key.write_text(content)
    with pytest.raises(ConfigError) as raised:
        OwnCertificate(str(first.server), str(key))
    assert str(key) in str(raised.value)
