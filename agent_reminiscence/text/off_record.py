"""Hears when a speaker says that what follows, or what was said, is not to be kept; in English and German.

Only plain words count. Where a phrase may be about somebody else's words ("he told me off the record"), nothing is off
the record; where it is not clear how much is meant, more is.
"""

from __future__ import annotations

import re
from typing import Final, Literal, NamedTuple

type Mark = Literal["off", "on", "this"]

# Somebody's report of what was off the record, a denial, or talk about the phrase.
_NOT_MEANT: Final = r"(?<!not )(?<!n't )(?<!n’t )(?<![\"“'‘„»])"  # noqa: RUF001 - quotation marks are what it looks for
_REPORT: Final = re.compile(
    r"\b(?:told|said|says|spoke|talked|mentioned|confirmed|admitted|heard|asked|went|was|were|erzählte|sagte|meinte)\b"
    r"[^.!?;:\n]*\Z",
    re.IGNORECASE,
)
_OFF_RECORD: Final = r"off[\s-]{1,9}the[\s-]{1,9}record"
_OFF: Final = re.compile(
    rf"{_NOT_MEANT}\b(?:{_OFF_RECORD}|nicht (?:fürs|für das) protokoll|"
    r"(?:ab|von) (?:jetzt|hier)(?: an)? (?:bitte )?(?:nichts? mehr|nicht|nichts) "
    r"(?:mitschreiben|merken|speichern|notieren|aufschreiben))\b",
    re.IGNORECASE,
)
_ON: Final = re.compile(
    r"\b(?:back on (?:the )?record|on the record (?:again|now)|"
    r"(?:you (?:can|may)|please) (?:remember|record|store|note|save) (?:things |this |it )?again|"
    r"wieder (?:fürs|für das) protokoll|"
    r"(?:ab jetzt|jetzt) (?:bitte )?wieder (?:mitschreiben|merken|speichern|notieren))\b",
    re.IGNORECASE,
)
# Requests begin a sentence or follow "please": "I don't remember that" is none.
_BEGIN: Final = r"(?:\A|(?<=[.!?;:(\n–—])|(?<=\bplease)|(?<=\bbitte)|(?<=\bok)|(?<=\bokay)|(?<=,))\s{0,9}"
_END: Final = r"(?=\s{0,9}(?:please|bitte)?\s{0,9}(?:[.!?,;:)\n–—]|\Z))"
_MESSAGE: Final = r"(?:this|that|my)(?: last| previous)? (?:message|text|sentence|part)"
_WORDS: Final = (
    r"(?:what|everything|all) (?:that )?i(?:'ve|’ve| have)? (?:just )?(?:said|say|told you|tell you|wrote|mentioned)"
    r"(?: (?:about|of|before|earlier)\b[^.!?;:\n]{0,60}?)?"
)
_THIS: Final = re.compile(
    rf"{_BEGIN}(?:please |bitte )?(?:"
    r"(?:do not|don't|don’t|never) (?:remember|record|store|save|memori[sz]e|keep|write down|note(?: down)?)"
    rf" (?:this|that|it|{_MESSAGE}|{_WORDS}|any of (?:this|that))|"
    r"(?:this|that) (?:is|must|should)(?: not|n't|n’t) (?:to )?(?:be )?(?:remembered|stored|recorded|saved|kept)|"
    r"(?:merk|merke|speicher|speichere|notier|notiere|behalt|behalte) (?:dir )?(?:das|dies|es) (?:bitte )?nicht|"
    r"(?:das|dies) (?:bitte )?nicht (?:merken|speichern|notieren|aufschreiben|mitschreiben)"
    rf"){_END}",
    re.IGNORECASE,
)
# The same in these words, of what was said before; what follows may be meant as well.
_THAT_WAS: Final = re.compile(
    rf"{_BEGIN}(?:(?:oh|and|but|also) )?(?:"
    rf"(?:that|it|{_MESSAGE}) was(?: \w+ly| all| meant(?: to be)?)? {_OFF_RECORD}|"
    rf"{_WORDS} (?:is|was|stays|remains|(?:has to|must|should) (?:be|stay|remain))(?: \w+ly| all)? {_OFF_RECORD}|"
    r"(?:please |let's |let’s |(?:can|could) (?:we|you) (?:please )?)?"
    rf"(?:keep|leave) (?:this|that|it|all of (?:this|that)|"
    rf"{_MESSAGE}|{_WORDS}) {_OFF_RECORD}|"
    r"(?:das|es) (?:war|bleibt|soll(?:te)?)(?: \w+)? nicht (?:fürs|für das) protokoll"
    r")\b",
    re.IGNORECASE,
)


class RecordMark(NamedTuple):
    """What a text says of the record.

    Attributes:
        kind: `off`: nothing from here on is to be kept; `on`: it may be again; `this`: what the text itself says, or
            if that is little, what came before it.
        start: Its first character.
        end: Where it ends.
    """

    kind: Mark
    start: int
    end: int


def record_marks(text: str) -> list[RecordMark]:
    """What a text says of the record, in order."""
    found = [RecordMark("on", *match.span()) for match in _ON.finditer(text)]
    found += [RecordMark("this", *match.span()) for one in (_THIS, _THAT_WAS) for match in one.finditer(text)]
    found += [
        RecordMark("off", *match.span()) for match in _OFF.finditer(text) if not _REPORT.search(text[: match.start()])
    ]
    return sorted(found, key=lambda mark: mark.start)
