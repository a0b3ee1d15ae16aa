"""The list of clusters, from the clusters file or a kubeconfig: addresses, credentials and sources."""

from accelscope.fleet.clusters.clusters_file import ClustersFile, load_clusters
from accelscope.fleet.clusters.entry import (
    Access,
    AddressAccess,
    AgentsEntry,
    AnnotationsEntry,
    ClusterEntry,
    ExecEntry,
    KubeconfigAccess,
    PrometheusEntry,
)
from accelscope.fleet.clusters.kubeconfig import default_clusters

__all__ = [
    "Access",
    "AddressAccess",
    "AgentsEntry",
    "AnnotationsEntry",
    "ClusterEntry",
    "ClustersFile",
    "ExecEntry",
    "KubeconfigAccess",
    "PrometheusEntry",
    "default_clusters",
    "load_clusters",
]
