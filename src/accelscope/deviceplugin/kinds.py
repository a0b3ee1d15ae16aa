"""Kinds of settings that only the device plugin has."""

from accelscope.config import BadValue, Text

_MOST_DOMAIN_CHARACTERS = 244  # 253 of a domain, less the word that quotas put before it
_QUOTA = "requests."
_KUBERNETES = "kubernetes.io/"
_LABEL = r"[a-z0-9]([a-z0-9-]*[a-z0-9])?"

ABSOLUTE_PATH = Text("an absolute path", r"/[^\x00-\x1f\x7f]*")
ABSOLUTE_PATH_OR_NONE = Text("an absolute path", r"(/[^\x00-\x1f\x7f]*)?")


class ByVendor(Text):
    """Text that depends on the vendor when not given; that of the usual vendor is shown as the default."""

    def __init__(self, allowed: str, pattern: str, usual: str) -> None:
        super().__init__(allowed, pattern)
        self._usual = usual

    def text(self, value: str) -> str:
        return value or self._usual


class ResourceName(ByVendor):
    """What Kubernetes takes as the name of an extended resource. A kubelet would refuse others, too, but only
    when it is told of them, and not in words that say what to write instead."""

    def __init__(self, usual: str) -> None:
        super().__init__(
            "a name such as vendor.com/device",
            rf"{_LABEL}(\.{_LABEL})*/[A-Za-z0-9]([A-Za-z0-9._-]{{0,61}}[A-Za-z0-9])?",
            usual,
        )

    def parse(self, text: str) -> str:
        name = super().parse(text)
        if _KUBERNETES in name:
            raise BadValue("kubernetes.io is for Kubernetes' own resources: take a domain of yours")
        if name.startswith(_QUOTA):
            raise BadValue("requests. is how quotas begin: take another domain")
        if len(name.partition("/")[0]) > _MOST_DOMAIN_CHARACTERS:
            raise BadValue(f"what stands before / is longer than {_MOST_DOMAIN_CHARACTERS} characters")
        return name
