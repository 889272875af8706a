"""Kinds of command-line arguments that several commands share."""

import argparse
from collections.abc import Callable

_HIGHEST_PORT = 65535


def positive(*, allow_zero: bool = False) -> Callable[[str], int]:
    """A whole number of at least one, or zero if that makes sense."""
    smallest = 0 if allow_zero else 1

    def parse(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = smallest - 1
        if number < smallest:
            raise argparse.ArgumentTypeError(f"expected a whole number >= {smallest}, got {text!r}")
        return number

    return parse


def port(text: str) -> int:
    """A TCP port; 0 stands for a free one."""
    if not text.isdecimal() or int(text) > _HIGHEST_PORT:
        raise argparse.ArgumentTypeError(f"expected a port from 0 to {_HIGHEST_PORT}, got {text!r}")
    return int(text)
