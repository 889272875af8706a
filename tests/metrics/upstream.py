"""The metric families of the real kube-scheduler, taken from what its /metrics shows.

`python tests/metrics/upstream.py DUMP...` reads texts saved from /metrics, /metrics/slis and
/metrics/resources of kube-scheduler, under load, and writes data/upstream_families.json anew.
Families that the load did not bring out are kept as they stand there, with `observed: false`: they
were written down from kube-scheduler's source.
"""

import json
import sys
from pathlib import Path
from typing import Any

from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

DATA = Path(__file__).with_name("data") / "upstream_families.json"


def described(text: str) -> dict[str, dict[str, Any]]:
    """Type, labels, buckets and HELP of every family in a text, by name."""
    help_texts = _help_texts(text)
    found = {}
    for family in text_string_to_metric_families(text):
        name = family.name
        if family.type == "counter" and name not in help_texts:
            name = f"{name}_total"  # the parser takes the suffix off
        found[name] = {
            "type": family.type,
            "labels": sorted({key for s in family.samples for key in s.labels} - {"le"}),
            "buckets": _buckets(family),
            "help": help_texts.get(name, ""),
        }
    return found


def known() -> dict[str, dict[str, Any]]:
    """The families on file."""
    loaded: dict[str, dict[str, Any]] = json.loads(DATA.read_text())
    return loaded


def _help_texts(text: str) -> dict[str, str]:
    # Not the parser's, which drops the blank that an empty text ends with.
    lines = (line for line in text.splitlines() if line.startswith("# HELP "))
    return {line.split(" ", 3)[2]: line.split(" ", 3)[3] for line in lines}


def _buckets(family: Metric) -> list[str] | None:
    if family.type != "histogram":
        return None
    bounds = dict.fromkeys(s.labels["le"] for s in family.samples if "le" in s.labels)
    return sorted(bounds, key=float)


def _rewrite(paths: list[str]) -> None:
    written_down = {name: one for name, one in known().items() if not one["observed"]}
    families: dict[str, dict[str, Any]] = {}
    for path in paths:
        for name, one in described(Path(path).read_text()).items():
            if not name.startswith("go_"):  # a hundred and more, about Go's runtime alone
                families.setdefault(name, {"observed": True, **one})
    families = written_down | families
    DATA.write_text(json.dumps(dict(sorted(families.items())), indent=1) + "\n")


if __name__ == "__main__":
    _rewrite(sys.argv[1:])
