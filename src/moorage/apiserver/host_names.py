"""Under which names a server on loopback may be asked.

Who may connect to loopback is on this machine, and needs no token. But a web site that a browser of
this machine visits can have its own name lead here (DNS rebinding), and would then read and change
everything. So names other than this machine's own are refused; addresses lead nowhere else.
"""

from ipaddress import ip_address
from urllib.parse import urlsplit

LOCALHOST = "localhost"


def is_loopback(host: str) -> bool:
    """Does only this machine reach a server that listens there?"""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == LOCALHOST


def names_this_machine(host: str) -> bool:
    """Is a `Host` header an address, or this machine's own name?"""
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return False
    try:
        ip_address(name)
    except ValueError:
        return name == LOCALHOST or name.endswith(f".{LOCALHOST}")
    return True
