"""Has every text of a request redacted before it can become an event."""

from __future__ import annotations

import asyncio
import re
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, Final

from agent_reminiscence.domain.canonical import is_large
from agent_reminiscence.domain.event import DIVIDED_KEY, USER_REDACTIONS_KEY
from agent_reminiscence.domain.turn import Turn, turn_text
from agent_reminiscence.domain.wording import kind_of
from agent_reminiscence.exceptions import InvalidInputError, RedactionError
from agent_reminiscence.redaction.redactor import DefaultRedactor, Redaction, Redactor
from agent_reminiscence.services.ledger.requests import (
    AppendRequest,
    AppendTextRequest,
    ArchiveRequest,
    ConversationRequest,
    CreateRequest,
    DefineProfileRequest,
    RecordRecallRequest,
    RemoveProfileRequest,
    ReportOutcomeRequest,
    StateEntityRequest,
    StateRelationshipRequest,
    UpdateRequest,
    WriteRequest,
)
from agent_reminiscence.text.storable import UNSTORABLE_RULE, count_unstorable, storable_text

# Longer requests are scanned in a thread, so that other tasks can run.
_THREAD_FROM_CHARACTERS: Final = 20_000

# A redacted text may be at most this much longer than twice the original.
_MAX_GROWTH_CHARACTERS: Final = 10_000
_RULE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_NUMBER = re.compile(r"[\d\s.-]+")


