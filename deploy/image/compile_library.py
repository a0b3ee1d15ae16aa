"""Compiles Python's standard library if the base image has no bytecode, without rarely used parts."""

import compileall
import re
import sysconfig

SELDOM = re.compile(
    r"/(test|tests|idlelib|tkinter|turtledemo|lib2to3|ensurepip|pydoc_data|(site|dist)-packages)/"
)

compileall.compile_dir(sysconfig.get_path("stdlib"), quiet=2, rx=SELDOM)
