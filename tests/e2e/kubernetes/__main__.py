"""`python -m tests.e2e.kubernetes`: a cluster to look at and try things on, until Ctrl-C."""

import signal
import sys

from tests.e2e.kubernetes import binaries, images
from tests.e2e.kubernetes.cluster import Cluster
from tests.e2e.kubernetes.errors import ClusterError


def main() -> int:
    try:
        with Cluster() as cluster:
            base = images.base_image()
            cluster.import_image(base)
            print(f"export KUBECONFIG={cluster.kubeconfig}")
            print(f"export PATH=$PATH:{binaries.program('kubectl').parent}:{binaries.program('helm').parent}")
            print(f"# images: {base.tag}")
            print(f"# the kubelet's folder: {cluster.kubelet_folder}", flush=True)
            signal.pause()
    except ClusterError as error:
        print(f"e2e: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        pass
    return 0


if __name__ == "__main__":
    sys.exit(main())
