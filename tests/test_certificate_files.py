"""The certificate that an asyncio server shows, while its files change; tests/serve has the agent's."""

import asyncio
import logging
import os
import shutil
import ssl
from pathlib import Path

import pytest
from tests.certificates import Certificates, make_certificates
from tests.fleet.loop import run

from accelscope.certificates import CertificateError, CertificateFiles


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("first"))


@pytest.fixture(scope="module")
def second(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("second"))


async def nothing(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.close()


async def shown(port: int, version: ssl.TLSVersion, name: str) -> bytes | None:
    """The certificate that a client sees; without a name it does not tell whom it wants."""
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.minimum_version = client.maximum_version = version
    client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client, server_hostname=name)
    seen: bytes | None = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    await reader.read()
    writer.close()
    return seen


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("name", ["localhost", ""])
def test_a_new_certificate_is_shown_and_a_bad_one_is_not_taken(
    version: ssl.TLSVersion,
    name: str,
    first: Certificates,
    second: Certificates,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    certificate, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    shutil.copy(first.server, certificate)
    shutil.copy(first.server_key, key)

    async def go() -> None:
        files = CertificateFiles(str(certificate), str(key))
        server = await asyncio.start_server(nothing, "127.0.0.1", 0, ssl=files.following_context())
        async with server:
            port = server.sockets[0].getsockname()[1]
            before = await shown(port, version, name)
            files.refresh()
            assert await shown(port, version, name) == before

            shutil.copy(second.server, certificate)  # and the key of the other
            files.refresh()
            assert await shown(port, version, name) == before

            shutil.copy(second.server_key, key)
            files.refresh()
            after = await shown(port, version, name)
            assert after not in (None, before)

            key.write_text("nothing")
            files.refresh()
            assert await shown(port, version, name) == after

    run(go())
    said = [record.getMessage() for record in caplog.records]
    assert sum("the old certificate stays in use" in line for line in said) == 2
    assert said.count("certificate reloaded") == 1


@pytest.mark.parametrize("content", [None, "", "nothing"])
def test_files_that_cannot_be_used_are_an_error_at_the_start(
    content: str | None, first: Certificates, tmp_path: Path
) -> None:
    key = tmp_path / "tls.key"
    if content is not None:
        key.write_text(content)
    with pytest.raises(CertificateError) as raised:
        CertificateFiles(str(first.server), str(key))
    assert str(key) in str(raised.value)


def test_a_pipe_in_the_place_of_a_key_is_not_waited_for(
    first: Certificates, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    key = tmp_path / "tls.key"
    shutil.copy(first.server_key, key)
    files = CertificateFiles(str(first.server), str(key))
    context = files.context
    key.unlink()
    os.mkfifo(key)
    files.refresh()
    assert files.context is context
    assert f"{key}: not a regular file" in caplog.text
