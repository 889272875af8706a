"""Where the chart library of the page is: one file in the Python package plotly.

Owns finding it. Loads nothing of a server, so that a start can see at once whether it is there.
"""

from importlib.util import find_spec
from pathlib import Path

from moorage.errors import InputError

NAME = "plotly.min.js"


def chart_library() -> Path:
    """The library's own build; the package is looked up but not imported, which takes a second."""
    spec = find_spec("plotly")
    for place in (spec.submodule_search_locations or ()) if spec is not None else ():
        path = Path(place, "package_data", NAME)
        if path.is_file():
            return path
    raise InputError(
        "the page needs the chart library of the Python package plotly, which is not installed "
        "(pip install plotly)"
    )
