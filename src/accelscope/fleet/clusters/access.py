"""From how a cluster is reached, as its entry says, to the server; and the clusters that need no file."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from accelscope.config import ConfigError
from accelscope.fleet.clusters.entry import (
    Access,
    AddressAccess,
    AgentsEntry,
    AnnotationsEntry,
    ClusterEntry,
    ExecEntry,
    KubeconfigAccess,
)
from accelscope.fleet.clusters.kubeconfig import kubeconfig_paths, read_kubeconfig
from accelscope.fleet.clusters.server import Identity, Material, Server, checked_proxy, checked_url
from accelscope.kube.endpoint import in_cluster

_SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def resolve(access: Access) -> tuple[Server, Identity]:
    """Reads kubeconfigs, and no other file. Raises ConfigError, whose text never holds a secret."""
    if isinstance(access, KubeconfigAccess):
        return read_kubeconfig(access.paths).server(access.context)
    if access.client_key_file is not None and access.client_certificate_file is None:
        raise ConfigError(f"{access.url}: a client key without a client certificate")
    server = Server(
        url=checked_url(access.url, plain_http=access.plain_http and access.token_file is None),
        authority=_file(access.ca_file),
        skip_tls_verify=access.insecure_skip_tls_verify,
        tls_server_name=access.tls_server_name,
        proxy_url=None if access.proxy_url is None else checked_proxy(access.proxy_url),
    )
    certificate = _file(access.client_certificate_file)
    key = _file(access.client_key_file) or certificate  # one file may hold both
    return server, Identity(token_file=access.token_file, certificate=certificate, key=key)


def default_clusters(environ: Mapping[str, str], context: str | None = None) -> tuple[ClusterEntry, ...]:
    """Without a file: what kubectl would talk to (with `--context`, where one is given), which in a pod
    without a kubeconfig is the pod's own cluster. Raises ConfigError."""
    paths = kubeconfig_paths(environ)
    if context is not None:
        read_kubeconfig(paths).server(context)  # at the start is the time to say that there is none
    elif any(Path(path).exists() for path in paths):
        context = read_kubeconfig(paths).current_context
    if context is not None:
        # By name: that another context becomes the current one must not swap the cluster under its id.
        return (_everything(_id_of(context), context, KubeconfigAccess(paths=paths, context=context)),)
    token, authority = (str(_SERVICE_ACCOUNT / name) for name in ("token", "ca.crt"))
    endpoint = in_cluster(environ, token, authority)
    if endpoint is None:
        raise ConfigError(
            f"no cluster: {_without_context(paths)}, and this is no pod; "
            "give --clusters-file or --kubeconfig, or set KUBECONFIG"
        )
    access = AddressAccess(url=endpoint.url, token_file=token, ca_file=authority)
    return (_everything("in-cluster", None, access),)


def _without_context(paths: Sequence[str]) -> str:
    there = [path for path in paths if Path(path).exists()]
    if there:
        return f"{', '.join(there)} names no current context"
    return f"there is no file {', '.join(paths)}" if paths else "KUBECONFIG is not set"


def _everything(cluster_id: str, name: str | None, access: Access) -> ClusterEntry:
    return ClusterEntry(
        id=cluster_id,
        name=name,
        access=access,
        agents=AgentsEntry(),
        exec=ExecEntry(),
        annotations=AnnotationsEntry(),
    )


def _id_of(context: str) -> str:
    """Contexts may have any name: kubernetes-admin@kubernetes, arn:aws:eks:..."""
    return re.sub(r"[^a-z0-9.]+", "-", context.lower()).strip("-.")[:253].strip("-.") or "default"


def _file(path: str | None) -> Material | None:
    return None if path is None else Material(path, path=path)
