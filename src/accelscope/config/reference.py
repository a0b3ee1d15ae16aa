"""The reference page of settings, made from their declarations."""

from accelscope.config.declaration import Setting, environment_name, flag_name, key_name, settings_of
from accelscope.config.scalars import Boolean


def reference(cls: type) -> str:
    """Markdown: a table per group, in the order of declaration."""
    groups: dict[str, list[Setting]] = {}
    for declared in settings_of(cls):
        groups.setdefault(declared.group, []).append(declared)
    return "\n".join(_table(group, members) for group, members in groups.items())


def _table(group: str, members: list[Setting]) -> str:
    lines = [
        f"## {group}",
        "",
        "| flag | environment | key | default | allowed | what it is |",
        "|---|---|---|---|---|---|",
        *("| " + " | ".join(map(_escaped, _cells(each))) + " |" for each in members),
        "",
    ]
    return "\n".join(lines)


def _escaped(cell: str) -> str:
    """A bar would end the cell, and <name> would pass for markup."""
    return cell.replace("|", "\\|").replace("<", "&lt;")


def _cells(declared: Setting) -> tuple[str, ...]:
    flags, variables = [], []
    if declared.kind.textual:
        flags = [flag_name(declared.name)]
        if isinstance(declared.kind, Boolean):
            flags.append(f"--no-{flags[0][2:]}")
        variables = [environment_name(declared.name), *declared.env_aliases]
    keys = [key_name(declared.name)] if declared.in_file else []
    text = declared.help if declared.reloadable or not keys else f"{declared.help} A change needs a restart."
    default = [declared.default_text] if declared.default_text else []
    return (_code(flags), _code(variables), _code(keys), _code(default), declared.kind.allowed, text)


def _code(words: list[str]) -> str:
    return ", ".join(f"`{word}`" for word in words)
