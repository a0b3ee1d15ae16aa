"""`rocm-smi … --csv`: tables with a column `device`; what is said of the node as a whole is a table of its
own."""

from accelscope.parsing.parsed import Parsed, ParseError
from accelscope.parsing.rejections import Rejections
from accelscope.vendors.amd import messages, rocm_fields
from accelscope.vendors.amd.parse_rocm_json import CARD, devices_and_processes

ROCM_CSV = "rocm-smi --csv"

_LONGEST = 100_000
_MOST_COLUMNS = 1000


def parse_rocm_csv(text: str) -> Parsed:
    rejected = Rejections()
    cards: dict[int, dict[str, str]] = {}
    system: dict[str, str] = {}
    columns: list[str] = []
    device = 0  # place of the column that names the device
    for raw in text.lstrip("\ufeff").split("\n"):
        line = raw.strip()
        if not line or len(line) > _LONGEST:
            continue
        cells = [cell.strip().strip('"') for cell in line.split(",", _MOST_COLUMNS)]
        names = [cell.casefold() for cell in cells]
        if "device" in names and not any(map(CARD.fullmatch, names)):
            columns, device = cells, names.index("device")
            continue
        if not columns or len(cells) <= device:
            continue  # a warning before the table
        match = CARD.fullmatch(cells[device])
        if len(cells) != len(columns):
            if match is not None or cells[device] == "system":
                rejected.add(line, "not_a_row")
        elif match is not None:
            told = {rocm_fields.normal(name): cell for name, cell in zip(columns, cells, strict=True)}
            cards.setdefault(int(match[1]), {}).update(told)
        elif cells[device] == "system":
            system.update(zip(columns, cells, strict=True))
    parsed = devices_and_processes(cards, system, rejected)
    if parsed.devices or parsed.processes:
        return parsed
    error = messages.no_reading(text, ROCM_CSV)
    if error.reason == "unrecognized" and columns:
        error = ParseError("truncated", f"{ROCM_CSV} printed a header line and no row that can be read")
    return Parsed(error=error, rejected=rejected.listed())
