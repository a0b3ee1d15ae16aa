"""One item of a list in YAML, with texts for all values: YAML would read `511:0` as a number in base 60."""

import yaml


class _TextLoader(yaml.BaseLoader):
    """Follows no references: a small text could stand for gigabytes."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("a reference")
        return super().compose_node(parent, index)


def read_item(text: str) -> dict[str, object] | None:
    """None: it is not an item, or not all of it is there."""
    try:
        # Of all classes of loaders this one makes the least: texts, lists and dicts.
        read = yaml.load(text, Loader=_TextLoader)  # noqa: S506
    except (yaml.YAMLError, RecursionError, ValueError):
        return None
    match read:
        case [dict() as fields] if all(isinstance(key, str) for key in fields):
            return fields
    return None
