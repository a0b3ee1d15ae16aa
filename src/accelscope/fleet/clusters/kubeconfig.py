"""Kubeconfigs as kubectl reads them: several files merged, and a context of them resolved to a server."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from accelscope.config import ConfigError
from accelscope.config.kind import quoted
from accelscope.fleet.clusters.kubeconfig_user import identity_of
from accelscope.fleet.clusters.section import read_text, yaml_problem
from accelscope.fleet.clusters.server import Identity, Server, checked_proxy, checked_url
from accelscope.fleet.clusters.stanza import Stanza

_LOADER = yaml.CBaseLoader if yaml.__with_libyaml__ else yaml.BaseLoader


@dataclass(frozen=True, slots=True)
class Kubeconfig:
    paths: tuple[str, ...]
    current_context: str | None
    contexts: Mapping[str, Stanza]
    clusters: Mapping[str, Stanza]
    users: Mapping[str, Stanza]

    def server(self, context: str | None = None) -> tuple[Server, Identity]:
        """Raises ConfigError, whose text never holds a secret."""
        found = self._context(context)
        cluster = self._named(self.clusters, "cluster", found)
        server = _server(cluster)
        if found.text("user") is None:
            return server, Identity()
        return server, identity_of(self._named(self.users, "user", found), cluster)

    def _context(self, name: str | None) -> Stanza:
        wanted = name or self.current_context
        files = ":".join(self.paths)
        if wanted is None:
            raise ConfigError(f"{files}: there is no current context; name one")
        if wanted not in self.contexts:
            known = ", ".join(sorted(self.contexts)) or "none at all"
            raise ConfigError(f"{files}: there is no context {quoted(wanted)}; there is {known[:200]}")
        return self.contexts[wanted]

    def _named(self, stanzas: Mapping[str, Stanza], kind: str, context: Stanza) -> Stanza:
        name = context.text(kind)
        if name is None:
            raise context.error(f"names no {kind}")
        if name not in stanzas:
            raise context.error(f"there is no {kind} {quoted(name)}")
        return stanzas[name]


def kubeconfig_paths(environ: Mapping[str, str]) -> tuple[str, ...]:
    """The files that kubectl would merge."""
    listed = [path for path in environ.get("KUBECONFIG", "").split(os.pathsep) if path]
    if listed:
        return tuple(dict.fromkeys(listed))
    home = environ.get("HOME", "")
    return (str(Path(home) / ".kube" / "config"),) if home else ()


def read_kubeconfig(paths: Sequence[str]) -> Kubeconfig:
    """Merged: of two things with one name the first counts, and files that are not there are passed over
    unless all of them are. Raises ConfigError."""
    present = [path for path in paths if os.path.lexists(path)]
    if not present:
        raise ConfigError(f"{':'.join(paths) or 'kubeconfig'}: there is no such file")
    current: str | None = None
    merged: dict[str, dict[str, Stanza]] = {"contexts": {}, "clusters": {}, "users": {}}
    for path in present:
        document = _document(path)
        named = document.get("current-context")
        current = current or (named if isinstance(named, str) and named else None)
        for plural, stanzas in merged.items():
            for name, stanza in _stanzas(path, document, plural):
                stanzas.setdefault(name, stanza)
    return Kubeconfig(tuple(present), current, **merged)


def _document(path: str) -> Mapping[str, object]:
    text = read_text(path)
    try:
        document = _parsed(text)
    except yaml.MarkedYAMLError as error:
        raise ConfigError(yaml_problem(path, text, error)) from None
    except yaml.YAMLError as error:  # a character that YAML does not allow
        raise ConfigError(f"{path}: not valid YAML: {' '.join(str(error).split())}") from None
    except RecursionError:
        raise ConfigError(f"{path}: nested too deep") from None
    if document is None or document == "":
        return {}
    if not isinstance(document, dict):
        raise ConfigError(f"{path}: not a kubeconfig")
    return document


def _parsed(text: str) -> object:
    if text.lstrip().startswith("{"):
        try:
            return json.loads(text)  # may hold tabs, which YAML refuses
        except ValueError:
            pass  # YAML may begin so, too
    # All scalars as text: a token of digits is not a number.
    return yaml.load(text, Loader=_LOADER)  # noqa: S506 - makes nothing but text, lists and dicts


def _stanzas(path: str, document: Mapping[str, object], plural: str) -> list[tuple[str, Stanza]]:
    singular = plural.removesuffix("s")
    entries = document.get(plural)
    if entries is None or entries == "":
        return []
    if not isinstance(entries, list):
        raise ConfigError(f"{path}: {plural} is not a list")
    found = []
    for number, entry in enumerate(entries):
        name = entry.get("name") if isinstance(entry, dict) else None
        fields = entry.get(singular) if isinstance(entry, dict) else None
        if not isinstance(name, str) or not name or not isinstance(fields, dict | str | None):
            raise ConfigError(f"{path}: {plural}[{number}] is not a name and a {singular}")
        shown = fields if isinstance(fields, dict) else {}
        found.append((name, Stanza(f"{path}: {singular} {quoted(name)}", Path(path).parent, shown)))
    return found


def _server(cluster: Stanza) -> Server:
    authority = cluster.material("certificate-authority")
    skip = cluster.flag("insecure-skip-tls-verify")
    if skip and authority is not None:
        raise cluster.error("certificate-authority and insecure-skip-tls-verify exclude each other")
    url = cluster.text("server")
    if url is None:
        raise cluster.error("has no server")
    if "://" not in url:
        url = f"{'https' if skip or authority else 'http'}://{url}"
    proxy = cluster.text("proxy-url")
    try:
        return Server(
            url=checked_url(url),
            authority=authority,
            skip_tls_verify=skip,
            tls_server_name=cluster.text("tls-server-name"),
            proxy_url=None if proxy is None else checked_proxy(proxy),
            compression=not cluster.flag("disable-compression"),
        )
    except ConfigError as error:
        raise cluster.error(str(error)) from None
