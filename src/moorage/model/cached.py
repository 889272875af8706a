"""Values worked out once per object, when they are first asked for.

`functools.cached_property` does the same behind a lock, which costs more than most of what is kept
here; objects of the model are never shared between threads.
"""

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")


class cached(Generic[T]):  # noqa: N801  # used as a decorator, like `property`
    """A property that is computed at most once; the object needs a `__dict__`."""

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute = compute
        self._name = compute.__name__
        self.__doc__ = compute.__doc__

    @overload
    def __get__(self, obj: None, owner: type) -> "cached[T]": ...
    @overload
    def __get__(self, obj: object, owner: type) -> T: ...
    def __get__(self, obj: object | None, owner: type) -> "cached[T] | T":
        """Only asked while the object has no value of its own under this name."""
        if obj is None:
            return self
        value = obj.__dict__[self._name] = self._compute(obj)
        return value
