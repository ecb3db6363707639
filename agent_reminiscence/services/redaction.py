"""Secrets are taken out of what is written before anything keeps it: the ledger, the tiers, hashes, logs and spans.

`Scrubber` does it for every request to write. A request that it has not seen becomes no event: `WriteRequest.event`
refuses it. What the ledger holds was therefore looked at once, by the redactor of its day, and a replay calls none.
"""

from __future__ import annotations

import asyncio
import re
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Final, Protocol, runtime_checkable

from agent_reminiscence.domain.canonical import is_large
from agent_reminiscence.domain.event import USER_REDACTIONS_KEY
from agent_reminiscence.exceptions import InvalidInputError, RedactionError
from agent_reminiscence.services.redaction_rules import placeholder
from agent_reminiscence.services.redaction_search import Finding, find_in_each, find_secrets
from agent_reminiscence.services.requests import AppendRequest, CreateRequest, UpdateRequest, WriteRequest

# Requests with more text are looked through in a thread, so that other tasks go on meanwhile.
_THREAD_FROM_CHARACTERS: Final = 20_000
# What takes the place of one secret may let another one be seen. Each pass takes time in proportion to the text.
_MAX_PASSES: Final = 8
# A redactor's text may be this much longer than twice the given one.
_MAX_GROWTH_CHARACTERS: Final = 10_000
_RULE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_NUMBER = re.compile(r"[\d\s.-]+")


@dataclass(frozen=True, slots=True)
class Redaction:
    """What a redactor made of a text. It never holds what was taken out.

    Attributes:
        text: The text to store.
        rules: How often each rule has matched; a text that differs from the given one names one at least.
    """

    text: str
    rules: Mapping[str, int] = field(default_factory=dict)


@runtime_checkable
class Redactor(Protocol):
    """Takes out of texts what must not be stored.

    It is called for each string of a write, long ones in a thread, so that several calls may run at a time. It has to
    give the same for the same text, or an idempotency key will not know its request again, and to leave its own
    placeholders as they are.
    """

    def redact(self, text: str) -> Redaction:
        """What is to be stored instead of `text`."""
        ...


class DefaultRedactor:
    """Replaces keys, tokens, private keys, passwords in addresses, card and account numbers by `[redacted:rule]`.

    It goes by prefixes, checksums and telling names, never by how random a text looks; the guide lists all rules.
    Invisible characters inside a secret, full-width letters and digits of other scripts do not hide it.

    >>> DefaultRedactor().redact("The account is DE89 3704 0044 0532 0130 00.")
    Redaction(text='The account is [redacted:iban].', rules={'iban': 1})
    """

    def redact(self, text: str) -> Redaction:
        """`text` with a placeholder in place of each secret; of matches that overlap one for all."""
        return _replaced(text, find_secrets(text))

    def redact_each(self, texts: Sequence[str]) -> list[Redaction]:
        """What `redact` gives for each of `texts`, in much less time where they are short."""
        return [_replaced(text, found) for text, found in zip(texts, find_in_each(texts), strict=True)]


def _replaced(text: str, found: list[Finding]) -> Redaction:
    """`text` with a placeholder in place of each of `found`, and of what is seen only then."""
    if not found:
        return Redaction(text)
    rules: Counter[str] = Counter()
    for number in range(1, _MAX_PASSES + 1):
        if not found:
            break
        pieces, end = [], 0
        for finding in found:
            pieces += [text[end : finding.start], placeholder(finding.rule)]
            end = finding.end
            rules[finding.rule] += 1
        text = "".join([*pieces, text[end:]])
        found = find_secrets(text) if number < _MAX_PASSES else []
    return Redaction(text, dict(sorted(rules.items())))


class NoRedactor:
    """Leaves every text as it is: `redaction=False`."""

    def redact(self, text: str) -> Redaction:
        """`text` itself."""
        return Redaction(text)


