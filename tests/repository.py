"""Where the repository's own files are."""

from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
CHART = REPOSITORY / "deploy" / "chart"
MANIFESTS = REPOSITORY / "deploy" / "manifests"
