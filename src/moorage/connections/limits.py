"""How many connections a port accepts, and how long each may keep it waiting. Plain values."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """The limits of one port."""

    total: int = 512
    """Connections at once. Beyond that, the connection that has been idle longest is closed."""
    per_address: int = 256
    """The same for one IPv4 address or one IPv6 /64 network."""
    first_request_seconds: float = 10.0
    """From a connection to the end of its first request's header."""
    idle_seconds: float = 90.0
    """Between two requests."""
    body_seconds: float = 30.0
    """For a request's body to arrive."""
    unread_seconds: float = 30.0
    """For a client to read on when the buffers to it are full."""


SECURE = ConnectionLimits()
"""For a port that is open to the network."""
LOCAL = ConnectionLimits(total=1024, per_address=1024)
"""For servers on loopback, where all clients have one address."""
