"""Compiles Python's own library where the base image has no bytecode of it; what nobody runs is left out."""

import compileall
import re
import sysconfig

SELDOM = re.compile(
    r"/(test|tests|idlelib|tkinter|turtledemo|lib2to3|ensurepip|pydoc_data|(site|dist)-packages)/"
)

compileall.compile_dir(sysconfig.get_path("stdlib"), quiet=2, rx=SELDOM)
