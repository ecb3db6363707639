"""Takes off what only introduces or repeats a statement: "Remember: …", "as I said", "… please"."""

from __future__ import annotations

import re
from typing import Final

# Before a statement; a mark or "that" follows.
_BEFORE: Final = "|".join(
    (
        r"(?:please )?remember|remind(?:er)?|(?:please )?note|fyi|don't forget|do not forget|keep in mind|bear in mind",
        r"(?:as|like) (?:i|we)(?:'ve)? (?:already )?(?:said|mentioned|told you|wrote)|(?:as )?(?:already )?mentioned",
        r"(?:just )?(?:to|let me) repeat(?: it| that| myself)?|once (?:more|again)|again|one (?:more|last) time",
        r"to be clear|just (?:so you know|a reminder)|i repeat|by the way|btw|for the record",
        r"also|oh|well|so|ok|okay|hi|hello|hey|yes",
        r"denk daran|merk dir|wie gesagt|noch (?:ein)?mal|zur erinnerung|nicht vergessen|übrigens",
        r"rappelle-toi|comme (?:je l'ai )?dit|encore une fois|n'oublie pas|au fait|pour rappel",
        r"recuerda|como (?:ya )?(?:te )?dije|otra vez|no olvides|por cierto",
        r"ricorda|come (?:ho )?detto|di nuovo|lembra(?:-te)?|como (?:eu )?disse",
    )
)
# After it, behind a comma or a dash.
_AFTER: Final = "|".join(
    (
        r"please|thanks|thank you|as (?:always|usual|ever|mentioned)|as (?:i|we)(?:'ve)? (?:said|mentioned)|you know",
        r"again|by the way|btw|okay|ok|right|remember|once (?:more|again)|bitte|danke|wie (?:immer|gesagt)|übrigens",
        r"s'il (?:te|vous) plaît|merci|comme toujours|por favor|gracias|como siempre|per favore|grazie|obrigad[oa]",
    )
)


def _either_apostrophe(pattern: str) -> str:
    return pattern.replace("'", "['\u2019]")


_OPENING: Final = re.compile(
    rf"(?:{_either_apostrophe(_BEFORE)})\s*(?:[:,;.!\u2013\u2014-]+|(?<=\w)\s+(?:that|dass|que|che)\b)\s*"
)
_CLOSING: Final = re.compile(rf"\s*[,;\u2013\u2014-]\s*(?:{_either_apostrophe(_AFTER)})[\s.!]*$")


def unframed(text: str) -> str:
    """A folded text without such words at its ends; the text itself if nothing else is left.

    Args:
        text: Folded by `fold_text`.
    """
    left = text
    while match := _OPENING.match(left):
        left = left[match.end() :]
    left = _CLOSING.sub("", left).rstrip(" .!")
    return left or text
