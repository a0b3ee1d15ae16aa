"""Certificate, key, client CA and token file."""

import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from time import time
from typing import TYPE_CHECKING

import pytest
from tests.certificates import new_certificate

from accelscope.doctor.check import Finding, Subject
from accelscope.doctor.http import FILE_CHECKS

if TYPE_CHECKING:
    from tests.doctor.node_folder import NodeFolder

DAY = 86400.0
POD = {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}


@dataclass(frozen=True)
class Pair:
    certificate: Path
    key: Path


def new_pair(folder: Path, name: str) -> Pair:
    pair = Pair(folder / f"{name}.pem", folder / f"{name}.key")
    new_certificate(pair.certificate, pair.key, name, days=30)
    pair.key.chmod(0o600)
    return pair


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return new_pair(tmp_path_factory.mktemp("tls"), "server")


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return new_pair(tmp_path_factory.mktemp("tls"), "other")


def check_files(subject: Subject) -> list[Finding]:
    return [finding for check in FILE_CHECKS for finding in check.look(subject)]


def by_name(subject: Subject, name: str) -> Finding:
    return next(finding for finding in check_files(subject) if finding.name == name)


def tls(pair: Pair, **more: str) -> dict[str, str]:
    return {"tls_certificate": str(pair.certificate), "tls_key": str(pair.key), **more}


def test_without_tls_and_token_there_is_only_a_note(node: "NodeFolder") -> None:
    assert [(f.name, f.severity.value) for f in check_files(node.subject())] == [
        ("tls", "ok"),
        ("guard", "note"),
    ]


@pytest.mark.parametrize(
    ("after_days", "severity", "word"),
    [
        (0.1, "ok", "valid until"),
        (15.9, "ok", "valid until"),
        (17.0, "warning", "in 12 days"),
        (29.5, "warning", "in 0 days"),
        (31.5, "error", "1 day ago"),
        (-1.0, "error", "not valid before"),
    ],
)
def test_the_severity_depends_on_the_dates_of_the_certificate(
    node: "NodeFolder", pair: Pair, after_days: float, severity: str, word: str
) -> None:
    finding = by_name(node.subject(tls(pair), at=time() + after_days * DAY), "certificate")
    assert finding.severity == severity
    assert word in finding.found
    assert (finding.advice is None) == (severity == "ok")


def test_the_dates_of_the_client_ca_are_checked(node: "NodeFolder", pair: Pair, other: Pair) -> None:
    subject = node.subject(tls(pair, tls_client_ca=str(other.certificate)), at=time() + 20 * DAY)
    assert by_name(subject, "client-ca").severity == "warning"
    assert not any(finding.name == "guard" for finding in check_files(subject))


def test_a_key_of_another_certificate_is_an_error(node: "NodeFolder", pair: Pair, other: Pair) -> None:
    finding = by_name(node.subject(tls(Pair(pair.certificate, other.key))), "tls")
    assert finding.severity == "error"
    assert "belong" in finding.found


def test_a_missing_certificate_is_an_error_that_names_it(node: "NodeFolder", pair: Pair) -> None:
    finding = by_name(node.subject(tls(Pair(Path("/nowhere/server.pem"), pair.key))), "tls")
    assert finding.severity == "error"
    assert "/nowhere/server.pem" in finding.found


@pytest.mark.parametrize(("environ", "severity"), [({}, "warning"), (POD, "note")])
def test_world_readable_secrets_are_reported(
    node: "NodeFolder", pair: Pair, environ: dict[str, str], severity: str
) -> None:
    key, token = node.folder / "open.key", node.folder / "open.token"
    shutil.copy(pair.key, key)
    key.chmod(0o644)
    token.write_text("s3cret\n")
    token.chmod(0o604)
    subject = node.subject(tls(Pair(pair.certificate, key), token_file=str(token)), environ=environ)
    readable = [f for f in check_files(subject) if "every user" in f.found]
    assert [(f.name, f.severity.value) for f in readable] == [("tls-key", severity), ("token-file", severity)]


def test_a_good_token_file_is_ok_and_its_content_is_not_shown(node: "NodeFolder", pair: Pair) -> None:
    token = node.folder / "token"
    token.write_text("s3cret\n")
    token.chmod(0o640)
    found = check_files(node.subject(tls(pair, token_file=str(token))))
    assert all(finding.severity == "ok" for finding in found)
    assert "s3cret" not in str(found)


def test_a_token_without_tls_gets_a_note(node: "NodeFolder") -> None:
    token = node.folder / "token"
    token.write_text("s3cret\n")
    token.chmod(0o600)
    notes = [f.found for f in check_files(node.subject({"token_file": str(token)})) if f.severity == "note"]
    assert notes == ["tokens are sent unencrypted because TLS is off"]


@pytest.mark.parametrize("content", ["", "\n \n"])
def test_an_empty_token_file_is_an_error(node: "NodeFolder", content: str) -> None:
    token = node.folder / "token"
    token.write_text(content)
    finding = by_name(node.subject({"token_file": str(token)}), "token-file")
    assert finding.severity == "error"
    assert "contains no token" in finding.found


def test_an_unreadable_token_file_is_an_error(
    node: "NodeFolder", ordinary_user: Callable[[], AbstractContextManager[None]]
) -> None:
    token = node.folder / "token"
    token.write_text("s3cret\n")
    token.chmod(0)
    with ordinary_user():
        finding = by_name(node.subject({"token_file": str(token)}), "token-file")
    assert finding.severity == "error"
    assert "Permission denied" in finding.found
