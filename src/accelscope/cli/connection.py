"""Options of commands that connect to agents, exporters or a fleet: CA, client certificate, timeout."""

import argparse
from collections.abc import Callable


def add_connection(
    parser: argparse.ArgumentParser,
    title: str,
    duration: Callable[[str], float],
    *,
    token_flags: tuple[tuple[str, str, str], ...],
    timeout: float,
) -> None:
    """`token_flags` contains flag, name of the argument and help of each file with a token."""
    group = parser.add_argument_group(title)
    for flag, name, text in token_flags:
        group.add_argument(flag, dest=name, metavar="PATH", help=text)
    group.add_argument(
        "--ca-file",
        dest="client_ca_file",
        metavar="PATH",
        help="CA certificates for https (default: those of the system)",
    )
    group.add_argument("--client-certificate", metavar="PATH", help="client certificate for https")
    group.add_argument("--client-key", metavar="PATH", help="private key of the client certificate")
    group.add_argument(
        "--insecure-skip-tls-verify",
        dest="insecure",
        action="store_true",
        help="do not verify server certificates; the token may be sent to an impostor",
    )
    group.add_argument(
        "--timeout",
        type=duration,
        default=timeout,
        metavar="DURATION",
        help=f"timeout of a request (default {timeout:g}s)",
    )