class Scrubber:
    """Redacts everything a request carries, once, before it is hashed, chunked or written."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._name = type(redactor).__name__
        # Not for a user's subclass: that one decides for each text.
        self._joined = redactor if type(redactor) is DefaultRedactor else None

    async def scrub[R: WriteRequest](self, request: R) -> R:
        """Return `request` without secrets, with how often each rule matched; a scrubbed one is returned unchanged.

        Raises:
            InvalidInputError: An identifier looks like a secret, which cannot be replaced.
            RedactionError: The redactor failed.
        """
        if request.redactions is not None:
            return request
        return await self._called(request, self._scrubbed)

    async def scrub_texts(self, texts: Sequence[str]) -> list[str]:
        """Redact texts that are not stored but go to someone else: a model or its provider.

        Raises:
            RedactionError: The redactor failed.
        """

        def work() -> list[str]:
            redact = self._prepared(texts)
            return [redact(text).text for text in texts]

        is_long = is_large(list(texts), characters=_THREAD_FROM_CHARACTERS)
        return await asyncio.to_thread(work) if is_long else work()

    def quotable(self, text: str) -> str | None:
        """A text that is not stored, as a span may carry it; None if the redactor fails on it."""
        try:
            return self._redact(text).text
        except RedactionError:
            return None

    def quotable_identifier(self, identifier: str) -> str | None:
        """An identifier as a span may carry it; None if it is refused."""
        try:
            self.check_identifiers(identifier=identifier)
        except (InvalidInputError, RedactionError):
            return None
        return identifier

    def quotable_memories(self, external_ids: Sequence[str]) -> dict[str, str | tuple[str, ...] | None]:
        """The attributes by which a span names the memories of a call; those that are refused are left out."""
        if len(external_ids) == 1:
            return {"external_id": self.quotable_identifier(external_ids[0])}
        named = [one for one in external_ids if self.quotable_identifier(one) is not None]
        return {"external_ids": tuple(named)}

    def check_identifiers(self, **identifiers: str | None) -> None:
        """Refuse identifiers that must not be stored, even if their request is made later or never.

        Raises:
            InvalidInputError: One looks like a secret.
            RedactionError: The redactor failed.
        """
        self._check_identifiers(self._redact, identifiers)

    def _check_identifiers(self, redact: Callable[[str], Redaction], identifiers: Mapping[str, str | None]) -> None:
        # Identifiers are looked up verbatim, so a placeholder would merge several into one.
        for name, value in identifiers.items():
            # One in ten all-digit ids that look like a card number passes its checksum.
            if value is None or _NUMBER.fullmatch(value):
                continue
            redaction = redact(value)
            if redaction.text != value:
                raise InvalidInputError(
                    f"{name} looks like a secret ({', '.join(redaction.rules)}), and identifiers are stored as they"
                    " are; pass one that is not secret, such as a hash of it"
                )

    def _check_names(self, redact: Callable[[str], Redaction], names: Mapping[str, str]) -> None:
        """Refuse names that would be redacted, numbers included: a placeholder would make several entities one."""
        for name, value in names.items():
            redaction = redact(value)
            if redaction.text != value:
                raise InvalidInputError(
                    f"{name} looks like a secret ({', '.join(redaction.rules)}), and entities are found by their names"
                    " and types; pass another"
                )

    async def _called[R: WriteRequest](self, request: R, work: Callable[[R], R]) -> R:
        if is_large(_scanned(request), characters=_THREAD_FROM_CHARACTERS):
            return await asyncio.to_thread(work, request)
        return work(request)

    def _scrubbed[R: WriteRequest](self, request: R) -> R:
        names: dict[str, str] = {}
        identifiers = {
            "external_id": request.external_id,
            "actor": request.actor,
            "conversation_id": request.conversation_id,
            "idempotency_key": request.idempotency_key,
        }
        match request:
            case CreateRequest() | UpdateRequest() | ArchiveRequest():
                identifiers["key"] = request.key
            case StateEntityRequest() | StateRelationshipRequest():
                identifiers["key"] = request.key
                names = _graph_names(request)
            case AppendTextRequest():
                identifiers["key"] = request.key
                identifiers |= _turn_ids(request.turns)
            case ConversationRequest():
                identifiers |= _turn_ids(request.turns)
            case DefineProfileRequest() | RemoveProfileRequest():
                identifiers["name"] = request.name
            case RecordRecallRequest() | ReportOutcomeRequest():
                identifiers["run_id"] = request.run_id
            case AppendRequest():
                identifiers["kind"] = request.kind
        redact = self._prepared([*filter(None, identifiers.values()), *names.values(), *_strings(request)])
        self._check_identifiers(redact, identifiers)
        self._check_names(redact, names)
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
            case AppendTextRequest():
                changed = {
                    "text": None if request.text is None else texts.text(request.text),
                    "turns": texts.turns(request.turns),
                }
            case ConversationRequest():
                changed = {"title": texts.text(request.title), "turns": texts.turns(request.turns)}
            case DefineProfileRequest():
                changed = {"question": texts.text(request.question)}
            case StateEntityRequest() | StateRelationshipRequest():
                changed = {
                    "description": None if request.description is None else texts.text(request.description),
                    "metadata": texts.value(request.metadata),
                }
            case ReportOutcomeRequest():
                changed = {"note": None if request.note is None else texts.text(request.note)}
            case AppendRequest():
                if USER_REDACTIONS_KEY in request.payload:
                    raise InvalidInputError(
                        f"payload has the key {USER_REDACTIONS_KEY!r}, which the ledger reserves for counting"
                        " redactions; leave it out or rename it"
                    )
                if DIVIDED_KEY in request.payload:
                    raise InvalidInputError(
                        f"payload has the key {DIVIDED_KEY!r}, under which the ledger says where large values are;"
                        " rename it"
                    )
                payload = texts.value(request.payload)
                changed = {"payload": payload | ({USER_REDACTIONS_KEY: texts.counts} if texts.counts else {})}
        return replace(request, **changed, redactions=texts.counts)

    def _prepared(self, texts: Sequence[str]) -> Callable[[str], Redaction]:
        """Return a function that redacts each of `texts`: all at once if the redactor can, otherwise on demand."""
        if self._joined is None:
            return self._redact
        distinct = list(dict.fromkeys(map(storable_text, texts)))
        redactions = self._joined.redact_each(distinct)
        checked = {text: self._checked(text, one) for text, one in zip(distinct, redactions, strict=True)}
        return lambda text: checked[storable_text(text)]

    def _redact(self, text: str) -> Redaction:
        """The redactor's result for `text`, checked; no message quotes it."""
        try:
            redaction = self._redactor.redact(text)
        except Exception as error:  # noqa: BLE001 - a user's redactor may raise anything
            # From None: the messages of the error and its causes may quote the text.
            raise RedactionError(
                f"the redactor {self._name} failed with {type(error).__name__} at {_raised_at(error)}; nothing was"
                " written"
            ) from None
        return self._checked(text, redaction)

    def _checked(self, text: str, redaction: Redaction) -> Redaction:
        problem = _problem(text, redaction)
        if problem is not None:
            raise RedactionError(f"the redactor {self._name} {problem}; nothing was written")
        return redaction


