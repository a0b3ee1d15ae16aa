"""A user of a kubeconfig: tokens, certificates, credential plugins, and whom to impersonate."""

import base64
import json
from urllib.parse import quote

from accelscope.config.kind import quoted
from accelscope.fleet.clusters.section import read_text
from accelscope.fleet.clusters.server import CredentialPlugin, Identity
from accelscope.fleet.clusters.stanza import Stanza

_PLUGIN_GROUP = "client.authentication.k8s.io"
_PLUGIN_VERSIONS = (f"{_PLUGIN_GROUP}/v1", f"{_PLUGIN_GROUP}/v1beta1")
_PLUGIN_EXTENSION = f"{_PLUGIN_GROUP}/exec"  # in a cluster: what its plugins are told beside


def identity_of(user: Stanza, cluster: Stanza) -> Identity:
    if user.fields.get("auth-provider"):
        raise user.error(
            "auth-provider was taken out of Kubernetes with 1.26; use an exec credential plugin in its place"
        )
    certificate, key = user.material("client-certificate"), user.material("client-key")
    if (certificate is None) != (key is None):
        raise user.error("client-certificate and client-key belong together")
    username, password = user.text("username"), user.text("password")
    if (user.text("token") or user.text("tokenFile")) and username:
        raise user.error("a token and a username exclude each other")
    return Identity(
        token=user.text("token"),
        token_file=user.path("tokenFile"),
        username=username,
        password=password,
        certificate=certificate,
        key=key,
        plugin=_plugin(user, cluster),
        impersonation=_impersonation(user),
    )


def _impersonation(user: Stanza) -> tuple[tuple[str, str], ...]:
    name = user.text("as")
    groups = [_item(user, "as-groups", group) for group in user.entries("as-groups")]
    uid = user.text("as-uid")
    extra = user.mapping("as-user-extra") or {}
    if name is None:
        if groups or uid or extra:
            raise user.error("as-groups, as-uid and as-user-extra need as")
        return ()
    fields = [("Impersonate-User", name), *(("Impersonate-Group", group) for group in groups)]
    if uid is not None:
        fields.append(("Impersonate-Uid", uid))
    for key, values in extra.items():
        if not isinstance(values, list):
            raise user.error("as-user-extra is not a mapping to lists")
        header = f"Impersonate-Extra-{quote(key, safe='')}"
        fields += [(header, _item(user, "as-user-extra", value)) for value in values]
    for _, value in fields:
        if not value.isprintable():
            raise user.error("what is impersonated holds control characters")
    return tuple(fields)


def _plugin(user: Stanza, cluster: Stanza) -> CredentialPlugin | None:
    fields = user.mapping("exec")
    if fields is None:
        return None
    plugin = Stanza(f"{user.where}: exec", user.folder, fields)
    version = plugin.text("apiVersion")
    if version not in _PLUGIN_VERSIONS:
        shown = quoted(version) if version else "none"
        raise plugin.error(f"apiVersion is {shown}; {' and '.join(_PLUGIN_VERSIONS)} are supported")
    command = plugin.text("command")
    if command is None:
        raise plugin.error("has no command")
    if plugin.text("interactiveMode") == "Always":
        raise plugin.error("interactiveMode is Always, and there is nobody here to answer it")
    environment = []
    for entry in plugin.entries("env"):
        name = entry.get("name") if isinstance(entry, dict) else None
        value = entry.get("value") if isinstance(entry, dict) else None
        if not isinstance(name, str) or not name or not isinstance(value, str | None):
            raise plugin.error("env is not a list of name and value")
        environment.append((name, value or ""))
    return CredentialPlugin(
        name=user.where,
        api_version=str(version),
        # As with a shell: a name alone is looked for in PATH, a path is one, relative to the kubeconfig.
        command=str(plugin.folder / command) if "/" in command else command,
        arguments=tuple(_item(plugin, "args", value) for value in plugin.entries("args")),
        environment=tuple(environment),
        install_hint=plugin.text("installHint"),
        cluster=_cluster_told(cluster) if plugin.flag("provideClusterInfo") else None,
    )


def _cluster_told(cluster: Stanza) -> str:
    """spec.cluster of what a plugin is told of itself: JSON."""
    told: dict[str, object] = {"server": cluster.text("server")}
    for key in ("tls-server-name", "proxy-url"):
        if (text := cluster.text(key)) is not None:
            told[key] = text
    for key in ("insecure-skip-tls-verify", "disable-compression"):
        if cluster.flag(key):
            told[key] = True
    authority = cluster.material("certificate-authority")
    if authority is not None:
        content = authority.content or read_text(str(authority.path)).encode()
        told["certificate-authority-data"] = base64.b64encode(content).decode("ascii")
    for entry in cluster.entries("extensions"):
        if isinstance(entry, dict) and entry.get("name") == _PLUGIN_EXTENSION:
            told["config"] = entry.get("extension")
    return json.dumps(told)


def _item(stanza: Stanza, key: str, value: object) -> str:
    if not isinstance(value, str):
        raise stanza.error(f"{key} is not a list of texts")
    return value
