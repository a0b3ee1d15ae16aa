"""The web page as it was built from web/: files that hold no data, and which of them a path asks for."""

from accelscope.fleet.page.built_page import BuiltPage, PageFile

__all__ = ["BuiltPage", "PageFile"]
