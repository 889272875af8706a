"""What the real kube-scheduler v1.37.1 said, as recorded under `data`."""

import json
from pathlib import Path
from typing import Any

_DATA = Path(__file__).parent / "data"


def recorded_text(name: str) -> str:
    return (_DATA / name).read_text("utf-8")


def recorded(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(recorded_text(name))
    return found