class Scrubber:
    """Applies a redactor to all that a request carries: once, before it is hashed, cut into chunks or written."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._name = type(redactor).__name__
        # Not of a user's own that is built on it: that one decides what becomes of each text.
        self._joined = redactor if type(redactor) is DefaultRedactor else None

    async def scrub[R: WriteRequest](self, request: R) -> R:
        """`request` without secrets, with how often each rule has matched; one that was scrubbed, as it is.

        Raises:
            InvalidInputError: An identifier looks like a secret: it cannot be replaced.
            RedactionError: The redactor has failed.
        """
        if request.redactions is not None:
            return request
        return await self._called(request, self._scrubbed)

    async def scrub_texts(self, texts: Sequence[str]) -> list[str]:
        """Texts that are not written, as somebody else may read them: a model, or the provider of one.

        Raises:
            RedactionError: The redactor has failed.
        """

        def work() -> list[str]:
            redact = self._prepared(texts)
            return [redact(text).text for text in texts]

        is_long = is_large(list(texts), characters=_THREAD_FROM_CHARACTERS)
        return await asyncio.to_thread(work) if is_long else work()

    def quotable(self, text: str) -> str | None:
        """A text that is not written, as a span may carry it; None where the redactor fails on it."""
        try:
            return self._redact(text).text
        except RedactionError:
            return None

    def quotable_identifier(self, identifier: str) -> str | None:
        """An identifier as a span may carry it; None where it is refused."""
        try:
            self.check_identifiers(identifier=identifier)
        except (InvalidInputError, RedactionError):
            return None
        return identifier

    def check_identifiers(self, **identifiers: str | None) -> None:
        """Refuse identifiers that would be stored; also of a write whose request is made later, or never.

        Raises:
            InvalidInputError: One looks like a secret.
            RedactionError: The redactor has failed.
        """
        self._check_identifiers(self._redact, identifiers)

    def _check_identifiers(self, redact: Callable[[str], Redaction], identifiers: Mapping[str, str | None]) -> None:
        # An identifier is looked up as it is, so a placeholder in its place would make one of many.
        for name, value in identifiers.items():
            # Of the ids of digits alone that look like a card's number every tenth has its checksum.
            if value is None or _NUMBER.fullmatch(value):
                continue
            redaction = redact(value)
            if redaction.text != value:
                raise InvalidInputError(
                    f"{name} looks like a secret ({', '.join(redaction.rules)}), and identifiers are stored as they"
                    " are; pass a name that may be known, such as a hash of it"
                )

    async def _called[R: WriteRequest](self, request: R, work: Callable[[R], R]) -> R:
        if is_large(_scanned(request), characters=_THREAD_FROM_CHARACTERS):
            return await asyncio.to_thread(work, request)
        return work(request)

    def _scrubbed[R: WriteRequest](self, request: R) -> R:
        identifiers = {
            "external_id": request.external_id,
            "actor": request.actor,
            "conversation_id": request.conversation_id,
            "idempotency_key": request.idempotency_key,
        }
        if isinstance(request, AppendRequest):
            identifiers["kind"] = request.kind
        redact = self._prepared([*filter(None, identifiers.values()), *_strings(request)])
        self._check_identifiers(redact, identifiers)
        texts = _Texts(redact)
        changed: dict[str, Any] = {}
        match request:
            case CreateRequest():
                changed = texts.memory(
                    {
                        "title": request.title,
                        "content": request.content,
                        "description": request.description,
                        "metadata": request.metadata,
                    }
                )
            case UpdateRequest():
                changed = {"changes": texts.memory(request.changes)}
            case AppendRequest():
                if USER_REDACTIONS_KEY in request.payload:
                    raise InvalidInputError(
                        f"payload has the key {USER_REDACTIONS_KEY!r}, under which the ledger says what was redacted;"
                        " leave it out, or rename it"
                    )
                payload = texts.value(request.payload)
                changed = {"payload": payload | ({USER_REDACTIONS_KEY: texts.counts} if texts.counts else {})}
        return replace(request, **changed, redactions=texts.counts)

    def _prepared(self, texts: Sequence[str]) -> Callable[[str], Redaction]:
        """What gives the redaction of each of `texts`: all made at once where the redactor can, or one when asked."""
        if self._joined is None:
            return self._redact
        distinct = list(dict.fromkeys(texts))
        redactions = self._joined.redact_each(distinct)
        return {text: self._checked(text, one) for text, one in zip(distinct, redactions, strict=True)}.__getitem__

    def _redact(self, text: str) -> Redaction:
        """What the redactor makes of `text`, checked; no message quotes it."""
        try:
            redaction = self._redactor.redact(text)
        except Exception as error:  # noqa: BLE001 - whatever a user's own may raise
            # From None: the error's own message, and those of its causes, may quote the text.
            raise RedactionError(
                f"the redactor {self._name} failed with {type(error).__name__} at {_place(error)}; nothing was written"
            ) from None
        return self._checked(text, redaction)

    def _checked(self, text: str, redaction: Redaction) -> Redaction:
        problem = _problem(text, redaction)
        if problem is not None:
            raise RedactionError(f"the redactor {self._name} {problem}; nothing was written")
        return redaction


def _place(error: Exception) -> str:
    """Where an error was raised, without the text of the line."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{frame.filename.rpartition('/')[2]}:{frame.lineno}"


