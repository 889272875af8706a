"""The secure port's listening socket, opened before anything else is started.

Owns the choice of address family, the sharing options and the texts for a port that cannot be had.
Accepts nothing.
"""

import ipaddress
import os
import socket

from moorage.errors import InputError
from moorage.http.options import ServingOptions

BACKLOG = 4096


def open_listener(options: ServingOptions) -> socket.socket:
    """Listen on the address and port of the options; `InputError` in upstream's words."""
    try:
        address = ipaddress.ip_address(options.bind_address or "0.0.0.0")
    except ValueError:
        raise InputError(f'--bind-address: "{options.bind_address}" is not an IP address') from None
    shown = joined(str(address), options.secure_port)
    family = _family(address)
    try:
        made = socket.socket(family, socket.SOCK_STREAM)
    except OSError as error:
        raise _refused(shown, "socket", error) from None
    try:
        # Set in any case, as by Go; --permit-address-sharing therefore changes nothing on Linux.
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if options.permit_port_sharing:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        host = str(address)
        if family == socket.AF_INET6:
            both = address.is_unspecified
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0 if both else 1)
            host = "::" if both else host
        made.setblocking(False)
        made.bind((host, options.secure_port))
        made.listen(BACKLOG)
    except OSError as error:
        made.close()
        raise _refused(shown, "bind", error) from None
    return made


def _family(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> socket.AddressFamily:
    """An unspecified address, of whichever family, means all interfaces of both families."""
    if address.version == 4 and not (address.is_unspecified and _dual_stack()):
        return socket.AF_INET
    return socket.AF_INET6


def _dual_stack() -> bool:
    if not socket.has_dualstack_ipv6():
        return False
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as probe:
            probe.bind(("::", 0))
    except OSError:
        return False
    return True


def joined(host: str, port: int) -> str:
    """Host and port as one text, IPv6 addresses in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _refused(shown: str, call: str, error: OSError) -> InputError:
    reason = os.strerror(error.errno).lower() if error.errno else str(error)
    return InputError(
        f"failed to create listener: failed to listen on {shown}:"
        f" listen tcp {shown}: {call}: {reason}"
    )
