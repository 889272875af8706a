"""All targets by name; each is loaded only where it runs."""

from importlib import import_module

from fuzz.target import Target

SHARES = {
    "decoder": 14,
    "config": 12,
    "cel": 10,
    "ledger": 8,
    "scenario": 8,
    "wire": 8,
    "engine": 18,
    "live": 12,
    "watch": 8,
    "api": 10,
}
"""Parts of the time."""
NAMES = tuple(SHARES)


def target_named(name: str) -> Target:
    """The target, made anew."""
    target = import_module(f"fuzz.targets.{name}").TARGET()
    assert isinstance(target, Target)
    return target
