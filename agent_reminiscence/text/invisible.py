"""Characters that nobody sees, and that a model reads all the same."""

from __future__ import annotations

import re
from typing import Final

# Some readers take them for line breaks; others are invisible or reverse the display of a line, and so tell a model
# what no human reader sees; a lone surrogate cannot be sent at all. Joiners and the emoji variation selector are kept:
# scripts and emoji need them.
INVISIBLE: Final = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f"
    "\u2028-\u202e\u2060-\u206f\u3164\ud800-\udfff\ufe00-\ufe0e\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
"""Control and bidirectional characters, tags and fillers; not tab, line feed and carriage return."""
