"""Tells greetings, thanks and exclamations from texts that say something."""

from __future__ import annotations

from typing import Final

from agent_reminiscence.text.folding import WORD

# A text of only these words says nothing. A short text may say something: "I'm vegan."
_WORDS: Final = frozenset(
    word
    for words in (
        "ok okay k yes yeah yep yup no nope sure fine good great nice cool perfect awesome amazing wonderful alright",
        "right exactly absolutely definitely indeed got it so too very really much a lot all the best well done",
        "thanks thank thx ty you ya please welcome hi hello hey bye goodbye see later soon take care cheers morning",
        "hm hmm ah oh wow yay aww aha haha lol omg congrats congratulations same here you're",
        "ja nein danke bitte hallo tschüss super toll oui non merci bonjour gracias hola vale grazie ciao obrigado",
        "obrigada 谢谢 好 好的 嗯 はい ありがとう",
    )
    for word in words.split()
)


def is_small_talk(text: str) -> bool:
    """Whether a text is only "ok, thanks!" and the like, or has no words at all."""
    return all(word in _WORDS for word in WORD.findall(text.casefold()))
