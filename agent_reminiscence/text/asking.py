"""Tells the words with which a question asks from what it asks about.

"Remind me what we discussed about the boat" asks about the boat: no text has "remind", and few with "discussed" are
about it. Only whole phrases count, where a sentence asks with them: "my list of boats" keeps its list.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final, NamedTuple

from agent_reminiscence.text.asking_words import ASKING_PHRASES
from agent_reminiscence.text.folding import WORD
from agent_reminiscence.text.periods import is_question
from agent_reminiscence.text.sentences import split_sentences
from agent_reminiscence.text.small_talk import is_small_talk

SELF: Final = "user"
"""The person that a question is about if it is about the one who asks."""

# A longer sentence is no plain question.
_MAX_CHARACTERS: Final = 300
# A longer text states something, too.
_MAX_ASKING_SENTENCES: Final = 8
# Before what is to be told.
_ABOUT: Final = frozenset(
    word
    for words in (
        "about regarding concerning of über von vom zu zum zur wegen sur concernant de du des d sobre acerca",
        "respecto del di dello della dei degli delle su sul sulla over van",
    )
    for word in words.split()
)
_INTERROGATIVES: Final = frozenset(
    word
    for words in (
        "who whom whose what which when where why how wer wen wem wessen was welche welcher welches welchen wann wo",
        "woher wohin warum wieso weshalb wie womit qui quoi quel quelle quels quelles quand où pourquoi comment",
        "combien quién quiénes qué cuál cuáles cuándo dónde cómo cuánto cuántos quem qual quais quando onde como",
        "chi cosa quale quali dove come perché wie wat welke welk wanneer waar waarom hoe",
    )
    for word in words.split()
)
# Before a statement.
_THAT: Final = frozenset("that dass que qu che dat".split())  # noqa: SIM905 - one line of words
# "Can you remind me / what we discussed about / …" takes two.
_MAX_PHRASES: Final = 3
_SENTENCE_ENDS: Final = re.compile(r"(?<=[?!？！。؟\n])\s*|(?<=\w\w\w\.)\s+")  # noqa: RUF001
_SENTENCE_MARKS: Final = "?!.？！。؟"  # noqa: RUF001
_MARKS: Final = " \t\r\n?!.,;:¿¡？！。，、؟،…\"'“”„«»「」"  # noqa: RUF001
_TOPIC: Final = "{topic}"
_TOPIC_GROUP: Final = r"(?P<topic>\S.*?)"
_HAN: Final = "\u4e00-\u9fff"
_SCRIPTS: Final = {
    "ru": re.compile("[\u0400-\u04ff]"),
    "zh": re.compile(f"[{_HAN}]"),
    "ja": re.compile("[\u3041-\u30ff]"),
    "ar": re.compile("[\u0600-\u06ff]"),
}
# In scripts without capitals, a topic that is a name is no longer than this.
_MAX_NAME_CHARACTERS: Final = 12
_NAME: Final = re.compile(r"[^\W\d_][\w'’.-]*(?: [^\W\d_][\w'’.-]*){0,3}")
_POSSESSIVE: Final = re.compile(r"['’](?:s|S)?$")


class Asking(NamedTuple):
    """A question as it asks.

    Attributes:
        topic: What it asks about: the question without the phrases that only ask.
        of_speaker: The question without phrases such as "tell me", in which "me" says nothing about the topic.
        about: The person that it asks about and nothing else: a name as it is written, or `SELF`. None if it asks for
            something more. In scripts without capitals any short topic may be a name.
    """

    topic: str
    of_speaker: str
    about: str | None


class _Rules(NamedTuple):
    """The patterns of one language, compiled; each matches a whole sentence."""

    polite: re.Pattern[str]
    closer: re.Pattern[str]
    openers: tuple[re.Pattern[str], ...]
    talks: tuple[re.Pattern[str], ...]
    who: tuple[re.Pattern[str], ...]
    selves: re.Pattern[str]
    who_am_i: re.Pattern[str]


def read_asking(question: str) -> Asking:
    """Read how `question` asks, in whichever language it does."""
    sentences = [" ".join(part.split()) for part in _SENTENCE_ENDS.split(question) if part.strip()]
    if len(sentences) > _MAX_ASKING_SENTENCES:
        return Asking(question, question, None)
    read = [_read_sentence(sentence) for sentence in sentences]
    if len(read) == 1:
        return read[0]
    # "Who is Bruno? He called." asks for more than a person.
    return Asking(
        " ".join(map(_ended, [one.topic for one in read], sentences)), " ".join(one.of_speaker for one in read), None
    )


def only_asks(text: str, language: str) -> bool:
    """Whether `text` only asks, besides greetings and thanks: "Great, thanks! Where is the key?" states nothing.

    A request to be told something asks, too ("Remind me where the key is"), in the languages whose phrases are known.
    """
    asks = False
    for count, sentence in enumerate(split_sentences(text), start=1):
        if count > _MAX_ASKING_SENTENCES:
            return False
        request = _request(sentence, language)
        if request is not None and request.tells:
            return False
        if is_question(sentence) or (request is not None and request.asks):
            asks = True
        elif not is_small_talk(sentence):
            return False
    return asks


class _Request(NamedTuple):
    """A sentence that begins like a request to be told something.

    Attributes:
        asks: It goes on with what is to be told: "remind me where …", "tell me about …".
        tells: It goes on with a statement: "did you know that …".
    """

    asks: bool
    tells: bool


def _request(sentence: str, language: str) -> _Request | None:
    """A sentence as a request; None if it does not begin like one. "Remind me to call Bob" neither asks nor tells."""
    if language not in ASKING_PHRASES or len(sentence) > _MAX_CHARACTERS:
        return None
    rules = _rules(language)
    rest = _without_start(sentence, rules.polite)
    match = _first(rules.talks, rest) or _first(rules.openers, rest)
    if match is None:
        return None
    if language in _SCRIPTS:
        return _Request(asks=True, tells=False)
    before = WORD.findall(rest[: match.start("topic")].casefold())
    after = WORD.findall(match["topic"].casefold())
    beside = {*before[-1:], *after[:1]}
    asks = beside & _ABOUT or {*before, *after[:1]} & _INTERROGATIVES
    return _Request(asks=bool(asks), tells=bool(beside & _THAT))


def _ended(topic: str, sentence: str) -> str:
    """`topic` with the mark at the end of its sentence."""
    ending = sentence[-1:] if sentence[-1:] in _SENTENCE_MARKS else ""
    return topic if topic.endswith(ending) else topic + ending


def _read_sentence(sentence: str) -> Asking:
    unread = Asking(sentence, sentence, None)
    if len(sentence) > _MAX_CHARACTERS:
        return unread
    for language in _languages_of(sentence):
        read = _read_in(sentence, _rules(language))
        if read != unread:
            return read
    return unread


def _languages_of(sentence: str) -> list[str]:
    """Those whose script `sentence` is written in: the rules of a language take milliseconds to compile."""
    found = [language for language, script in _SCRIPTS.items() if script.search(sentence)]
    return found or [language for language in ASKING_PHRASES if language not in _SCRIPTS]


def _read_in(sentence: str, rules: _Rules) -> Asking:
    """A sentence as one language reads it; unchanged if it does not ask in that language."""
    rest, has_phrase = _without_start(sentence, rules.polite), False
    if match := rules.closer.search(rest):
        rest, has_phrase = rest[: match.start()], True
    of_speaker = ""
    for _ in range(_MAX_PHRASES):
        if match := _first(rules.talks, rest):
            # "what did I say about" is in the first person for a reason.
            of_speaker = of_speaker or rest
        elif not (match := _first(rules.openers, rest)):
            break
        rest, has_phrase = match["topic"], True
    about = _person(rest, rules, has_phrase=has_phrase, is_cased=sentence != sentence.lower())
    if not has_phrase:
        return Asking(sentence, sentence, about)
    return Asking(rest, of_speaker or rest, about)


def _without_start(sentence: str, polite: re.Pattern[str]) -> str:
    match = polite.match(sentence)
    return sentence[0 if match is None else match.end() :].strip(_MARKS)


def _first(patterns: tuple[re.Pattern[str], ...], text: str) -> re.Match[str] | None:
    return next((match for pattern in patterns if (match := pattern.fullmatch(text))), None)


def _person(rest: str, rules: _Rules, *, has_phrase: bool, is_cased: bool) -> str | None:
    """Who is asked about if `rest`, without the phrases before it, asks about a person and nothing else."""
    if rules.who_am_i.fullmatch(rest):
        return SELF
    if match := _first(rules.who, rest):
        rest = match["topic"]
    elif not has_phrase:
        return None
    if rules.selves.fullmatch(rest):
        return SELF
    if not _NAME.fullmatch(rest) or _POSSESSIVE.search(rest):
        return None
    words = rest.split()
    if not is_cased or rest.upper() == rest.lower():
        return rest if len(words) == 1 and len(rest) <= _MAX_NAME_CHARACTERS else None
    return rest if words[0][0].isupper() and words[-1][0].isupper() else None


@cache
def _rules(language: str) -> _Rules:
    phrases = ASKING_PHRASES[language]
    return _Rules(
        re.compile(
            rf"[\s¿¡]*(?:\b(?:{_written(phrases.polite)})(?:[,!，、！ ]+|(?<=[{_HAN}]))[\s¿¡]*)+",  # noqa: RUF001
            re.IGNORECASE,
        ),
        re.compile(rf"[,，、 ]+(?:{_written(phrases.closers)})$", re.IGNORECASE),  # noqa: RUF001
        tuple(map(_compiled, phrases.openers)),
        tuple(map(_compiled, phrases.talks)),
        tuple(map(_compiled, phrases.who)),
        _exact(phrases.selves),
        _exact(phrases.who_am_i),
    )


def _compiled(pattern: str) -> re.Pattern[str]:
    if _TOPIC not in pattern:
        pattern = f"(?:{pattern})(?:(?<=')|,? )" + _TOPIC
    return re.compile(_written(pattern.replace(_TOPIC, _TOPIC_GROUP)), re.IGNORECASE)


def _exact(pattern: str) -> re.Pattern[str]:
    return re.compile(_written(pattern), re.IGNORECASE)


def _written(pattern: str) -> str:
    """`pattern` with either apostrophe."""
    return pattern.replace("'", "['\u2019]")
