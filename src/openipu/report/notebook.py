"""A report inline in a notebook.

In: a whole page as text. Out: HTML for a cell: the page in a frame of its own, so that neither touches the other.
"""

from __future__ import annotations

import html

HEIGHT_PIXELS = 760


def frame_page(page: str, title: str) -> str:
    """The page as the content of an `iframe`. It may run its scripts, and can reach nothing of the notebook."""
    return (
        f'<iframe title="{html.escape(title)}" srcdoc="{html.escape(page)}" '
        f'sandbox="allow-scripts allow-downloads" style="width: 100%; height: {HEIGHT_PIXELS}px; border: 0"></iframe>'
    )
