"""What takes minutes to make and needs no cluster, made ahead: then the tests find it in the cache."""

import threading
from collections.abc import Callable

from tests.e2e.kubernetes import binaries, images
from tests.e2e.kubernetes.agent_image import agent_image, fleet_image
from tests.e2e.kubernetes.cache import Say, to_stderr
from tests.e2e.kubernetes.errors import ClusterError


def prepare(say: Say = to_stderr) -> None:
    """Programs and images at once: programs keep the processors busy, images the network and the disk. What
    fails does not keep the other from being made. Raises ClusterError with all that failed."""
    failures: list[str] = []

    def try_to(make: Callable[[Say], object]) -> None:
        try:
            make(say)
        except ClusterError as error:
            failures.append(str(error))

    programs = threading.Thread(target=try_to, args=(binaries.all_programs,))
    programs.start()
    for image in (images.pause_image, agent_image, fleet_image):
        try_to(image)
    programs.join()
    if failures:
        raise ClusterError("\n".join(failures))
