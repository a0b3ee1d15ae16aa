"""No list of vendors and no comparison with a vendor's name outside `accelscope.vendors`.

Looks for vendors' names in string literals and identifiers of the product, the web page and the chart's
templates. Comments, docstrings and prose may name vendors. Prose is a literal of several words, unless all of
them are names of vendors.
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
# File -> why it names vendors, and the names (ANY: whichever).
EXCEPTIONS: dict[str, tuple[str, set[str]]] = {
    f"{PAGE}/api/types.ts": ("made from the declarations by `make docs`", ANY),
    f"{PAGE}/api/vendors.ts": ("made from the declarations by `make docs`", ANY),
    f"{CHART}/_agent.tpl": (
        "turns values that only one vendor's agent has into mounts and variables",
        {"/run/nvidia/driver", "AMD_SMI_PATH", "%s/bin/amd-smi", "ASCEND_DRIVER_ROOT"},
    ),
    f"{CHART}/_features.tpl": ("nodeObject.npuAnnotation is about Ascend's chips only", {"ascend"}),
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
        {"nvidia", "nvidia.com/gpu", "nvidia:GPU-d92a11cc-3c07-4b1e-9d6a-0a1f5f0e7c21"},
    ),
    f"{PRODUCT}/deviceplugin/settings.py": (
        "the setting disabledDevices takes names of core files, which only Furiosa's cards have",
        {"accelscope.vendors.furiosa.devfiles"},
    ),
    f"{PRODUCT}/simulate/fleet/description.py": (
        "the usual mix of a simulated fleet names ready-made nodes",
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
        names |= {vendor.name, vendor.title.lower(), vendor.model_prefix.lower(), company}
    words = "|".join(sorted(names - {""}))
    return re.compile(rf"(?<![a-z0-9])(?:{words})(?![a-z0-9])", re.IGNORECASE)


NAMES = vendor_names()


def is_name(text: str) -> bool:
    """Whether it names a vendor and is no prose: one word, or nothing but vendors' names."""
    words = re.split(r"[\s,]+", text.strip(" ,\t\r\n"))
    return NAMES.search(text) is not None and (len(words) == 1 or all(map(NAMES.fullmatch, words)))


def python_names(text: str) -> Iterator[str]:
    """Literals that are no docstring, and identifiers with blanks for underscores."""
    tree = ast.parse(text)
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, kinds) and node.body and isinstance(node.body[0], ast.Expr)
    }
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
    without_comments = re.sub(r"(?s)/\*.*?\*/|(?<!:)//[^\n]*", "", text)
    for match in re.finditer(r"""(["'`])((?:(?!\1)[^\\\n]|\\.)*)\1""", without_comments):
        yield match[2]


@cache
def found() -> dict[str, set[str]]:
    python = [path for path in (REPOSITORY / PRODUCT).rglob("*.py") if "vendors" not in _folders(path)]
    page = [path for path in (REPOSITORY / PAGE).rglob("*.ts*") if ".test." not in path.name]
    chart = [path for path in (REPOSITORY / CHART).iterdir() if path.is_file()]
    names: dict[str, set[str]] = {}
    for paths, read in ((python, python_names), (page + chart, quoted)):
        for path in paths:
            text = path.read_text(encoding="utf-8")
            own = {name for name in read(text) if is_name(name)}
            if own:
                names[path.relative_to(REPOSITORY).as_posix()] = own
    return names


def _folders(path: Path) -> tuple[str, ...]:
    """The product's folder that a file is below. Files directly in `vendors` may name no vendor either."""
    parts = path.relative_to(REPOSITORY / PRODUCT).parts
    return parts[:1] if len(parts) > 2 else ()


def unexpected(path: str, names: set[str]) -> list[str]:
    _, allowed = EXCEPTIONS.get(path, ("", set()))
    return [] if allowed is ANY else sorted(names - allowed)


def test_no_vendor_is_named_outside_its_folder() -> None:
    new = {path: more for path, names in found().items() if (more := unexpected(path, names))}
    assert not new, "use the vendor's declaration instead (src/accelscope/vendors/declaration.py)"


@pytest.mark.parametrize("named", EXCEPTIONS)
def test_an_exception_is_still_needed(named: str) -> None:
    used = found().get(named, set())
    assert used, "take it out of the exceptions"
    assert EXCEPTIONS[named][1] <= used, "take the names that are gone out of the exceptions"


@pytest.mark.parametrize(
    "code",
    [
        "VENDORS = ('nvidia', 'amd')",
        "if device.vendor == Vendor('ascend'): pass",
        "if vendor is Vendor.FURIOSA: pass",
        "def open(amd_prefix): pass",
        "import accelscope.vendors.nvidia.nvml",
        "from accelscope.vendors.amd import hwmon",
        "resource = 'huawei.com/npu'",
        "from accelscope.vendors import nvidia as n",
        "VENDORS = 'nvidia amd ascend furiosa'.split()",
        "title = 'NVIDIA '",
        "class NvidiaReader: pass",
        "isNvidia = True",
        "name = b'amd'",
    ],
)
def test_a_list_a_comparison_or_an_import_is_found(code: str) -> None:
    assert any(map(is_name, python_names(code)))


def test_prose_and_comments_may_name_vendors() -> None:
    code = '"""Of NVIDIA."""\n\n# amd\ndef help():\n    "nvidia"\n    return 1\n'
    assert not any(NAMES.search(name) for name in python_names(code))
    assert list(quoted('const a = "x"; // "nvidia"\n/** "amd" */')) == ["x"]