def _problem(text: str, redaction: object) -> str | None:
    """What is wrong with a redactor's answer; None where nothing is."""
    if not isinstance(redaction, Redaction):
        return f"returned a {type(redaction).__name__} instead of a Redaction"
    # Whatever the annotations say, it is somebody else's.
    stored: object = redaction.text
    rules: object = redaction.rules
    if not isinstance(stored, str):
        return f"returned a {type(stored).__name__} as text"
    if not isinstance(rules, Mapping) or not all(map(_is_count, rules.items())):
        return "returned rules that are no mapping of short names (letters, digits, - _ .) to how often they matched"
    if stored == text:
        return None
    if not rules:
        return "changed a text and named no rule"
    if text.strip() and not stored.strip():
        return "left nothing of a text; let it put a placeholder"
    if len(stored) > 2 * len(text) + _MAX_GROWTH_CHARACTERS:
        return "made a text more than twice as long"
    if "\0" in stored:
        return "put a NUL character into a text, which PostgreSQL cannot store"
    try:
        stored.encode()
    except UnicodeEncodeError:
        return "put a lone surrogate into a text, which is not Unicode"
    return None


def _is_count(item: tuple[object, object]) -> bool:
    name, count = item
    return (
        isinstance(name, str)
        and _RULE_NAME.fullmatch(name) is not None
        and isinstance(count, int)
        and not isinstance(count, bool)
        and count > 0
    )


class _Texts:
    """Redacts the strings of one request and counts."""

    def __init__(self, redact: Callable[[str], Redaction]) -> None:
        self._redact = redact
        self._counts: Counter[str] = Counter()

    @property
    def counts(self) -> dict[str, int]:
        """How often each rule has matched so far, by name."""
        return dict(sorted(self._counts.items()))

    def text(self, text: str) -> str:
        """One string."""
        if not text:
            return text
        redaction = self._redact(text)
        if redaction.text == text:
            return text
        self._counts.update(redaction.rules)
        return redaction.text

    def value(self, value: Any) -> Any:
        """A JSON value: its strings and its keys, at any depth. Two keys that become one stay two."""
        match value:
            case str():
                return self.text(value)
            case list():
                return [self.value(item) for item in value]
            case dict():
                names = _Names(value)
                return {
                    key if (text := self.text(key)) == key else names.free(text): self.value(item)
                    for key, item in value.items()
                }
        return value

    def memory(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Those of title, content, description and metadata that are given; positions in the content move along."""
        redacted = {name: self.value(value) for name, value in fields.items() if name != "content"}
        if "content" not in fields:
            return redacted
        texts = [self.text(piece) for piece in _content_pieces(fields)]
        place = len(texts[0])
        for turn, text in zip((redacted.get("metadata") or {}).get("turns") or [], texts[1:], strict=True):
            turn["start"] = place
            place += len(text)
        return {name: "".join(texts) if name == "content" else redacted[name] for name in fields}


def _content_pieces(fields: Mapping[str, Any]) -> list[str]:
    """The content turn by turn, so that each begins where its text does, whatever the redactor puts into it."""
    content = fields["content"]
    starts = [turn["start"] for turn in (fields.get("metadata") or {}).get("turns") or []]
    return [content[start:end] for start, end in pairwise([0, *starts, len(content)])]


def _strings(request: WriteRequest) -> Iterator[str]:
    """Every string of the request that is looked through, identifiers left out; empty ones are none."""
    match request:
        case CreateRequest():
            yield from _content_pieces({"content": request.content, "metadata": request.metadata})
            yield from _strings_of([request.title, request.description, request.metadata])
        case UpdateRequest():
            if "content" in request.changes:
                yield from _content_pieces(request.changes)
            yield from _strings_of({name: value for name, value in request.changes.items() if name != "content"})
        case AppendRequest():
            yield from _strings_of(request.payload)


def _strings_of(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case list():
            for item in value:
                yield from _strings_of(item)
        case dict():
            for key, item in value.items():
                yield key
                yield from _strings_of(item)


class _Names:
    """Gives keys that were redacted a number where another key of their object is the same."""

    def __init__(self, taken: Iterable[str]) -> None:
        self._taken = set(taken)
        self._numbers: Counter[str] = Counter()

    def free(self, key: str) -> str:
        """`key`, or with a number behind it where it is taken; it is from now on."""
        name = key
        # Numbers that were taken once stay so: a thousand keys that become one are not counted from the first again.
        while name in self._taken:
            self._numbers[key] += 1
            name = f"{key} ({self._numbers[key] + 1})"
        self._taken.add(name)
        return name


def _scanned(request: WriteRequest) -> object:
    """What of the request may be long."""
    match request:
        case CreateRequest():
            return [request.content, request.metadata]
        case UpdateRequest():
            return request.changes
        case AppendRequest():
            return request.payload
    return None
