"""How often Python looks for garbage while pods are decided.

Pods and their decisions are freed by counting references; cycles are rare. Python's usual
thresholds would have it look through what a decision has just made every few dozen pods, and
through everything that is known of the cluster again and again.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_THRESHOLDS = (20_000, 10, 10)


def collect_rarely() -> None:
    """From now on look for garbage rarely, and never among what is there by now: it stays."""
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)
    gc.enable()


@contextmanager
def collecting_rarely() -> Iterator[None]:
    """The same for a while."""
    thresholds, enabled = gc.get_threshold(), gc.isenabled()
    collect_rarely()
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        gc.unfreeze()
        if not enabled:
            gc.disable()
