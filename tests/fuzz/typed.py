"""Objects that Hypothesis draws from the model's types: every field may come, with any value.

Golden cases hold what a test author thought of; these hold what the types allow.
"""

from functools import cache
from random import Random
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from msgspec import inspect

from fuzz.mutations import OPERATORS, QUANTITIES, STRINGS, TIMES
from moorage.model.decode import KINDS, Kind

Json = dict[str, Any]
Values = st.SearchStrategy[Any]

_TEXTS = st.one_of(
    st.sampled_from(["a", "b", "kubernetes.io/hostname", *OPERATORS, *TIMES]),
    st.sampled_from([text for text in STRINGS if "\ud800" not in text]),
    st.text(max_size=4),
)
_AMOUNTS = st.sampled_from([text for text in QUANTITIES if len(str(text)) < 100])
_INTEGERS = st.one_of(st.integers(-2, 3), st.sampled_from([2**31 - 1, -(2**31), 2**63 - 1]))
_ANYTHING = st.recursive(
    st.none() | st.booleans() | _INTEGERS | _TEXTS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(_TEXTS, inner, max_size=2),
    max_leaves=4,
)


def typed_objects(random: Random, count: int = 80) -> list[Json]:
    """So many objects of all kinds."""
    found: list[Json] = []

    @seed(random.getrandbits(32))
    @settings(
        max_examples=count,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(st.sampled_from(sorted(KINDS)).flatmap(lambda name: _object(KINDS[name])))
    def collect(obj: Json) -> None:
        found.append(obj)

    collect()
    return found


def _object(kind: Kind) -> Values:
    version = f"{kind.group}/{kind.versions[0]}".lstrip("/")
    names = st.sampled_from(["a", "b", "c"])
    metadata = st.fixed_dictionaries(
        {"name": names, "uid": names, "resourceVersion": st.sampled_from(["1", "2"])},
        optional={"labels": st.dictionaries(_TEXTS, _TEXTS, max_size=2), "namespace": names},
    )

    def whole(parts: tuple[Json, Json]) -> Json:
        known = {"apiVersion": version, "kind": kind.name, "metadata": parts[0]}
        return {**parts[1], **known}

    return st.tuples(metadata, _strategy(kind.struct, 0)).map(whole)


@cache
def _strategy(struct: type, depth: int) -> Values:
    info = inspect.type_info(struct)
    assert isinstance(info, inspect.StructType)
    fields = {
        field.encode_name: _of(field.type, depth + 1)
        for field in info.fields
        if field.encode_name not in ("metadata", "apiVersion", "kind")
    }
    needed = {field.encode_name for field in info.fields if field.required}
    wanted = {name: value for name, value in fields.items() if name in needed or depth < 1}
    rest = {name: value for name, value in fields.items() if name not in wanted}
    return st.fixed_dictionaries(wanted, optional=rest)


def _of(kind: inspect.Type, depth: int) -> Values:
    match kind:
        case inspect.StructType(cls=struct):
            return st.deferred(lambda: _strategy(struct, depth))
        case inspect.ListType(item_type=item) | inspect.VarTupleType(item_type=item):
            return st.lists(_of(item, depth), max_size=2)
        case inspect.DictType(value_type=item):
            return st.dictionaries(_TEXTS, _of(item, depth), max_size=2)
        case inspect.UnionType(types=types):
            if {type(one) for one in types} >= {inspect.StrType, inspect.IntType}:
                return _AMOUNTS
            return st.one_of([_of(one, depth) for one in types])
        case inspect.NoneType():
            return st.none()
        case inspect.BoolType():
            return st.booleans()
        case inspect.IntType():
            return _INTEGERS
        case inspect.FloatType():
            return st.floats(allow_nan=False, allow_infinity=False)
        case inspect.StrType():
            return _TEXTS
        case _:
            return _ANYTHING
