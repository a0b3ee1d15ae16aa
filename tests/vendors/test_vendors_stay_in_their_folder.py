"""No list of vendors and no comparison with a vendor's name outside the vendors' own folders.

Looks for the names and `words` of the declarations in string literals and identifiers of the product, the web
page and the chart's templates. Comments, docstrings and prose may name vendors. Prose is a literal of several
words, unless all of them name vendors or the literal is compared with something.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from accelscope.vendors import declarations

REPOSITORY = Path(__file__).parents[2]
PRODUCT, PAGE, CHART = "src/accelscope", "web/src", "deploy/chart/templates"

ANY: set[str] = set()
# File -> reason, and the names (ANY: all).
EXCEPTIONS: dict[str, tuple[str, set[str]]] = {
    f"{PAGE}/api/types.ts": ("generated from the declarations by `make docs`", ANY),
    f"{PAGE}/api/vendors.ts": ("generated from the declarations by `make docs`", ANY),
    f"{CHART}/_agent.tpl": (
        "turns values that only one vendor's agent has into mounts and variables",
        {
            "%s/bin/amd-smi",
            "%s/bin/rocm-smi",
            "/run/nvidia/driver",
            "AMD_SMI_PATH",
            "ASCEND_DRIVER_ROOT",
            "NPU_SMI_PATH",
            "ROCM_SMI_PATH",
        },
    ),
    f"{CHART}/_endpoint.tpl": (
        "relabelling rules need a pattern for the names of each dialect",
        {"DCGM_FI_.+", "dcgm", "npu-exporter"},
    ),
    f"{CHART}/_features.tpl": (
        "nodeObject.npuAnnotation is for Ascend's chips, dcgmCounters for the dialect dcgm",
        {"/etc/accelscope/settings/dcgm-counters.csv", "ascend", "dcgm"},
    ),
    f"{CHART}/settings.yaml": ("the value dcgmCounters becomes this file", {"dcgm-counters.csv"}),
    f"{CHART}/admissionpolicy.yaml": (
        "a policy in CEL needs a pattern for each domain that nodeObject.featureDomains may name",
        {
            "beta.furiosa.ai",
            "beta[.]furiosa[.]ai/(npu|machine|driver)[.]",
            "furiosa.ai",
            "furiosa[.]ai/(npu|driver|firmware)[.]",
        },
    ),
    f"{PRODUCT}/agent/snapshot_reference.py": (
        "the example in docs/snapshot.md is a node with one GPU",
        {"nvidia", "nvidia.com/gpu", "nvidia:GPU-d92a11cc-3c07-4b1e-9d6a-0a1f5f0e7c21", "nvml"},
    ),
    f"{PRODUCT}/simulate/fleet/description.py": (
        "the default mix of a simulated fleet consists of ready-made nodes",
        {
            "amd-mi300x8",
            "ascend-910b-x8",
            "furiosa-rngd",
            "nvidia-h100x8",
            "nvidia-mig",
            "nvidia-shared",
        },
    ),
}


def vendor_names() -> re.Pattern[str]:
    names = set()
    for vendor in declarations().values():
        company = vendor.resource_domain.partition(".")[0]
        names |= {vendor.name, vendor.title.lower(), vendor.model_prefix.lower(), company, *vendor.words}
    words = "|".join(sorted(names - {""})).replace("-", "[-_ ]")
    return re.compile(rf"(?<![a-z0-9])(?:0x)?(?:{words})(?![a-z0-9])", re.IGNORECASE)


NAMES = vendor_names()
COMPARING_METHODS = {"startswith", "endswith", "removeprefix", "removesuffix", "partition", "find", "count"}


def is_name(text: str) -> bool:
    """Whether it names a vendor and is not prose: one word, or nothing but names of vendors."""
    words = re.split(r"[\s,]+", text.strip(" ,\t\r\n"))
    return NAMES.search(text) is not None and (len(words) == 1 or all(map(NAMES.fullmatch, words)))


def compared_literals(tree: ast.AST) -> Iterator[ast.Constant]:
    """Operands of comparisons and arguments of methods such as startswith, also within tuples and sets."""
    for node in ast.walk(tree):
        operands: list[ast.expr] = []
        match node:
            case ast.Compare():
                operands = [node.left, *node.comparators]
            case ast.Call(func=ast.Attribute(attr=method)) if method in COMPARING_METHODS:
                operands = node.args
            case ast.MatchValue():
                operands = [node.value]
        for operand in operands:
            members = operand.elts if isinstance(operand, ast.Tuple | ast.Set | ast.List) else [operand]
            yield from (member for member in members if isinstance(member, ast.Constant))


def python_names(text: str) -> Iterator[str]:
    """Vendors in compared literals, in literals that are neither prose nor docstring, and in identifiers."""
    tree = ast.parse(text)
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, kinds) and node.body and isinstance(node.body[0], ast.Expr)
    }
    for literal in compared_literals(tree):
        if isinstance(literal.value, str) and NAMES.search(literal.value):
            yield literal.value
        elif type(literal.value) is int and NAMES.fullmatch(f"{literal.value:#x}"):  # a PCI vendor id
            yield f"{literal.value:#x}"
    yield from (name for name in _literals_and_identifiers(tree, docstrings) if is_name(name))


def _literals_and_identifiers(tree: ast.AST, docstrings: set[int]) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(literal)) if id(node) not in docstrings:
                yield literal
            case ast.Constant(value=bytes(literal)):
                yield literal.decode(errors="replace")
            case ast.Import(names=modules) | ast.ImportFrom(module=None, names=modules):
                yield from (module.name for module in modules)
            case ast.ImportFrom(module=str(module), names=parts):
                yield module
                yield from (f"{module}.{part.name}" for part in parts if module == "accelscope.vendors")
            case (
                ast.Name(id=str(name))
                | ast.Attribute(attr=str(name))
                | ast.arg(arg=str(name))
                | ast.keyword(arg=str(name))
                | ast.FunctionDef(name=str(name))
                | ast.AsyncFunctionDef(name=str(name))
                | ast.ClassDef(name=str(name))
            ):
                yield re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name).replace("_", "-")


def quoted(text: str) -> Iterator[str]:
    """Vendors in quoted text of TypeScript and templates."""
    without_comments = re.sub(r"(?s)/\*.*?\*/|(?<!:)//[^\n]*", "", text)
    for match in re.finditer(r"""([\"'`])((?:(?!\1)[^\\\n]|\\.)*)\1""", without_comments):
        if is_name(match[2]):
            yield match[2]


@cache
def found() -> dict[str, set[str]]:
    python = [path for path in (REPOSITORY / PRODUCT).rglob("*.py") if not _is_of_a_vendor(path)]
    page = [path for path in (REPOSITORY / PAGE).rglob("*.ts*") if ".test." not in path.name]
    chart = [path for path in (REPOSITORY / CHART).iterdir() if path.is_file()]
    names: dict[str, set[str]] = {}
    for paths, read in ((python, python_names), (page + chart, quoted)):
        for path in paths:
            own = set(read(path.read_text(encoding="utf-8")))
            if own:
                names[path.relative_to(REPOSITORY).as_posix()] = own
    return names


def _is_of_a_vendor(path: Path) -> bool:
    parts = path.relative_to(REPOSITORY / PRODUCT).parts
    return parts[0] == "vendors" and parts[1] in declarations()


def unexpected(path: str, names: set[str]) -> list[str]:
    _, allowed = EXCEPTIONS.get(path, ("", set()))
    return [] if allowed is ANY else sorted(names - allowed)


def test_no_vendor_is_named_outside_its_folder() -> None:
    new = {path: more for path, names in found().items() if (more := unexpected(path, names))}
    assert not new, "use the vendor's declaration instead (src/accelscope/vendors/declaration.py)"


@pytest.mark.parametrize("named", EXCEPTIONS)
def test_an_exception_is_still_needed(named: str) -> None:
    used = found().get(named, set())
    assert used, "remove the exception"
    assert EXCEPTIONS[named][1] <= used, "remove names that are no longer used from the exception"


@pytest.mark.parametrize(
    "code",
    [
        "VENDORS = ('nvidia', 'amd')",
        "if device.vendor == Vendor('ascend'): pass",
        "if vendor is Vendor.FURIOSA: pass",
        "def open(amd_prefix): pass",
        "import accelscope.vendors.nvidia.reader",
        "from accelscope.vendors.amd import hwmon",
        "resource = 'huawei.com/npu'",
        "from accelscope.vendors import nvidia as n",
        "VENDORS = 'nvidia amd ascend furiosa'.split()",
        "title = 'NVIDIA '",
        "class NvidiaReader: pass",
        "isNvidia = True",
        "name = b'amd'",
        "if driver == 'NVIDIA vGPU manager': pass",
        "if model in ('Tesla T4', 'AMD Instinct MI300X'): pass",
        "if text.startswith('npu-smi info'): pass",
        "if vendor_id == 0x10de: pass",
        "if 'warboy' in name: pass",
    ],
)
def test_lists_comparisons_and_imports_are_found(code: str) -> None:
    assert list(python_names(code))


def test_prose_and_comments_may_name_vendors() -> None:
    code = '"""Of NVIDIA."""\n\n# amd\ndef help():\n    "nvidia"\n    return 1\n'
    assert list(python_names(code)) == []
    assert list(quoted('const a = "x"; // "nvidia"\n/** "amd" */ const b = "amd"')) == ["amd"]
