"""What every target of the fuzzer is: how it makes an input, and what must hold for it."""

import json
import logging
import os
from abc import ABC, abstractmethod
from pathlib import Path
from random import Random
from typing import Any, TextIO

from moorage.app.logs import TextFormatter

TESTS = Path(__file__).parents[1]
SAMPLES = TESTS.parent / "src" / "moorage" / "samples"


class PropertyError(AssertionError):
    """A property does not hold for an input; the text says which."""


class Target(ABC):
    """A part of the product under fire. Whatever `check` raises is a fault that was found."""

    name: str
    share: int = 10
    """Its part of the time, in relation to the others'."""

    def prepare(self, random: Random) -> None:
        """Load what inputs are made from."""
        del random

    @abstractmethod
    def make(self, random: Random) -> bytes:
        """An input."""

    @abstractmethod
    def check(self, data: bytes) -> None:
        """Run the product on an input; returns if all is well."""

    def reset(self) -> None:
        """Forget what earlier inputs left behind; called after a fault and at the end."""
        return


class Strict(logging.StreamHandler[TextIO]):
    """Formats and writes like the product's log, but a line that cannot be written is a fault."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's name
        """Do not hide it."""
        raise

    @classmethod
    def install(cls) -> None:
        """Let this be the only handler."""
        # As long as the process.
        nowhere = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115
        handler = cls(nowhere)
        handler.setFormatter(TextFormatter())
        root = logging.getLogger()
        root.handlers[:] = [handler]
        root.setLevel(logging.INFO)


def loaded(data: bytes) -> Any:
    """The JSON of an input that a target made itself; None if it is none (any more)."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None
