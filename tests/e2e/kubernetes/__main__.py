"""`python -m tests.e2e.kubernetes`: a cluster to look at and try things on, until Ctrl-C.
`python -m tests.e2e.kubernetes prepare`: only what it is made of, into the cache."""

import argparse
import signal
import sys

from tests.e2e.kubernetes import binaries, images
from tests.e2e.kubernetes.cluster import Cluster
from tests.e2e.kubernetes.errors import ClusterError
from tests.e2e.kubernetes.prepare import prepare


def show_cluster() -> None:
    with Cluster() as cluster:
        base = images.base_image()
        cluster.import_image(base)
        print(f"export KUBECONFIG={cluster.kubeconfig}")
        print(f"export PATH=$PATH:{binaries.program('kubectl').parent}:{binaries.program('helm').parent}")
        print(f"# images: {base.tag}")
        print(f"# the kubelet's folder: {cluster.kubelet_folder}", flush=True)
        signal.pause()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.e2e.kubernetes", description=__doc__)
    parser.add_argument("what", nargs="?", choices=["cluster", "prepare"], default="cluster")
    try:
        if parser.parse_args().what == "prepare":
            prepare()
        else:
            show_cluster()
    except ClusterError as error:
        print(f"e2e: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        pass
    return 0


if __name__ == "__main__":
    sys.exit(main())
