"""The public names of a checkout, one line each: what users, dashboards and clients depend on.

    .venv/bin/python -m tests.contract.surface [CHECKOUT]

They are read from outside: reference pages, --help, /openapi.json, chart files, a simulated node. So the same
code reads an older commit, and moving code within src/ changes nothing here. Texts for people are left out.
"""

import ast
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

REPOSITORY = Path(__file__).resolve().parents[2]
Schema = dict[str, Any]

CODE = re.compile(r"`([^`]+)`")
KUBERNETES_NAME = re.compile(
    r"(?:[a-z0-9-]+\.)*(?:accelscope\.io|k8s-monitor\.io|furiosa\.ai|nvidia\.com|amd\.com|huawei\.com)/[\w.-]+"
)
SNAPSHOT_SCHEMA = """
import msgspec
from accelscope.model import Snapshot
print(msgspec.json.encode(msgspec.json.schema(Snapshot)).decode())
"""
FEATURE_DOMAINS = "accelscope.io,beta.furiosa.ai,furiosa.ai"


class Checkout:
    def __init__(self, root: Path) -> None:
        self.root = root
        self._environment = {
            name: text for name, text in os.environ.items() if not name.startswith(("COVERAGE", "KUBE"))
        } | {"PYTHONPATH": str(root / "src"), "COLUMNS": "100000"}

    def page(self, name: str) -> list[str]:
        return (self.root / name).read_text().splitlines()

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, *arguments],
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def output(self, *arguments: str) -> str:
        return self.start(*arguments).communicate()[0]

    def accelscope(self, *arguments: str) -> str:
        return self.output("-m", "accelscope", *arguments)


def surface(root: Path) -> list[str]:
    checkout = Checkout(root)
    parts = (metrics, settings, commands, node_object, kubernetes_names, api, problems, snapshot, chart)
    return sorted({line for part in parts for line in part(checkout)})


# --- reference pages ------------------------------------------------------------------------------------


def cells(line: str) -> list[str]:
    return (
        [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))]
        if line.startswith("|")
        else []
    )


def metrics(checkout: Checkout) -> Iterator[str]:
    pages = ("metrics", "dialects", "device-plugin-configuration", "fleet-configuration")
    for page in pages:
        section = page if page != "dialects" else ""
        common: list[str] = []
        for line in checkout.page(f"docs/{page}.md"):
            row = cells(line)
            if line.startswith("## "):
                common = []
                section = line[3:] if page == "dialects" else page
            elif line.startswith("Labels of every series:"):
                common = CODE.findall(line)
            elif len(row) == 4 and row[1] in ("gauge", "counter", "histogram", "summary", "info", "untyped"):
                labels = sorted({*common, *CODE.findall(row[2])})
                yield f"metric {section}: {row[0].strip('`')} {row[1]} {','.join(labels)}"


def settings(checkout: Checkout) -> Iterator[str]:
    pages = {
        "agent": "configuration",
        "device-plugin": "device-plugin-configuration",
        "fleet": "fleet-configuration",
    }
    for command, page in pages.items():
        for line in checkout.page(f"docs/{page}.md"):
            row = cells(line)
            if len(row) == 6 and row[0].startswith("`--"):
                flag, environment, key, default = (",".join(CODE.findall(cell)) for cell in row[:4])
                yield f"setting {command}: {flag} environment={environment} key={key} default={default}"


def problems(checkout: Checkout) -> Iterator[str]:
    route = "any"
    for line in checkout.page("docs/fleet-api.md"):
        if line.startswith("### "):
            route = line[4:]
        elif found := re.match(r"- (\d+) `(urn:[^`]+)`", line):
            yield f"problem {route}: {found[1]} {found[2]}"


# --- commands -------------------------------------------------------------------------------------------


def commands(checkout: Checkout, *path: str) -> Iterator[str]:
    """Options and places of a command and of all commands below it, by their --help."""
    name = " ".join(("accelscope", *path))
    text = checkout.accelscope(*path, "--help")
    usage = text.splitlines()[0].removeprefix(f"usage: {name}")
    for option in re.findall(r"\[--?[^\]]*\](?:\.\.\.)?|\(--?[^)]*\)|[^\s\[\]]+", usage):
        yield f"command {name}: {option}"
    if found := re.search(r"^Exit code: .*(?:\n.+)*", text, re.MULTILINE):
        yield f"command {name}: exit codes {','.join(re.findall(r'(?:: |, |; )([0-9])(?= )', found[0]))}"
    if usage.endswith((" COMMAND ...", " ACTION ...")):
        listed = re.search(r"^  (?:COMMAND|ACTION)\n((?:    .*\n)+)", text, re.MULTILINE)
        for below in re.findall(r"^    (\S+)", listed[1] if listed else "", re.MULTILINE):
            yield from commands(checkout, *path, below)


# --- Kubernetes -----------------------------------------------------------------------------------------


def node_object(checkout: Checkout) -> Iterator[str]:
    """Labels of a node with devices of every vendor."""
    with tempfile.TemporaryDirectory() as folder:
        checkout.accelscope("simulate", "build", "mixed", folder)
        options = ("--config-file", f"{folder}/agent.yaml", "--feature-domains", FEATURE_DOMAINS)
        for line in checkout.accelscope("discover", *options).splitlines():
            yield f"node label: {line.partition('=')[0]}"


