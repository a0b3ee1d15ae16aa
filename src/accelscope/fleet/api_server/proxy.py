"""The proxy that the environment names, by the rules that kubectl follows, and the pod proxy's paths."""

import ipaddress
from collections.abc import Mapping
from urllib.parse import quote, urlsplit

from accelscope.fleet.clusters.server import checked_proxy
from accelscope.kube.endpoint import is_loopback


def environment_proxy(url: str, environ: Mapping[str, str]) -> str | None:
    """HTTPS_PROXY or HTTP_PROXY, unless NO_PROXY names the host. Raises ConfigError."""
    parts = urlsplit(url)
    name = f"{parts.scheme}_proxy"
    proxy = environ.get(name.upper()) or environ.get(name)
    host = parts.hostname or ""
    if not proxy or is_loopback(host):
        return None
    port = parts.port or (443 if parts.scheme == "https" else 80)
    exempt = environ.get("NO_PROXY") or environ.get("no_proxy") or ""
    if any(_matches(rule.strip().lower(), host.lower(), port) for rule in exempt.split(",")):
        return None
    return checked_proxy(proxy if "://" in proxy else f"http://{proxy}")


def _matches(rule: str, host: str, port: int) -> bool:
    """`*`, an address, a network, a domain with all below it, `.domain` for those below it only; `:port`
    after them."""
    if rule in ("", "*"):
        return rule == "*"
    address = _address(host)
    if "/" in rule:
        return address is not None and address in (_network(rule) or ())
    if _address(rule) is None and rule.rpartition("]")[2].count(":") == 1:
        rule, _, wanted = rule.rpartition(":")
        if wanted != str(port):
            return False
    if (exact := _address(rule.strip("[]"))) is not None:
        return address == exact
    rule = rule.removeprefix("*")
    return host.endswith(rule) if rule.startswith(".") else f".{host}".endswith(f".{rule}")


def _network(rule: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    try:
        return ipaddress.ip_network(rule, strict=False)
    except ValueError:
        return None


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def pod_proxy_path(namespace: str, pod: str, port: int, path: str, scheme: str = "http") -> str:
    """A pod's port through the API server, which needs `get` on `pods/proxy`. It drops the Authorization
    header, and with https it checks no certificate."""
    target = f"https:{pod}:{port}" if scheme == "https" else f"{pod}:{port}"
    names = f"namespaces/{quote(namespace, safe='')}/pods/{quote(target, safe=':')}"
    return f"/api/v1/{names}/proxy/{path.lstrip('/')}"
