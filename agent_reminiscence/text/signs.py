"""Signs that tell texts with the same words apart: C++ from C#, -5 from 5, £80 from €80, ✅ from ❌.

A text of nothing but words and punctuation has none. Hyphens between words, bullets, ranges ("5-6") and the addresses
of web pages are punctuation here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

_CURRENCY: Final = "$\u00a2\u00a3\u00a5\u0e3f\u20a0-\u20c0"
_MINUS: Final = "\\-\u2212\u2013"
# Emoji and the symbols written like them; arrows and shapes are left out because they serve as bullets. Fixed ranges,
# since Unicode categories depend on the version of Python.
_PICTOGRAPH: Final = (
    "\u231a\u231b\u23e9-\u23f3\u23f8-\u23fa\u2600-\u2793\u27b0\u2b1b\u2b1c\u2b50\u2b55\U0001f000-\U0001faff"
)
_FLAG_LETTER: Final = "\U0001f1e6-\U0001f1ff"
_SKIN_TONE: Final = "\U0001f3fb-\U0001f3ff"
_JOINER: Final = "\u200d"
_VARIATION: Final = "\ufe0e\ufe0f"
_SPACE: Final = "[ \u00a0\u202f]?"
_NUMBER: Final = r"[0-9]++(?:[.,:/][0-9]++)*+"
# Latin, Greek and Cyrillic: in scripts without spaces, what stands before a sign need not belong to it.
_LETTERS: Final = "a-z\u00df-\u00f6\u00f8-\u0587"
_WORD: Final = f"[0-9{_LETTERS}]{{1,64}}"
_IN_WORD: Final = f"0-9_{_LETTERS}"

# A minus or plus stands before a number here, and not in "5-6" or "5 -6".
_SIGNS_NUMBER: Final = "(?<![^\\s(\\[{\"'=|~\u201c\u201e\u00ab].)(?<![0-9][ ].)"

# A character that may be part of a sign. The set of characters comes first because the search skips to them.
_CANDIDATE: Final = re.compile(
    rf"""[+#@%.,:/\u2030{_MINUS}{_CURRENCY}{_PICTOGRAPH}](?:
        (?<=[%\u2030{_CURRENCY}{_PICTOGRAPH}])
      | (?<=[0-9][.,:/])(?=[0-9])
      | (?<=\.)(?<!\w\.)(?=[{_LETTERS}])
      | (?<=[+{_MINUS}])(?=[0-9{_CURRENCY}]){_SIGNS_NUMBER}
      | (?<=[0-9{_LETTERS}]\+)
      | (?<=[{_LETTERS}][{_MINUS}])(?!\w)(?:(?<![{_IN_WORD}]..)|(?<=ab.)(?<![{_IN_WORD}]...))
      | (?<=\#)(?=\w)
      | (?<=[{_LETTERS}]\#)(?<![{_IN_WORD}]..)
      | (?<=@)(?<![{_IN_WORD}.].)(?=[{_IN_WORD}])
    )""",
    re.VERBOSE,
)
_WEB_ADDRESS: Final = re.compile(r"\b(?:[a-z]{2,10}://|www\.)\S+")


def _as_written(match: re.Match[str]) -> str:
    return match[1]


def _signed(match: re.Match[str]) -> str:
    return f"{'+' if match[1] == '+' else '-'}{match[2]}"


def _graded(match: re.Match[str]) -> str:
    return f"{match[1]}-"


def _amount(match: re.Match[str]) -> str:
    return f"{match[1] or match[4]}{match[2] or match[3]}"


def _joined(match: re.Match[str]) -> str:
    return f"{match[1]}{match[2]}"


def _pictograph(match: re.Match[str]) -> str:
    """As one character or sequence, in whatever skin tone or style it was sent."""
    return _STYLE.sub("", match[0])


_STYLE: Final = re.compile(f"[{_VARIATION}{_SKIN_TONE}]")
_ONE_PICTOGRAPH: Final = f"[{_PICTOGRAPH}][{_VARIATION}{_SKIN_TONE}]*"

# The characters that a kind of sign needs, its pattern, and the term it is indexed under.
_KINDS: Final[tuple[tuple[re.Pattern[str], re.Pattern[str], Callable[[re.Match[str]], str]], ...]] = tuple(
    (re.compile(f"[{needed}]"), re.compile(pattern), term)
    for needed, pattern, term in (
        # 3.14, 3.12.1, 1,299.00, 10:30, 1/2; "v" before a version is not part of it.
        (".,:/", rf"(?<![{_IN_WORD}.,/@])v?([0-9]++(?:[.,:/][0-9]++)++)", _as_written),
        # -5, +5, also before an amount.
        (f"+{_MINUS}", rf"([+{_MINUS}]){_SIGNS_NUMBER}(?:[{_CURRENCY}]{_SPACE})?({_NUMBER})", _signed),
        ("%\u2030", rf"(?<![{_IN_WORD}.,/])({_NUMBER}){_SPACE}([%\u2030])", _joined),
        # C++, A+, 18+, Disney+.
        ("+", rf"(?<![{_IN_WORD}+])({_WORD}(?:\+\+(?!\+)|\+(?![\w+])))", _as_written),
        # C#, F#.
        ("#", rf"([{_LETTERS}]\#)(?<![{_IN_WORD}#]..)(?![{_LETTERS}_#])", _as_written),
        # The mark A-, the blood group AB-.
        (
            _MINUS,
            rf"(?<![{_IN_WORD}'\u2019.{_MINUS}])([{_LETTERS}]|ab)[{_MINUS}](?![\w{_MINUS}>])",
            _graded,
        ),
        # #42, #billing, @name, .net, .tar.gz.
        ("#", rf"(\#(?<![{_IN_WORD}&/.#].)\w{{1,64}})", _as_written),
        ("@", rf"(@(?<![{_IN_WORD}.@].)[{_IN_WORD}]{{1,64}})", _as_written),
        (".", rf"(\.(?<![\w.,/\\)\]].)[{_LETTERS}]{_WORD}(?:\.{_WORD})*)", _as_written),
        # $5 and 5 $ are the same amount; $HOME and ${HOME} are no money.
        (
            _CURRENCY,
            rf"([{_CURRENCY}]){_SPACE}({_NUMBER})|(?<![{_IN_WORD}.,/])({_NUMBER}){_SPACE}([{_CURRENCY}])",
            _amount,
        ),
        (_CURRENCY, rf"([{_CURRENCY}])(?![{_LETTERS}_{{(])", _as_written),
        (
            _PICTOGRAPH,
            rf"[{_FLAG_LETTER}]{{2}}|{_ONE_PICTOGRAPH}(?:{_JOINER}{_ONE_PICTOGRAPH}){{0,8}}",
            _pictograph,
        ),
    )
)


def signs(folded: str) -> list[str]:
    """The signs of a case folded text, line by line, with repetitions; none is a word."""
    if _CANDIDATE.search(folded) is None:
        return []
    if "://" in folded or "www." in folded:
        folded = _WEB_ADDRESS.sub(" ", folded)
    return [sign for line in folded.split("\n") for sign in _of_line(line)]


def _of_line(line: str) -> Iterator[str]:
    candidates = "".join(_CANDIDATE.findall(line))
    if not candidates:
        return
    for needed, pattern, term in _KINDS:
        if needed.search(candidates) is not None:
            # A skin tone alone is no pictograph.
            yield from filter(None, map(term, pattern.finditer(line)))
