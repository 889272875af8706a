"""Metric families as text in the format of Prometheus, 0.0.4.

Numbers are written as Go writes them, so that the text equals kube-scheduler's byte for byte where
the values are equal. In OpenMetrics they would not, and kube-scheduler does not offer that either.
"""

import math
from collections.abc import Iterable, Iterator

from moorage.metrics.families import AnyFamily, Distribution, Histogram, Value
from moorage.printable import go_float

TEXT = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores"


def render(families: Iterable[AnyFamily]) -> tuple[str, bytes]:
    """The content type and the text."""
    filled = sorted((one for one in families if one.children), key=lambda family: family.name)
    return TEXT, "".join(f"{line}\n" for family in filled for line in _lines(family)).encode()


def _lines(family: AnyFamily) -> Iterator[str]:
    yield f"# HELP {family.name} {_escaped(family.help_text, quotes=False)}"
    yield f"# TYPE {family.name} {family.kind}"
    yield from _samples(family)


def _samples(family: AnyFamily) -> Iterator[str]:
    """One line per value: label sets ordered by their values, labels by their names."""
    names = family.label_names
    order = sorted(range(len(names)), key=names.__getitem__)
    for values in sorted(family.children, key=lambda values: [values[i] for i in order]):
        labels = ",".join(f'{names[i]}="{_escaped(values[i])}"' for i in order)
        child = family.children[values]
        if isinstance(child, Value):
            yield f"{family.name}{_braced(labels)} {go_float(child.value)}"
        elif isinstance(family, Histogram):
            yield from _distribution(family, labels, child)


def _distribution(family: Histogram, labels: str, child: Distribution) -> Iterator[str]:
    before = f"{labels}," if labels else ""
    total = 0
    for bound, count in zip((*family.buckets, math.inf), child.counts, strict=True):
        total += count
        yield f'{family.name}_bucket{{{before}le="{go_float(bound)}"}} {total}'
    yield f"{family.name}_sum{_braced(labels)} {go_float(child.sum)}"
    yield f"{family.name}_count{_braced(labels)} {total}"


def _braced(labels: str) -> str:
    return f"{{{labels}}}" if labels else ""


def _escaped(text: str, *, quotes: bool = True) -> str:
    text = text.replace("\\", r"\\").replace("\n", r"\n")
    return text.replace('"', r"\"") if quotes else text
