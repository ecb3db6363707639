"""What a step found, on one line: what working memory keeps in sight of a result that it no longer shows."""

from __future__ import annotations

from typing import Final

from agent_reminiscence.react.shortened import shown_line
from agent_reminiscence.react.stated_facts import stated_facts
from agent_reminiscence.text.folding import WORD

MAX_FINDING_CHARACTERS: Final = 160
# A shorter first line is a heading or a label, and says little without what follows it.
_ENOUGH_CHARACTERS: Final = 40
_ENDS: Final = (".", "!", "?", "…", "。")
# What a result is about stands at its beginning; a result may have megabytes.
_READ_CHARACTERS: Final = 2_000


def finding_of(observation: str) -> str:
    r"""The first line of a result that has a word in it.

    A line of fewer than 40 characters that is no sentence is continued with the sentences in which the result states
    something lasting, or with its next lines.

    Returns:
        At most 160 characters, without line breaks, invisible characters and control tokens; "" if the result has no
        words.

    >>> finding_of("Results: 2\n\nThe mill was built of brick in 1820.\nIt has two wheels.")
    'Results: 2 The mill was built of brick in 1820.'
    """
    beginning = observation[:_READ_CHARACTERS]
    lines = [shown_line(line) for line in beginning.splitlines() if WORD.search(line)]
    if not lines:
        return ""
    found = lines[0]
    if not found.endswith(_ENDS):
        for more in (*map(shown_line, stated_facts(beginning)), *lines[1:]):
            if len(found) >= _ENOUGH_CHARACTERS:
                break
            if more not in found:
                found = f"{found} {more}"
    return within(found, MAX_FINDING_CHARACTERS)


def within(line: str, most: int) -> str:
    """A line, or its beginning and an ellipsis: at most `most` characters."""
    return line if len(line) <= most else f"{line[: most - 1].rstrip()}…"
