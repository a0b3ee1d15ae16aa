"""Where in the node's network a pod or a Service is now; ConnectionRefusedError where it is nowhere."""

from typing import Any
from urllib.parse import quote

from tests.e2e.kubernetes.api import Api
from tests.e2e.kubernetes.forward import Address


def pod_address(api: Api, namespace: str, name: str, port: int) -> Address:
    address = _get(api, f"/api/v1/namespaces/{namespace}/pods/{name}")["status"].get("podIP")
    if address is None:
        raise ConnectionRefusedError(f"{namespace}/{name} has no address")
    return address, port


def service_address(api: Api, namespace: str, name: str, port: int) -> Address:
    """There is no kube-proxy: the first endpoint that is ready is taken here."""
    service = _get(api, f"/api/v1/namespaces/{namespace}/services/{name}")
    port_names = {each["port"]: each.get("name", "") for each in service["spec"].get("ports", ())}
    selector = quote(f"kubernetes.io/service-name={name}", safe="")
    slices = f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices?labelSelector={selector}"
    for each in _get(api, slices)["items"]:
        ports = {entry.get("name") or "": entry["port"] for entry in each.get("ports") or ()}
        for endpoint in each.get("endpoints") or ():
            if endpoint["conditions"].get("ready") and port_names.get(port) in ports:
                return endpoint["addresses"][0], ports[port_names[port]]
    raise ConnectionRefusedError(f"service {namespace}/{name} has no ready endpoint for port {port}")


def _get(api: Api, path: str) -> Any:
    reply = api.request("GET", path)
    if reply.status != 200:
        raise ConnectionRefusedError(f"{path}: status {reply.status}")
    return reply.json()
