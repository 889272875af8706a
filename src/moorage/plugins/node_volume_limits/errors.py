"""What keeps volumes from being counted."""

from moorage.framework.status import Code, Reason


class UncountableError(Exception):
    """Volumes cannot be counted; carries what to say of the node."""

    def __init__(self, text: str, code: Code = Code.ERROR) -> None:
        super().__init__(text)
        self.reason = Reason(text, code)