def kubernetes_names(checkout: Checkout) -> Iterator[str]:
    """Annotations, labels and resources that the product, not the simulator, contains as a whole text."""
    package = checkout.root / "src" / "accelscope"
    for file in package.rglob("*.py"):
        if not {"simulate", "simulated"}.intersection(file.relative_to(package).parts):
            for node in ast.walk(ast.parse(file.read_text())):
                text = node.value if isinstance(node, ast.Constant) else None
                if isinstance(text, str) and KUBERNETES_NAME.fullmatch(text):
                    yield f"kubernetes name: {text}"


def chart(checkout: Checkout) -> Iterator[str]:
    folder = checkout.root / "deploy" / "chart"
    yield from (
        f"chart value: {line}" for line in values(yaml.safe_load((folder / "values.yaml").read_text()))
    )
    schema = json.loads((folder / "values.schema.json").read_text())
    yield from (f"chart schema: {line}" for line in fields(schema, schema))


def values(value: object, path: str = "") -> Iterator[str]:
    if isinstance(value, dict) and value:
        for key, below in value.items():
            yield from values(below, f"{path}.{key}" if path else key)
    else:
        yield f"{path} = {json.dumps(value)}"


# --- API and snapshot -----------------------------------------------------------------------------------


def snapshot(checkout: Checkout) -> Iterator[str]:
    schema = json.loads(checkout.output("-c", SNAPSHOT_SCHEMA))
    yield from (f"snapshot: {line}" for line in fields(schema, schema))


def api(checkout: Checkout) -> Iterator[str]:
    document = openapi(checkout)
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            route = f"{method.upper()} {path}"
            for parameter in operation.get("parameters", ()):
                needed = " required" if parameter.get("required") else ""
                place = f"{parameter['in']} {parameter['name']}"
                yield f"api {route}: {place} {form(parameter['schema'])}{needed}"
            for status, response in operation["responses"].items():
                for media, content in resolved(response, document).get("content", {}).items():
                    yield f"api {route}: {status} {media}"
                    # All problems have the same fields.
                    start = f"api {route}: {status}" if status.startswith("2") else "api problem:"
                    yield from (f"{start} {line}" for line in fields(content.get("schema", {}), document))


def openapi(checkout: Checkout) -> Schema:
    with socket.socket() as listener, tempfile.TemporaryDirectory() as folder:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
        listener.close()
        clusters = Path(folder, "clusters.yaml")
        clusters.write_text("clusters:\n  - id: none\n    server: {url: 'http://127.0.0.1:1'}\n")
        options = ("--clusters-file", str(clusters), "--listen-host", "127.0.0.1", "--listen-port", str(port))
        fleet = checkout.start("-m", "accelscope", "fleet", *options, "--insecure-no-auth")
        try:
            for _ in range(300):
                try:
                    with urllib.request.urlopen(
                        f"http://127.0.0.1:{port}/openapi.json", timeout=10
                    ) as answer:
                        document: Schema = json.load(answer)
                        return document
                except OSError:
                    time.sleep(0.1)
            raise TimeoutError("the fleet does not answer")
        finally:
            fleet.terminate()
            fleet.communicate()


def resolved(schema: Schema, document: Schema) -> Schema:
    """What $ref points to, so that the names of types do not matter."""
    while "$ref" in schema:
        found: Any = document
        for step in schema["$ref"].removeprefix("#/").split("/"):
            found = found[step]
        schema = found
    return schema


def form(schema: Schema) -> str:
    words = [str(schema["type"])] if "type" in schema else []
    words += [
        f"{key}={json.dumps(schema[key])}" for key in ("const", "enum", "pattern", "default") if key in schema
    ]
    return " ".join(words)


def fields(schema: Schema, document: Schema) -> Iterator[str]:
    """A line for each field of an object, such as `devices[].power_watts null|number required`."""
    found: dict[str, set[str]] = {}
    required: set[str] = set()

    def walk(schema: Schema, path: str, within: tuple[int, ...]) -> None:
        schema = resolved(schema, document)
        if id(schema) in within:
            return
        within = (*within, id(schema))
        forms = found.setdefault(path, set())
        if form(schema):
            forms.add(form(schema))
        for key in ("anyOf", "oneOf", "allOf"):
            for alternative in schema.get(key, ()):
                walk(alternative, path, within)
        start = f"{path}." if path else ""
        for name, below in schema.get("properties", {}).items():
            walk(below, start + name, within)
        required.update(start + name for name in schema.get("required", ()))
        for key, mark in (("items", "[]"), ("additionalProperties", "{}")):
            if isinstance(schema.get(key), dict):
                walk(schema[key], path + mark, within)

    walk(schema, "", ())
    for path, forms in found.items():
        yield f"{path} {'|'.join(sorted(forms))}{' required' if path in required else ''}".strip()


if __name__ == "__main__":
    print(*surface(Path(sys.argv[1]) if len(sys.argv) > 1 else REPOSITORY), sep="\n")
