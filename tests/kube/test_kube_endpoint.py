"""Addresses, and tokens that others rotate."""

from pathlib import Path

import pytest

from accelscope.kube.endpoint import (
    TEXT_LIMIT,
    Endpoint,
    EndpointError,
    KubeError,
    Reason,
    TokenFile,
    in_cluster,
)


@pytest.mark.parametrize(
    ("url", "host", "port", "base_path", "authority"),
    [
        ("https://10.0.0.1", "10.0.0.1", 443, "", "10.0.0.1"),
        ("https://api.example:6443/", "api.example", 6443, "", "api.example:6443"),
        ("https://[fd00::1]:6443", "fd00::1", 6443, "", "[fd00::1]:6443"),
        ("https://rancher.example/k8s/clusters/c-1/", "rancher.example", 443, "/k8s/clusters/c-1", None),
        ("http://127.0.0.1:8001", "127.0.0.1", 8001, "", "127.0.0.1:8001"),
        ("http://127.8.9.1:80", "127.8.9.1", 80, "", "127.8.9.1"),
        ("http://[::1]:8001", "::1", 8001, "", "[::1]:8001"),
        ("http://localhost:8001", "localhost", 8001, "", "localhost:8001"),
    ],
)
def test_urls(url: str, host: str, port: int, base_path: str, authority: str | None) -> None:
    endpoint = Endpoint(url)
    assert (endpoint.host, endpoint.port, endpoint.base_path) == (host, port, base_path)
    assert endpoint.secure is url.startswith("https")
    assert endpoint.authority == (authority or host)


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("", "not an https"),
        ("api.example:6443", "not an https"),
        ("ftp://x", "not an https"),
        ("https://", "not an https"),
        ("https://x:port", "(?i)port"),
        ("https://x:70000", "(?i)port"),
        ("https://[::1", "(?i)invalid"),
        ("https://x y", "not a URL"),
        ("https://x/\n", "not a URL"),
        ("https://x?a=b", "query"),
        ("https://x/#a", "fragment"),
        ("http://10.0.0.1", "unencrypted"),
        ("http://api.example", "unencrypted"),
        ("http://127.0.0.1.example", "unencrypted"),
        ("http://127.1.example:80", "unencrypted"),
        ("http://[::2]", "unencrypted"),
        ("http://0.0.0.0", "unencrypted"),
    ],
)
def test_urls_that_cannot_be_used(url: str, problem: str) -> None:
    with pytest.raises(EndpointError, match=problem) as caught:
        Endpoint(url)
    assert "\n" not in str(caught.value)


def test_a_password_in_a_url_is_not_repeated() -> None:
    with pytest.raises(EndpointError) as caught:
        Endpoint("https://me:hunter2@x")
    assert "hunter2" not in str(caught.value)


def test_http_to_another_machine_may_be_allowed_without_credentials() -> None:
    endpoint = Endpoint("http://node1:9400/base/", allow_http=True)
    assert (endpoint.secure, endpoint.host, endpoint.port, endpoint.base_path) == (
        False,
        "node1",
        9400,
        "/base",
    )
    for token, certificate in (("token", None), (None, "cert.pem")):
        with pytest.raises(EndpointError, match="a token must not be sent over http"):
            Endpoint("http://node1:9400", token, client_certificate=certificate, allow_http=True)


def test_a_key_needs_its_certificate() -> None:
    with pytest.raises(EndpointError, match="requires a client certificate"):
        Endpoint("https://x", client_key="key.pem")


@pytest.mark.parametrize(
    ("environ", "url"),
    [
        ({"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443"}, "https://10.96.0.1:443"),
        ({"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "6443"}, "https://[fd00::1]:6443"),
        ({"KUBERNETES_SERVICE_HOST": "[fd00::1]"}, "https://[fd00::1]:443"),
    ],
)
def test_in_a_cluster(environ: dict[str, str], url: str) -> None:
    assert in_cluster(environ, "token", "ca.crt") == Endpoint(url, "token", "ca.crt")


def test_outside_of_a_cluster() -> None:
    assert in_cluster({"KUBERNETES_SERVICE_PORT": "443"}, "token", "ca.crt") is None


class TestToken:
    @pytest.fixture
    def file(self, tmp_path: Path) -> Path:
        file = tmp_path / "token"
        file.write_text("first\n")
        return file

    def test_a_rotated_token_is_taken_up_at_once(self, file: Path) -> None:
        token = TokenFile(str(file))
        before = token.generation()
        assert (token.read(), token.generation()) == ("first", before)
        file.write_text("second")
        assert token.generation() != before
        assert token.read() == "second"

    def test_through_a_symlink_as_the_kubelet_mounts_it(self, tmp_path: Path) -> None:
        for name in ("one", "two"):
            (tmp_path / name).mkdir()
            (tmp_path / name / "token").write_text(f"token-{name}")
        (tmp_path / "..data").symlink_to("one")
        (tmp_path / "token").symlink_to("..data/token")
        token = TokenFile(str(tmp_path / "token"))
        assert token.read() == "token-one"
        (tmp_path / "..new").symlink_to("two")
        (tmp_path / "..new").rename(tmp_path / "..data")
        assert token.read() == "token-two"

    def test_it_is_re_read_every_minute_even_if_nothing_shows(
        self, file: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        now = 100.0
        token = TokenFile(str(file), clock=lambda: now)
        token.read()
        monkeypatch.setattr("accelscope.files.FileWatch.changed", lambda _: False)
        file.write_text("second")
        now = 159.0
        assert token.read() == "first"
        now = 160.0
        assert token.read() == "second"

    @pytest.mark.parametrize(
        ("content", "problem"),
        [
            (b"", "empty"),
            (b" \n", "empty"),
            (b"se cret", "does not contain a token"),
            (b"secret\xff", "does not contain a token"),
            (b"s" * 70000, "does not contain a token"),
        ],
    )
    def test_a_bad_file_is_told_without_its_content(self, file: Path, content: bytes, problem: str) -> None:
        file.write_bytes(content)
        with pytest.raises(KubeError, match=problem) as caught:
            TokenFile(str(file)).read()
        assert caught.value.reason is Reason.UNAUTHORIZED
        assert "cret" not in caught.value.text
        assert len(caught.value.text) < TEXT_LIMIT

    def test_a_file_that_comes_later(self, tmp_path: Path) -> None:
        token = TokenFile(str(tmp_path / "token"))
        with pytest.raises(KubeError, match=r"cannot read token file .*: No such file") as caught:
            token.read()
        assert caught.value.reason is Reason.UNAUTHORIZED
        before = token.generation()
        (tmp_path / "token").write_text("here")
        assert token.generation() != before
        assert token.read() == "here"


def test_an_error_is_one_short_line() -> None:
    error = KubeError(Reason.SERVER_ERROR, "a\nb\x1b[31m\r\n" + "long " * 500)
    assert error.text.startswith("a b [31m long")
    assert (len(error.text), error.text.isprintable()) == (TEXT_LIMIT, True)
