"""Which proxy the environment names, by the rules that kubectl follows."""

import pytest

from accelscope.config import ConfigError
from accelscope.fleet.api_server.connection import environment_proxy

PROXY = "http://proxy:3128"


@pytest.mark.parametrize(
    ("exempt", "passed_by"),
    [
        ("", ""),
        ("*", "https://a.example.com https://10.1.2.3 https://[fd00::1]"),
        ("example.com", "https://example.com https://a.example.com"),
        (".example.com", "https://a.example.com"),
        ("*.example.com", "https://a.example.com"),
        ("EXAMPLE.com:6443", "https://example.com:6443"),
        ("10.0.0.0/8, other", "https://10.1.2.3"),
        ("10.1.2.3", "https://10.1.2.3"),
        ("10.1.2.3:443", "https://10.1.2.3"),
        ("fd00::/8", "https://[fd00::1]"),
        ("fd00::1", "https://[fd00::1]"),
        ("[fd00::1]:443", "https://[fd00::1]"),
        ("10.0.0/99,ample.com", ""),
    ],
)
def test_hosts_in_no_proxy_are_reached_directly(exempt: str, passed_by: str) -> None:
    hosts = (
        "https://example.com",
        "https://example.com:6443",
        "https://a.example.com",
        "https://10.1.2.3",
        "https://[fd00::1]",
    )
    environ = {"HTTPS_PROXY": PROXY, "NO_PROXY": exempt}
    wanted = set(passed_by.split())
    if exempt in ("*", "example.com"):
        wanted.add("https://example.com")
        wanted.add("https://example.com:6443")
    assert {host for host in hosts if environment_proxy(host, environ) is None} == wanted


def test_each_scheme_has_its_own_proxy() -> None:
    environ = {"https_proxy": "proxy:3128", "HTTP_PROXY": "http://other:1", "HTTPS_PROXY": ""}
    assert environment_proxy("https://a", environ) == PROXY
    assert environment_proxy("http://a", environ) == "http://other:1"
    assert environment_proxy("https://a", {}) is None
    assert environment_proxy("https://127.0.0.1:6443", environ) is None, "this machine needs none"


def test_an_unsupported_proxy_is_rejected() -> None:
    with pytest.raises(ConfigError, match="socks5 proxies are not supported"):
        environment_proxy("https://a", {"HTTPS_PROXY": "socks5://me:hunter2@p"})
