"""A broken line through given points: how profiles describe scores over utilisation."""

from collections.abc import Sequence


def broken_line(points: Sequence[tuple[int, int]], x: int) -> int:
    """The line's value, flat beyond its ends; divisions truncate toward zero, as Go's do."""
    previous = points[0]
    for point in points:
        if x <= point[0]:
            if point is points[0]:
                return point[1]
            rise = (point[1] - previous[1]) * (x - previous[0])
            run = point[0] - previous[0]
            return previous[1] + (rise // run if rise >= 0 else -(-rise // run))
        previous = point
    return points[-1][1]
