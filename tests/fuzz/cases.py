"""Faults that were found, one file each: what is saved by a run and replayed by `make test`."""

import base64
import hashlib
import json
import zlib
from pathlib import Path

CASES = Path(__file__).parent / "cases"


def save(folder: Path, target: str, fault: str, data: bytes) -> Path:
    """Write a case; the same input always goes to the same file."""
    name = hashlib.sha256(data).hexdigest()[:12]
    case = {"target": target, "fault": fault}
    try:
        text = data.decode()
        plain = len(data) < 4000 and text.encode() == data
    except UnicodeDecodeError:
        plain = False
    if plain:
        case["input"] = text
    else:
        case["compressed"] = base64.b64encode(zlib.compress(data, 9)).decode()
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{target}-{name}.json"
    path.write_text(json.dumps(case, indent=1) + "\n")
    return path


def load(path: Path) -> tuple[str, bytes]:
    """The target and the input of a case."""
    case = json.loads(path.read_text())
    if "input" in case:
        return case["target"], case["input"].encode()
    return case["target"], zlib.decompress(base64.b64decode(case["compressed"]))
