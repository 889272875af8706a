"""Tables that are data, not code: YAML files beside the modules that use them.

Must not know what is in them, nor import anything of Moorage.
"""

from importlib.resources import files
from typing import TypeVar

import msgspec
import yaml

T = TypeVar("T")


def read_table(package: str, name: str, kind: type[T]) -> T:
    """The content of a file of a package, as a value of this kind."""
    text = files(package).joinpath(name).read_bytes()
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return msgspec.convert(yaml.load(text, Loader=loader), kind)