def _raised_at(error: Exception) -> str:
    """Where an error was raised, without the text of the line."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{frame.filename.rpartition('/')[2]}:{frame.lineno}"


def _problem(text: str, redaction: object) -> str | None:
    """What is wrong with a redactor's result; None if nothing is."""
    if not isinstance(redaction, Redaction):
        return f"returned {kind_of(redaction)} instead of a Redaction"
    # A user's redactor may ignore the annotations.
    stored: object = redaction.text
    rules: object = redaction.rules
    if not isinstance(stored, str):
        return f"returned {kind_of(stored)} as text"
    if not isinstance(rules, Mapping) or not all(map(_is_count, rules.items())):
        return "returned rules that do not map short names (letters, digits, - _ .) to how often they matched"
    if stored == text:
        return None
    if not rules:
        return "changed a text without naming a rule"
    if text.strip() and not stored.strip():
        return "removed a whole text; it must leave a placeholder"
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
    """Makes the strings of one request storable, redacts them, and counts both."""

    def __init__(self, redact: Callable[[str], Redaction]) -> None:
        self._redact = redact
        self._counts: Counter[str] = Counter()

    @property
    def counts(self) -> dict[str, int]:
        """How often each rule has matched so far, by name, and how many characters could not be stored."""
        return dict(sorted(self._counts.items()))

    def text(self, text: str) -> str:
        """Redact one string, without the characters that cannot be stored."""
        if not text:
            return text
        storable = self._storable(text)
        redaction = self._redact(storable)
        if redaction.text == storable:
            return storable
        self._counts.update(redaction.rules)
        return redaction.text

    def _storable(self, text: str) -> str:
        if replaced := count_unstorable(text):
            self._counts[UNSTORABLE_RULE] += replaced
        return storable_text(text)

    def value(self, value: Any) -> Any:
        """Redact a JSON value: its strings and keys, at any depth. Two keys that become equal stay two keys."""
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

    def turns(self, turns: Sequence[Turn]) -> tuple[Turn, ...]:
        """Redact the texts, speakers and metadata of turns."""
        return tuple(self._turn(turn) for turn in turns)

    def _turn(self, said: Turn) -> Turn:
        # First, so that the characters of the speaker and of the line that it stands in are counted once.
        given = None if said.speaker is None else self._storable(said.speaker)
        turn = said.model_copy(update={"text": self._storable(said.text), "speaker": given})
        speaker = None if turn.speaker is None else self.text(turn.speaker)
        label = "" if speaker is None else f"{speaker}: "
        # As it will stand in the memory: who is said to speak may make a secret of it, as in "password: …".
        line = self.text(turn_text(turn))
        text = line.removeprefix(label) if line.startswith(label) else self.text(turn.text)
        return turn.model_copy(update={"text": text, "speaker": speaker, "metadata": self.value(turn.metadata)})

    def memory(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Redact the given title, content, description and metadata; positions in the content are adjusted."""
        redacted = {name: self.value(value) for name, value in fields.items() if name != "content"}
        if "content" not in fields:
            return redacted
        texts = [self.text(piece) for piece in _content_pieces(fields)]
        offset = len(texts[0])
        for turn, text in zip((redacted.get("metadata") or {}).get("turns") or [], texts[1:], strict=True):
            turn["start"] = offset
            offset += len(text)
        return {name: "".join(texts) if name == "content" else redacted[name] for name in fields}


def _content_pieces(fields: Mapping[str, Any]) -> list[str]:
    """Split the content by turn, so that every turn keeps its start, whatever the redactor inserts."""
    content = fields["content"]
    starts = [turn["start"] for turn in (fields.get("metadata") or {}).get("turns") or []]
    return [content[start:end] for start, end in pairwise([0, *starts, len(content)])]


def _strings(request: WriteRequest) -> Iterator[str]:
    """Every non-empty string of the request that is redacted, without identifiers."""
    match request:
        case CreateRequest():
            yield from _content_pieces({"content": request.content, "metadata": request.metadata})
            yield from _strings_of([request.title, request.description, request.metadata])
        case UpdateRequest():
            if "content" in request.changes:
                yield from _content_pieces(request.changes)
            yield from _strings_of({name: value for name, value in request.changes.items() if name != "content"})
        case AppendTextRequest():
            yield from _strings_of([request.text, *_said(request.turns)])
        case ConversationRequest():
            yield from _strings_of([request.title, *_said(request.turns)])
        case DefineProfileRequest():
            yield request.question
        case StateEntityRequest() | StateRelationshipRequest():
            yield from _strings_of([request.description, request.metadata])
        case ReportOutcomeRequest():
            yield from _strings_of([request.note])
        case AppendRequest():
            yield from _strings_of(request.payload)


def _graph_names(request: StateEntityRequest | StateRelationshipRequest) -> dict[str, str]:
    """The names and types that a statement may store, by the argument that has each."""
    match request:
        case StateEntityRequest():
            return {"name": request.name, "entity_type": request.entity_type}
        case StateRelationshipRequest():
            ends = {"from_entity": request.from_entity, "to_entity": request.to_entity}
            types = {
                "relationship_type": request.relationship_type,
                "from_type": request.from_type,
                "to_type": request.to_type,
            }
            return {name: end for name, end in ends.items() if isinstance(end, str)} | types


def _said(turns: Sequence[Turn]) -> list[Any]:
    """What of some turns is redacted: everything but their times and ids."""
    return [[turn_text(turn), turn.text, turn.speaker, turn.metadata] for turn in turns]


def _turn_ids(turns: Sequence[Turn]) -> dict[str, str | None]:
    """The ids of turns as identifiers, by the name that an error gives them."""
    return {f"turns[{index}].id": turn.id for index, turn in enumerate(turns)}


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
    """Numbers redacted keys that would collide with another key of their object."""

    def __init__(self, taken: Iterable[str]) -> None:
        self._taken = set(taken)
        self._numbers: Counter[str] = Counter()

    def free(self, key: str) -> str:
        """Return `key`, with a number appended if it is taken, and mark it as taken."""
        name = key
        # Numbers are not reused: a thousand keys that become equal are not counted from the start each time.
        while name in self._taken:
            self._numbers[key] += 1
            name = f"{key} ({self._numbers[key] + 1})"
        self._taken.add(name)
        return name


def _scanned(request: WriteRequest) -> object:
    """The parts of the request that may be long."""
    match request:
        case CreateRequest():
            return [request.content, request.metadata]
        case UpdateRequest():
            return request.changes
        case AppendTextRequest():
            return [request.text, *_said(request.turns)]
        case ConversationRequest():
            return _said(request.turns)
        case StateEntityRequest() | StateRelationshipRequest():
            return [request.description, request.metadata]
        case AppendRequest():
            return request.payload
    return None
