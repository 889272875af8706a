"""Who somebody is, and how a request says so: plain values of authentication.

Knows the names that Kubernetes gives to users and groups; asks nobody.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from moorage.http.authorities import ClientCertificate

if TYPE_CHECKING:
    from multidict import CIMultiDictProxy

AUTHENTICATED = "system:authenticated"
UNAUTHENTICATED = "system:unauthenticated"
MASTERS = "system:masters"
ANONYMOUS_NAME = "system:anonymous"


@dataclass(frozen=True, slots=True)
class User:
    """A user as the review APIs describe one."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def with_authenticated_group(self) -> "User":
        """The same user, in the group of all who have proved who they are."""
        if self.name == ANONYMOUS_NAME or {AUTHENTICATED, UNAUTHENTICATED} & set(self.groups):
            return self
        return replace(self, groups=(*self.groups, AUTHENTICATED))


ANONYMOUS = User(ANONYMOUS_NAME, groups=(UNAUTHENTICATED,))


def readable(text: str) -> str:
    """A header's value without bytes that are no text; nobody's name has such."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


class UnauthenticatedError(Exception):
    """Somebody claims to be who they cannot prove to be; the answer is 401."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a request brings: its headers, and the certificate of its connection."""

    headers: "CIMultiDictProxy[str]"
    certificate: ClientCertificate | None = None
