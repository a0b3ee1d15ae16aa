"""Programs that a test writes and then executes.

The kernel refuses to execute a file that anyone has open for writing ("text file busy"). Closing it first is
not enough in a process with threads: a child that another thread forked meanwhile has a copy of the
descriptor until it executes its own program. So this process never opens a program for writing: a child that
forks nothing does.
"""

import subprocess
from pathlib import Path


def program(path: Path, content: str | bytes) -> Path:
    """In place of what is there, also if that runs; folders that are missing are made."""
    command = ["install", "-D", "-m", "755", "/dev/stdin", str(path)]
    content = content.encode() if isinstance(content, str) else content
    subprocess.run(command, input=content, check=True, timeout=60)
    return path


def script(path: Path, lines: str) -> Path:
    """Of the shell."""
    return program(path, f"#!/bin/sh\n{lines}\n")
