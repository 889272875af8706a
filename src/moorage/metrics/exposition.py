"""Metric families as text in the format of Prometheus, 0.0.4.

Numbers are written as Go writes them, so that the text equals kube-scheduler's byte for byte where
the values are equal. In OpenMetrics they would not, and kube-scheduler does not offer that either.
"""

import math
from collections.abc import Iterable, Iterator
from decimal import Decimal

from moorage.metrics.families import AnyFamily, Distribution, Histogram, Value

TEXT = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores"
# The powers of ten that Go's shortest format writes without an exponent.
_NO_EXPONENT = range(-4, 6)


def render(families: Iterable[AnyFamily]) -> tuple[str, bytes]:
    """The content type and the text."""
    filled = sorted((one for one in families if one.children), key=lambda family: family.name)
    return TEXT, "".join(f"{line}\n" for family in filled for line in _lines(family)).encode()


def go_float(value: float) -> str:
    """A number as Go's shortest format has it: `1`, `0.001`, `1.5e+06`, `+Inf`."""
    value = float(value)  # an int will do wherever a float is asked for
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    if value == 0:
        return "0"
    if value.is_integer() and abs(value) < 10**_NO_EXPONENT.stop:
        return str(int(value))
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int), "only finite numbers come here"
    power = len(digits) - 1 + exponent
    text = "".join(map(str, digits))
    minus = "-" if sign else ""
    if power not in _NO_EXPONENT:
        fraction = f".{text[1:]}" if text[1:] else ""
        return f"{minus}{text[0]}{fraction}e{'-' if power < 0 else '+'}{abs(power):02d}"
    if power < 0:
        return f"{minus}0.{'0' * (-power - 1)}{text}"
    text = text.ljust(power + 1, "0")
    fraction = f".{text[power + 1 :]}" if text[power + 1 :] else ""
    return f"{minus}{text[: power + 1]}{fraction}"


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
