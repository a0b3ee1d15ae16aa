"""The elements of `nvidia-smi -q -x`, safely: what was whole before an output ends or breaks is kept.

Only the log element is given to the parser. That leaves out the document type, with its network DTD and any
entities it might define; references to entities are taken as the characters they are written with, which
also mends process names that the tool prints unescaped.
"""

import re
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

_OPEN, _CLOSE = "<nvidia_smi_log", "</nvidia_smi_log>"
_MAX_DEPTH = 32  # the deepest real path has seven
_MAX_ELEMENTS = 1_000_000  # 256 GPUs with all their supported clocks have half of that
_STRAY_AMPERSAND = re.compile(r"&(?!(?:amp|lt|gt|quot|apos|#[0-9]{1,7}|#x[0-9a-fA-F]{1,6});)")
_NOT_IN_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff\ud800-\udfff]")


class XmlBroken(Exception):
    """The document is not well-formed, is cut, or is too deep or too large to be what it says it is."""

    def __init__(self, reason: str, text: str, root: Element | None) -> None:
        super().__init__(text)
        self.reason = reason
        self.root = root  # what was whole before that place


def log_of(text: str) -> str | None:
    """The last whole log element (a tool that loops prints several), else the beginning of the last."""
    end = text.rfind(_CLOSE)
    start = text.rfind(_OPEN, 0, end) if end >= 0 else text.rfind(_OPEN)
    if start < 0:
        return None
    return text[start : end + len(_CLOSE)] if end >= 0 else text[start:]


def tree_of(log: str) -> Element:
    """The log element with all below it. Raises XmlBroken."""
    mended = _NOT_IN_XML.sub("\ufffd", _STRAY_AMPERSAND.sub("&amp;", log))
    target = _BoundedTree()
    parser = ElementTree.XMLParser(target=target)  # noqa: S314 - no document type reaches it: no entities
    try:
        parser.feed(mended.encode())
        parser.close()
    except ElementTree.ParseError as error:
        cut = not log.rstrip().endswith(_CLOSE)
        reason = "truncated" if cut else "bad_xml"
        raise XmlBroken(reason, f"the XML breaks off: {error}", target.root) from None
    except _TooLarge:
        raise XmlBroken("too_large", "the XML is deeper or larger than nvidia-smi's ever is", None) from None
    if target.root is None:
        raise XmlBroken("bad_xml", "the XML has no element", None)
    return target.root


class _TooLarge(Exception):
    pass


class _BoundedTree:
    """Builds the tree within bounds. An element gets its text when it is closed, so that of one that is cut
    off no half number is seen."""

    def __init__(self) -> None:
        self.root: Element | None = None
        self._builder = ElementTree.TreeBuilder()
        self._depth = 0
        self._elements = 0

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        self._elements += 1
        if self._depth > _MAX_DEPTH or self._elements > _MAX_ELEMENTS:
            raise _TooLarge
        element = self._builder.start(tag, attributes)
        if self.root is None:
            self.root = element

    def end(self, tag: str) -> None:
        self._depth -= 1
        self._builder.end(tag)

    def data(self, text: str) -> None:
        self._builder.data(text)

    def close(self) -> None:
        """The parser wants one; the tree is in `root`."""
