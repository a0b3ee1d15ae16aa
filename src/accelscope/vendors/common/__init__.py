"""What the vendors' folders share."""

from accelscope.vendors.declaration import DialectDeclaration

# Exporters of several vendors.
DIALECTS = (
    DialectDeclaration(name="openshift", package=__name__, part="dialects:openshift"),
    DialectDeclaration(
        name="vgpu",
        package=__name__,
        part="dialects:vgpu",
        exporter="k8s-vgpu-monitor",
        page_marker="pod_gpu_sm_util",
    ),
)
