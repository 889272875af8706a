"""The ledger: what the cluster was like and what was decided, to explain any decision later.

`Ledger` records while a scheduler runs and can be asked; `open_ledger` reads what one left on disk.
The file format is described in docs/ledger-format.md.
"""

from moorage.ledger.ledger import Ledger
from moorage.ledger.reading import Reader, open_ledger

__all__ = ["Ledger", "Reader", "open_ledger"]
