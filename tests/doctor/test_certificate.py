"""Dates of certificates made with openssl, and of invalid files."""

import subprocess
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelscope.doctor.http import NotACertificate, validities

KEYS = {
    "ec": ["ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"],
    "rsa": ["rsa:2048"],
}


def certificate(folder: Path, name: str, *, days: int, key: str = "ec") -> str:
    path = folder / f"{name}.pem"
    command = ["openssl", "req", "-x509", "-newkey", *KEYS[key], "-nodes", "-subj", f"/CN={name}"]
    command += ["-days", str(days), "-keyout", str(folder / f"{name}.key"), "-out", str(path)]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    return path.read_text()


@pytest.mark.parametrize(
    ("key", "days"),
    [("ec", 1), ("rsa", 30), ("ec", 36500)],  # the last ends after 2049: another form of time
)
def test_the_dates_match_those_of_openssl(tmp_path: Path, key: str, days: int) -> None:
    [found] = validities(certificate(tmp_path, "server", days=days, key=key))
    now = datetime.now(UTC)
    assert abs(found.not_before - now) < timedelta(hours=1)
    assert abs(found.not_after - now - timedelta(days=days)) < timedelta(hours=1)


def test_every_certificate_of_a_chain_is_read(tmp_path: Path) -> None:
    chain = (
        certificate(tmp_path, "server", days=3) + "a line of comment\n" + certificate(tmp_path, "ca", days=9)
    )
    first, second = validities(chain)
    assert second.not_after - first.not_after > timedelta(days=5)


def test_a_file_without_certificates_has_no_dates() -> None:
    assert validities("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n") == []


@given(st.text(alphabet="ABCDwxyz019+/=\n", max_size=200))
def test_garbage_raises_only_not_a_certificate(body: str) -> None:
    with suppress(NotACertificate):
        validities(f"-----BEGIN CERTIFICATE-----\n{body}\n-----END CERTIFICATE-----\n")


def test_a_truncated_certificate_is_rejected(tmp_path: Path) -> None:
    lines = certificate(tmp_path, "server", days=1).splitlines()
    truncated = "\n".join([*lines[:3], lines[-1]]) + "\n"
    with pytest.raises(NotACertificate):
        validities(truncated)
