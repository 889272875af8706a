"""The ledger of decisions: every scheduling attempt, with each node's verdicts and scores.

`Ledger` records while a scheduler runs and can be asked; `open_ledger` reads what one left on disk.
The file format is described in docs/ledger-format.md.
"""

from moorage.ledger.ledger import Ledger
from moorage.ledger.opening import open_ledger
from moorage.ledger.reading import Reader

__all__ = ["Ledger", "Reader", "open_ledger"]
