"""No list of vendors and no comparison with a vendor's name outside the vendors' own folders.

Looks for the names and `words` of the declarations in string literals and identifiers of the product, of the
simulator's C and YAML, of the web page and of the chart's templates. Comments, docstrings and prose may name
a vendor. Prose is a literal of several words, unless all of them name vendors, it lists several vendors, or
it is compared with something: a pattern, the key of a dictionary, an operand.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from accelscope.vendors import VendorDeclaration, declarations

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
            "npu-Smi",
            "rocm",
        },
    ),
    f"{CHART}/_endpoint.tpl": (
        "relabelling rules need a pattern for the names of each dialect",
        {"DCGM_FI_.+", "dcgm", "npu-exporter"},
    ),
    f"{CHART}/_features.tpl": (
        "nodeObject.npuAnnotation is for Ascend's chips, dcgmCounters for the dialect dcgm; reloadable "
        "settings include those of dialects",
        {"/etc/accelscope/settings/dcgm-counters.csv", "amd", "ascend", "dcgm"},
    ),
    f"{CHART}/settings.yaml": ("the value dcgmCounters becomes this file", {"dcgm", "dcgm-counters.csv"}),
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
    f"{PRODUCT}/simulate/faults.py": (
        "the kinds of faults are one type, so that a fleet can list them, and only one driver reports XIDs",
        {"XID", "xid"},
    ),
    f"{PRODUCT}/simulate/nodes/mixed.yaml": ("the ready-made node with devices of every vendor", ANY),
    f"{PRODUCT}/vendors/common/dialects.py": (
        "openshift has the names of two operators' rules, which its notes compare",
        {"list of nvidia, amd"},
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


def vendor_names(*vendors: VendorDeclaration) -> re.Pattern[str]:
    """Also within names of files (libnvidia-ml.so.1, /dev/nvidiactl, nvidia0), but not in `ascending`."""
    names = set()
    for vendor in vendors:
        company = vendor.resource_domain.partition(".")[0]
        names |= {vendor.name, vendor.title.lower(), vendor.model_prefix.lower(), company, *vendor.words}
    words = "|".join(sorted(name for name in names if name and not name[0].isdigit())).replace("-", "[-_ ]")
    numbers = "|".join(sorted(name for name in names if name[:1].isdigit()))
    return re.compile(
        rf"(?<![a-z0-9])(?:(?:lib)?(?:{words})(?!64)(?:ctl|uvm|[0-9]{{1,3}})?|(?:0x)?(?:{numbers}))(?![a-z0-9])",
        re.IGNORECASE,
    )


NAMES = vendor_names(*declarations().values())
NAMES_OF = {vendor.name: vendor_names(vendor) for vendor in declarations().values()}
COMPARING_METHODS = {
    *("startswith", "endswith", "removeprefix", "removesuffix", "partition", "find", "count"),
    *("compile", "match", "fullmatch", "search", "findall", "finditer", "sub", "fnmatch", "fnmatchcase"),
}


def names_of(text: str) -> Iterator[str]:
    """The text, if it is one word or only names of vendors. Of prose that lists vendors, the list."""
    if NAMES.search(text) is None:
        return
    words = re.split(r"[\s,]+", text.strip(" ,\t\r\n"))
    if len(words) == 1 or all(map(NAMES.fullmatch, words)):
        yield text
    elif len(listed := [vendor for vendor, names in NAMES_OF.items() if names.search(text)]) > 1:
        yield f"list of {', '.join(listed)}"


def compared_literals(tree: ast.AST) -> Iterator[ast.Constant]:
    """Operands of comparisons, keys of dictionaries, and arguments of methods such as startswith and of
    functions of `re`, also within tuples and sets."""
    for node in ast.walk(tree):
        operands: list[ast.expr] = []
        match node:
            case ast.Compare():
                operands = [node.left, *node.comparators]
            case ast.Call(func=ast.Attribute(attr=method)) if method in COMPARING_METHODS:
                operands = node.args
            case ast.MatchValue():
                operands = [node.value]
            case ast.Dict():
                operands = [key for key in node.keys if key is not None]
            case ast.Subscript():
                operands = [node.slice]
        for operand in operands:
            members = operand.elts if isinstance(operand, ast.Tuple | ast.Set | ast.List) else [operand]
            yield from (member for member in members if isinstance(member, ast.Constant))


def python_names(text: str) -> Iterator[str]:
    """Vendors in compared literals, in literals that are neither prose nor docstring, and in identifiers."""
    tree = ast.parse(text)
    # Also those below fields.
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for literal in compared_literals(tree):
        if isinstance(literal.value, str) and NAMES.search(literal.value):
            yield literal.value
        elif type(literal.value) is int and NAMES.fullmatch(f"{literal.value:#x}"):  # a PCI vendor id
            yield f"{literal.value:#x}"
    for text in _literals_and_identifiers(tree, docstrings):
        yield from names_of(text)


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


COMMENTS = {
    "c": re.compile(r"(?s)/\*.*?\*/|(?<!:)//[^\n]*"),  # C, TypeScript
    "yaml": re.compile(r"(?m)(?:^|(?<=\s))#.*$"),
    "template": re.compile(r"(?s)\{\{-? ?/\*.*?\*/ ?-?\}\}|(?m:^\s*#.*$)"),
}
KINDS = {
    ".c": "c",
    ".h": "c",
    ".ts": "c",
    ".tsx": "c",
    ".yaml": "yaml",
    ".tpl": "template",
    ".txt": "template",
}
QUOTED = re.compile(r"""([\"'`])((?:(?!\1)[^\\\n]|\\.)*)\1""")


def other_names(text: str, kind: str) -> Iterator[str]:
    """Vendors in quoted text that is not prose, and anywhere outside of quotes: identifiers, keys, text
    between tags."""
    code = COMMENTS[kind].sub("", text)
    for match in QUOTED.finditer(code):
        yield from names_of(match[2])
    outside = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", QUOTED.sub(" ", code))
    yield from (match[0] for match in NAMES.finditer(outside))


@cache
def found() -> dict[str, set[str]]:
    product = [path for path in (REPOSITORY / PRODUCT).rglob("*.*") if not _is_of_a_vendor(path)]
    page = [path for path in (REPOSITORY / PAGE).rglob("*.ts*") if ".test." not in path.name]
    chart = [path for path in (REPOSITORY / CHART).iterdir() if path.is_file()]
    names: dict[str, set[str]] = {}
    for path in (*product, *page, *chart):
        own = set(names_in(path))
        if own:
            names[path.relative_to(REPOSITORY).as_posix()] = own
    return names


def names_in(path: Path) -> Iterator[str]:
    if path.suffix == ".py":
        return python_names(path.read_text(encoding="utf-8"))
    if path.suffix not in KINDS:
        return iter(())
    kind = "template" if path.is_relative_to(REPOSITORY / CHART) else KINDS[path.suffix]
    return other_names(path.read_text(encoding="utf-8"), kind)


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
        "re.match('^(nvidia|amd) foo', x)",
        "MODEL = re.compile(r'NVIDIA (A100|H100)')",
        "MEMORY = {'NVIDIA H100': 80}",
        "memory['NVIDIA H100'] = 80",
        "library = 'libnvidia-ml.so.1'",
        "file = '/dev/nvidiactl'",
        "file = 'nvidia0'",
        "folder = '/sys/class/kfd'",
        "kind = 'xid'",
        "help = 'Not for Furiosa; --vendor selects NVIDIA or AMD.'",
    ],
)
def test_lists_comparisons_and_imports_are_found(code: str) -> None:
    assert list(python_names(code))


def test_prose_and_comments_may_name_vendors() -> None:
    code = '"""Of NVIDIA."""\n\n# amd\ndef help():\n    "nvidia"\n    return 1\n'
    assert list(python_names(code)) == []
    assert list(python_names("help = 'The reason is that NVIDIA has none.'\nsort = 'ascending'\n")) == []
    assert list(other_names('const a = "x"; // "nvidia"\n/** "amd" */ const b = "amd"', "c")) == ["amd"]
    assert list(other_names("{{/* for nvidia */}}\n# amd\nimage: linux-amd64\n", "template")) == []


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        ("c", "const memory = { nvidia: 80 }"),
        ("c", "return <p>NVIDIA GPUs</p>"),
        ("c", "const isNvidia = true"),
        ("c", 'open("/dev/nvidia0", 0)'),
        ("template", "{{ if .Values.agents.nvidia.enabled }}"),
        ("template", 'key: "nvidia.com/gpu"'),
        ("yaml", "amd: {gpus: 2}"),
        ("yaml", "- vendor: ascend  # a chip"),
    ],
)
def test_identifiers_keys_and_texts_of_other_languages_are_found(kind: str, code: str) -> None:
    assert list(other_names(code, kind))
