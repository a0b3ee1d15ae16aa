"""Kubeconfigs as kubectl reads them: several files are merged, and a context is resolved to a server and an
identity. Also the default cluster without a clusters file: kubectl's current context, or the pod's
cluster."""

import base64
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import yaml

from accelscope.config import BOOLEAN, BadValue, ConfigError, Text, ValueKind, quoted
from accelscope.config.document import Section, parse_yaml, read_text
from accelscope.fleet.clusters import (
    Access,
    AddressAccess,
    AgentsEntry,
    AnnotationsEntry,
    ClusterEntry,
    ExecEntry,
    KubeconfigAccess,
    checked_proxy,
    checked_url,
    kubeconfig_paths,
)
from accelscope.kube.endpoint import PemSource, in_cluster

_LOADER = yaml.CBaseLoader if yaml.__with_libyaml__ else yaml.BaseLoader
_PLUGIN_GROUP = "client.authentication.k8s.io"
_PLUGIN_VERSIONS = (f"{_PLUGIN_GROUP}/v1", f"{_PLUGIN_GROUP}/v1beta1")
_PLUGIN_EXTENSION = f"{_PLUGIN_GROUP}/exec"  # extension of a cluster with data for plugins
_SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_TEXT = Text("text", r"(?s).*", secret=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedServer:
    url: str  # without a trailing slash
    authority: PemSource | None = None  # None: the CAs of the system
    skip_tls_verify: bool = False
    tls_server_name: str | None = None
    proxy_url: str | None = field(default=None, repr=False)  # may contain a password
    compression: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class CredentialPlugin:
    """A command that prints an ExecCredential."""

    name: str  # kubeconfig and user, for errors
    api_version: str
    command: str
    arguments: tuple[str, ...] = field(default=(), repr=False)
    environment: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    install_hint: str | None = None
    # JSON of spec.cluster, if the plugin needs it.
    cluster: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Credentials of a user. A token is used together with a certificate and takes precedence over a
    plugin."""

    token: str | None = field(default=None, repr=False)
    token_file: str | None = None
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    certificate: PemSource | None = None
    key: PemSource | None = None
    plugin: CredentialPlugin | None = None
    impersonation: tuple[tuple[str, str], ...] = ()  # header fields


class _Base64(ValueKind[bytes]):
    allowed = "base64"
    secret = True

    def parse(self, text: str) -> bytes:
        try:
            return base64.b64decode("".join(text.split()), validate=True)
        except ValueError:
            raise BadValue from None


_BASE64 = _Base64()


class KubeconfigEntry(Section):
    """A named cluster, user or context. As in kubectl, empty values count as missing and unknown keys are
    ignored. Errors never contain values, which may be secrets."""

    def path(self, key: str) -> str:
        return f"{self.where}: {key}" if self.where else key

    def raw(self, key: str) -> Any:
        return super().raw(key) or None

    def text(self, key: str) -> str | None:
        return self.take(key, _TEXT)

    def flag(self, key: str) -> bool:
        return self.take(key, BOOLEAN, default=False)

    def file_path(self, key: str) -> str | None:
        """Relative to the folder of the kubeconfig."""
        text = self.text(key)
        return None if text is None else str(self.folder / text)

    @property
    def folder(self) -> Path:
        return Path(str(self.file)).parent

    def pem(self, key: str) -> PemSource | None:
        """`key` is a path, `key-data` is base64 and takes precedence."""
        content = self.take(f"{key}-data", _BASE64)
        if content is not None:
            return PemSource(f"{key}-data of {self.file}: {self.where}", content=content)
        path = self.file_path(key)
        return None if path is None else PemSource(path, path=path)


@dataclass(frozen=True, slots=True)
class Kubeconfig:
    paths: tuple[str, ...]
    current_context: str | None
    contexts: Mapping[str, KubeconfigEntry]
    clusters: Mapping[str, KubeconfigEntry]
    users: Mapping[str, KubeconfigEntry]

    def server(self, context: str | None = None) -> tuple[ResolvedServer, Identity]:
        """Raises ConfigError, whose text never contains a secret."""
        found = self._context(context)
        cluster = self._named(self.clusters, "cluster", found)
        server = _server(cluster)
        if found.text("user") is None:
            return server, Identity()
        return server, identity_of(self._named(self.users, "user", found), cluster)

    def _context(self, name: str | None) -> KubeconfigEntry:
        wanted = name or self.current_context
        files = ":".join(self.paths)
        if wanted is None:
            raise ConfigError(f"{files}: no current context; choose one with --kube-context")
        if wanted not in self.contexts:
            known = ", ".join(sorted(self.contexts)) or "none"
            raise ConfigError(f"{files}: context {quoted(wanted)} not found; contexts: {known[:200]}")
        return self.contexts[wanted]

    @staticmethod
    def _named(
        entries: Mapping[str, KubeconfigEntry], kind: str, context: KubeconfigEntry
    ) -> KubeconfigEntry:
        name = context.text(kind)
        if name is None:
            raise context.error(None, f"has no {kind}")
        if name not in entries:
            raise context.error(None, f"{kind} {quoted(name)} not found")
        return entries[name]


def read_kubeconfig(paths: Sequence[str]) -> Kubeconfig:
    """Merges the files: the first entry of a name counts, and missing files are ignored unless all are
    missing. Raises ConfigError."""
    present = [path for path in paths if os.path.lexists(path)]
    if not present:
        raise ConfigError(f"{':'.join(paths) or 'kubeconfig'}: file not found")
    current: str | None = None
    merged: dict[str, dict[str, KubeconfigEntry]] = {"contexts": {}, "clusters": {}, "users": {}}
    for path in present:
        document = _document(path)
        current = current or document.text("current-context")
        for plural, entries in merged.items():
            for name, entry in _entries(document, plural):
                entries.setdefault(name, entry)
    return Kubeconfig(tuple(present), current, **merged)


def _document(path: str) -> KubeconfigEntry:
    return KubeconfigEntry(parse_yaml(read_text(path), _parsed, path) or {}, file=path)


def _parsed(text: str) -> object:
    if text.lstrip().startswith("{"):
        try:
            return json.loads(text)  # may contain tabs, which YAML rejects
        except ValueError:
            pass  # also valid as the beginning of YAML
    # Scalars stay text, so that a token of digits is not a number.
    return yaml.load(text, Loader=_LOADER)  # noqa: S506 - creates only text, lists and dicts


def _entries(document: KubeconfigEntry, plural: str) -> Iterator[tuple[str, KubeconfigEntry]]:
    singular = plural.removesuffix("s")
    for member in document.sections(plural):
        name = member.require("name", _TEXT)
        yield (
            name,
            KubeconfigEntry(member.raw(singular) or {}, f"{singular} {quoted(name)}", file=document.file),
        )


def _server(cluster: KubeconfigEntry) -> ResolvedServer:
    authority = cluster.pem("certificate-authority")
    skip = cluster.flag("insecure-skip-tls-verify")
    if skip and authority is not None:
        raise cluster.error(None, "certificate-authority and insecure-skip-tls-verify exclude each other")
    url = cluster.text("server")
    if url is None:
        raise cluster.error(None, "has no server")
    if "://" not in url:
        url = f"{'https' if skip or authority else 'http'}://{url}"
    proxy = cluster.text("proxy-url")
    try:
        return ResolvedServer(
            url=checked_url(url),
            authority=authority,
            skip_tls_verify=skip,
            tls_server_name=cluster.text("tls-server-name"),
            proxy_url=None if proxy is None else checked_proxy(proxy),
            compression=not cluster.flag("disable-compression"),
        )
    except ConfigError as error:
        raise cluster.error(None, str(error)) from None


def identity_of(user: KubeconfigEntry, cluster: KubeconfigEntry) -> Identity:
    if user.raw("auth-provider"):
        raise user.error("auth-provider", "removed in Kubernetes 1.26; use an exec credential plugin")
    certificate, key = user.pem("client-certificate"), user.pem("client-key")
    if (certificate is None) != (key is None):
        raise user.error(None, "client-certificate and client-key must be set together")
    username, password = user.text("username"), user.text("password")
    if (user.text("token") or user.text("tokenFile")) and username:
        raise user.error(None, "a token and a username exclude each other")
    return Identity(
        token=user.text("token"),
        token_file=user.file_path("tokenFile"),
        username=username,
        password=password,
        certificate=certificate,
        key=key,
        plugin=_plugin(user, cluster),
        impersonation=_impersonation(user),
    )


def _impersonation(user: KubeconfigEntry) -> tuple[tuple[str, str], ...]:
    name = user.text("as")
    groups = user.take_each("as-groups", _TEXT)
    uid = user.text("as-uid")
    extra = user.section("as-user-extra")
    if name is None:
        if groups or uid or extra.keys:
            raise user.error(None, "as-groups, as-uid and as-user-extra require as")
        return ()
    fields = [("Impersonate-User", name), *(("Impersonate-Group", group) for group in groups)]
    if uid is not None:
        fields.append(("Impersonate-Uid", uid))
    for key in extra.keys:
        header = f"Impersonate-Extra-{quote(key, safe='')}"
        fields += [(header, value) for value in extra.take_each(key, _TEXT)]
    for _, value in fields:
        if not value.isprintable():
            raise user.error(None, "impersonation values contain control characters")
    return tuple(fields)


def _plugin(user: KubeconfigEntry, cluster: KubeconfigEntry) -> CredentialPlugin | None:
    if user.raw("exec") is None:
        return None
    plugin = user.section("exec")
    version = plugin.text("apiVersion")
    if version not in _PLUGIN_VERSIONS:
        shown = quoted(version) if version else "none"
        raise plugin.error(None, f"apiVersion is {shown}; {' and '.join(_PLUGIN_VERSIONS)} are supported")
    command = plugin.text("command")
    if command is None:
        raise plugin.error(None, "has no command")
    if plugin.text("interactiveMode") == "Always":
        raise plugin.error(None, "interactiveMode Always is not supported: the fleet has no terminal")
    return CredentialPlugin(
        name=f"{user.file}: {user.where}",
        api_version=str(version),
        # A name is searched in PATH; a path is relative to the kubeconfig.
        command=str(plugin.folder / command) if "/" in command else command,
        arguments=plugin.take_each("args", _TEXT),
        environment=tuple(
            (variable.require("name", _TEXT), variable.take("value", _TEXT, ""))
            for variable in plugin.sections("env")
        ),
        install_hint=plugin.text("installHint"),
        cluster=_cluster_json(cluster) if plugin.flag("provideClusterInfo") else None,
    )


def _cluster_json(cluster: KubeconfigEntry) -> str:
    """spec.cluster of the ExecCredential that a plugin receives, as JSON."""
    document: dict[str, object] = {"server": cluster.text("server")}
    for key in ("tls-server-name", "proxy-url"):
        if (text := cluster.text(key)) is not None:
            document[key] = text
    for key in ("insecure-skip-tls-verify", "disable-compression"):
        if cluster.flag(key):
            document[key] = True
    authority = cluster.pem("certificate-authority")
    if authority is not None:
        content = authority.content or read_text(str(authority.path)).encode()
        document["certificate-authority-data"] = base64.b64encode(content).decode("ascii")
    for extension in cluster.sections("extensions"):
        if extension.raw("name") == _PLUGIN_EXTENSION:
            document["config"] = extension.raw("extension")
    return json.dumps(document)


def resolve(access: Access) -> tuple[ResolvedServer, Identity]:
    """Reads no files except kubeconfigs. Raises ConfigError, whose text never contains a secret."""
    if isinstance(access, KubeconfigAccess):
        return read_kubeconfig(access.paths).server(access.context)
    if access.client_key_file is not None and access.client_certificate_file is None:
        raise ConfigError(f"{access.url}: a client key without a client certificate")
    server = ResolvedServer(
        url=checked_url(access.url, plain_http=access.plain_http and access.token_file is None),
        authority=_file(access.ca_file),
        skip_tls_verify=access.insecure_skip_tls_verify,
        tls_server_name=access.tls_server_name,
        proxy_url=None if access.proxy_url is None else checked_proxy(access.proxy_url),
    )
    certificate = _file(access.client_certificate_file)
    key = _file(access.client_key_file) or certificate  # one file may contain both
    return server, Identity(token_file=access.token_file, certificate=certificate, key=key)


def default_clusters(environ: Mapping[str, str], context: str | None = None) -> tuple[ClusterEntry, ...]:
    """The cluster without a clusters file: the one that kubectl uses, or in a pod without a kubeconfig the
    pod's own. Raises ConfigError."""
    paths = kubeconfig_paths(environ)
    if context is not None:
        read_kubeconfig(paths).server(context)  # fails at the start if it is invalid
    elif any(Path(path).exists() for path in paths):
        context = read_kubeconfig(paths).current_context
    if context is not None:
        # Fixed by name: a later change of the current context must not change the cluster.
        return (
            _entry_with_all_sources(
                _cluster_id(context), context, KubeconfigAccess(paths=paths, context=context)
            ),
        )
    token, authority = (str(_SERVICE_ACCOUNT / name) for name in ("token", "ca.crt"))
    endpoint = in_cluster(environ, token, authority)
    if endpoint is None:
        raise ConfigError(
            f"no cluster: {_without_context(paths)}, and this is not a pod; "
            "set --clusters-file, --kubeconfig or KUBECONFIG"
        )
    access = AddressAccess(url=endpoint.url, token_file=token, ca_file=authority)
    return (_entry_with_all_sources("in-cluster", None, access),)


def _without_context(paths: Sequence[str]) -> str:
    there = [path for path in paths if Path(path).exists()]
    if there:
        return f"{', '.join(there)} has no current context"
    return f"{', '.join(paths)} not found" if paths else "KUBECONFIG is not set"


def _entry_with_all_sources(cluster_id: str, name: str | None, access: Access) -> ClusterEntry:
    return ClusterEntry(
        id=cluster_id,
        name=name,
        access=access,
        agents=AgentsEntry(),
        exec=ExecEntry(),
        annotations=AnnotationsEntry(),
    )


def _cluster_id(context: str) -> str:
    """A valid id from the name of a context, such as kubernetes-admin@kubernetes."""
    return re.sub(r"[^a-z0-9.]+", "-", context.lower()).strip("-.")[:253].strip("-.") or "default"


def _file(path: str | None) -> PemSource | None:
    return None if path is None else PemSource(path, path=path)
