"""Metric families as text: Prometheus 0.0.4, as kube-scheduler writes it, and OpenMetrics 1.0.

Owns the two formats and the choice between them. Numbers are written as Go writes them, so that the
text equals upstream's byte for byte where the values are equal.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal

from moorage.metrics.families import AnyFamily, Distribution, Histogram, Value

TEXT = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores"
OPEN_METRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8; escaping=underscores"

_OPEN, _PLAIN, _ANY = "application/openmetrics-text", "text/plain", "*/*"
_VERSIONS = {_OPEN: ("0.0.1", "1.0.0"), _PLAIN: ("0.0.4",)}
_TOTAL = "_total"
# The powers of ten that Go's shortest format writes without an exponent.
_NO_EXPONENT = range(-4, 6)

_Number = Callable[[float], str]


def render(families: Iterable[AnyFamily], accept: str = "") -> tuple[str, bytes]:
    """The content type and the text, in the format that the Accept header prefers."""
    filled = sorted((one for one in families if one.children), key=lambda family: family.name)
    if wants_open_metrics(accept):
        return OPEN_METRICS, _joined([*_open_metrics(filled), "# EOF"])
    return TEXT, _joined(_text(filled))


def wants_open_metrics(accept: str) -> bool:
    """Does an Accept header ask for OpenMetrics at least as much as for plain text?"""
    quality = {_OPEN: 0.0, _PLAIN: 0.0, _ANY: 0.0}
    for part in accept.split(","):
        kind, *parameters = (piece.strip() for piece in part.split(";"))
        if kind in quality:
            quality[kind] = max(quality[kind], _quality(kind, parameters))
    wanted = quality[_OPEN]
    return wanted > 0 and wanted >= max(quality[_PLAIN], quality[_ANY])


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


def _quality(kind: str, parameters: Iterable[str]) -> float:
    quality = 1.0
    for parameter in parameters:
        key, _, value = parameter.partition("=")
        if key == "version" and value not in _VERSIONS.get(kind, (value,)):
            return 0.0
        if key == "q":
            try:
                quality = float(value)
            except ValueError:
                return 0.0
    return quality


def _text(families: Iterable[AnyFamily]) -> Iterator[str]:
    for family in families:
        yield f"# HELP {family.name} {_escaped(family.help_text, quotes=False)}"
        yield f"# TYPE {family.name} {family.kind}"
        yield from _samples(family, go_float)


def _open_metrics(families: Iterable[AnyFamily]) -> Iterator[str]:
    for family in families:
        name, kind = family.name, str(family.kind)
        if kind == "counter":
            # Only a name in `_total` may be a counter there.
            kind = "counter" if name.endswith(_TOTAL) else "unknown"
            name = name.removesuffix(_TOTAL)
        yield f"# HELP {name} {_escaped(family.help_text)}"
        yield f"# TYPE {name} {kind}"
        yield from _samples(family, _open_float)


def _samples(family: AnyFamily, number: _Number) -> Iterator[str]:
    """One line per value: label sets ordered by their values, labels by their names."""
    names = family.label_names
    order = sorted(range(len(names)), key=names.__getitem__)
    for values in sorted(family.children, key=lambda values: [values[i] for i in order]):
        labels = ",".join(f'{names[i]}="{_escaped(values[i])}"' for i in order)
        child = family.children[values]
        if isinstance(child, Value):
            yield f"{family.name}{_braced(labels)} {number(child.value)}"
        elif isinstance(family, Histogram):
            yield from _distribution(family, labels, child, number)


def _distribution(
    family: Histogram, labels: str, child: Distribution, number: _Number
) -> Iterator[str]:
    before = f"{labels}," if labels else ""
    total = 0
    for bound, count in zip((*family.buckets, math.inf), child.counts, strict=True):
        total += count
        yield f'{family.name}_bucket{{{before}le="{number(bound)}"}} {total}'
    yield f"{family.name}_sum{_braced(labels)} {number(child.sum)}"
    yield f"{family.name}_count{_braced(labels)} {total}"


def _open_float(value: float) -> str:
    text = go_float(value)
    return f"{text}.0" if text.lstrip("-").isdigit() else text


def _braced(labels: str) -> str:
    return f"{{{labels}}}" if labels else ""


def _escaped(text: str, *, quotes: bool = True) -> str:
    text = text.replace("\\", r"\\").replace("\n", r"\n")
    return text.replace('"', r"\"") if quotes else text


def _joined(lines: Iterable[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()
