"""Verdicts as bits over a column's own list of reasons, which only ever grows."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from moorage.framework.status import FURTHER, Verdicts
from moorage.ledger.records import Words

_MOST_REASONS = 62
"""So many have a bit of their own; one more bit stands for all others."""


def as_bits(verdicts: Verdicts, known: list[Words]) -> NDArray[Any]:
    """Each row's bits; reasons that are new are appended to `known`.

    Usually the plugin's own bits will do, because it names its reasons in the same order each time.
    """
    told = [Words(reason.text, reason.code.value) for reason in verdicts.reasons]
    common = min(len(told), len(known))
    if told[:common] == known[:common] and len(told) <= _MOST_REASONS:
        known.extend(told[common:])
        return verdicts.bits
    bits = np.zeros(len(verdicts), np.int64)
    source, one = verdicts.bits, verdicts.bits.dtype.type(1)
    for i, words in enumerate(told):
        refused = (source >> source.dtype.type(i)) & one != 0
        if refused.any():
            bits[refused] |= 1 << _place(words, known)
    return bits


def _place(words: Words, known: list[Words]) -> int:
    if words in known:
        return known.index(words)
    if len(known) < _MOST_REASONS:
        known.append(words)
        return len(known) - 1
    if len(known) == _MOST_REASONS:
        known.append(Words(FURTHER, words.code))
    return _MOST_REASONS
