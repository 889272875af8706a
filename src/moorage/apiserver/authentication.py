"""Who is asking, and what the review APIs say about it.

Without tokens everybody is let in: the server listens on loopback. With tokens only their holders
are. There is no authorization: whoever is let in may do everything.
"""

from pathlib import Path
from typing import NamedTuple

from moorage.apiserver.errors import Json, unauthorized
from moorage.errors import InputError

_AUTHENTICATED = "system:authenticated"


class ApiUser(NamedTuple):
    """Somebody known by a token."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()

    def info(self) -> Json:
        """`UserInfo` as reviews show it."""
        body: Json = {"username": self.name, "groups": [*self.groups, _AUTHENTICATED]}
        if self.uid:
            body["uid"] = self.uid
        return body


ANONYMOUS = ApiUser("system:anonymous", groups=("system:unauthenticated",))


class Authentication:
    """Static tokens, or none."""

    def __init__(self, tokens: dict[str, ApiUser] | None = None) -> None:
        self._tokens = dict(tokens or {})

    @property
    def required(self) -> bool:
        """Must requests carry a token?"""
        return bool(self._tokens)

    def first_token(self) -> str:
        """A token for the kubeconfig this server writes."""
        return next(iter(self._tokens), "")

    def user(self, header: str | None) -> ApiUser:
        """The user of an `Authorization` header; raises a 401 for strangers."""
        if not self._tokens:
            return ANONYMOUS
        scheme, _, token = (header or "").partition(" ")
        known = self._tokens.get(token.strip()) if scheme.lower() == "bearer" else None
        if known is None:
            raise unauthorized()
        return known

    def known(self, token: str) -> ApiUser | None:
        """The holder of a token, as TokenReview asks."""
        return self._tokens.get(token)


def read_token_file(path: Path) -> dict[str, ApiUser]:
    """kube-apiserver's `--token-auth-file`: lines of `token,user,uid[,"group1,group2"]`."""
    tokens: dict[str, ApiUser] = {}
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise InputError(f"the token file {path} cannot be read: {error.strerror}") from None
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        token, name, uid, groups = [*line.split(",", 3), "", "", ""][:4]
        if not token.strip() or not name.strip():
            raise InputError(f"{path}:{number}: a line needs at least a token and a user name")
        listed = tuple(g.strip() for g in groups.strip().strip('"').split(",") if g.strip())
        tokens[token.strip()] = ApiUser(name.strip(), uid.strip(), listed)
    return tokens


def review(authentication: Authentication, user: ApiUser, kind: str, obj: Json) -> Json:
    """Answer one of the review kinds; access reviews always allow."""
    answer = dict(obj)
    spec = obj.get("spec") or {}
    match kind:
        case "TokenReview":
            known = authentication.known(str(spec.get("token", "")))
            if known is None:
                status: Json = {"user": {}, "error": "the token is not known to this server"}
            else:
                status = {"authenticated": True, "user": known.info()}
        case "SelfSubjectReview":
            status = {"userInfo": user.info()}
        case "SelfSubjectRulesReview":
            everything = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
            status = {
                "resourceRules": [everything],
                "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
                "incomplete": False,
            }
        case _:
            status = {"allowed": True, "reason": "this server allows everything"}
    answer["status"] = status
    answer.setdefault("metadata", {})
    return answer
