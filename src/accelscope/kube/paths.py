"""What is asked of an API server: paths with their queries."""

from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import quote

RESOURCE_SLICE_VERSIONS = ("v1", "v1beta2", "v1beta1")  # newest first


@dataclass(frozen=True, slots=True)
class Collection:
    """What is listed and watched. Several paths are the same thing in several versions of the API, of which a
    server may have any: the first that it has is used."""

    paths: tuple[str, ...]
    field_selector: str | None = None
    label_selector: str | None = None

    def list_path(self, path: str, *, from_cache: bool = True, continue_token: str | None = None) -> str:
        """From the server's watch cache, which is cheap for it, or what its store has at this moment."""
        if continue_token is not None:
            return self._query(path, ("continue", continue_token))
        return self._query(path, ("resourceVersion", "0")) if from_cache else self._query(path)

    def watch_path(self, path: str, resource_version: str, timeout_seconds: int) -> str:
        return self._query(
            path,
            ("watch", "true"),
            ("allowWatchBookmarks", "true"),
            ("resourceVersion", resource_version),
            ("timeoutSeconds", str(timeout_seconds)),
        )

    def _query(self, path: str, *parameters: tuple[str, str]) -> str:
        if self.label_selector is not None:
            parameters = (("labelSelector", self.label_selector), *parameters)
        if self.field_selector is not None:
            parameters = (("fieldSelector", self.field_selector), *parameters)
        return with_query(path, parameters)


def with_query(path: str, parameters: Iterable[tuple[str, str]]) -> str:
    query = "&".join(f"{name}={quote(value, safe='')}" for name, value in parameters)
    return f"{path}?{query}" if query else path


def pods_of(node: str) -> Collection:
    return Collection(("/api/v1/pods",), f"spec.nodeName={node}")


def pods_in(namespace: str, label_selector: str | None = None) -> Collection:
    path = f"/api/v1/namespaces/{quote(namespace, safe='')}/pods"
    return Collection((path,), label_selector=label_selector)


def all_nodes() -> Collection:
    return Collection(("/api/v1/nodes",))


def one_node(name: str) -> Collection:
    """A collection of one: with this selector a role that names the node by `resourceNames` suffices."""
    return Collection(("/api/v1/nodes",), f"metadata.name={name}")


def node_path(name: str) -> str:
    return f"/api/v1/nodes/{quote(name, safe='')}"


def resource_slices_of(node: str, versions: tuple[str, ...] = RESOURCE_SLICE_VERSIONS) -> Collection:
    paths = tuple(f"/apis/resource.k8s.io/{version}/resourceslices" for version in versions)
    return Collection(paths, f"spec.nodeName={node}")
