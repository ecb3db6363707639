"""Says in words what an event changed, what a search left out, and why passages ended."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from agent_reminiscence.domain.event import Event, EventKind, is_user_kind
from agent_reminiscence.domain.event_text import event_text

_LONGEST: Final = 160

EVENT_WORDS: Final[Mapping[str, str]] = {
    EventKind.CREATED: "created",
    EventKind.UPDATED: "updated",
    EventKind.APPENDED: "appended",
    EventKind.ARCHIVED: "archived",
    EventKind.UNARCHIVED: "unarchived",
    EventKind.CONSOLIDATED: "consolidated",
    EventKind.PROMOTED: "promoted",
    EventKind.CUT: "cut",
    EventKind.ENDED: "ended",
    EventKind.OUTDATED: "outdated",
    EventKind.ENTITIES_MERGED: "merged",
    EventKind.ENTITIES_UNMERGED: "unmerged",
    EventKind.RELATIONSHIP_ENDED: "relationship ended",
    EventKind.ENTITY_STATED: "entity stated",
    EventKind.RELATIONSHIP_STATED: "relationship stated",
    EventKind.PROFILE_DEFINED: "profile defined",
    EventKind.PROFILE_WRITTEN: "profile written",
    EventKind.PROFILE_REMOVED: "profile removed",
    EventKind.RECALLED: "recalled",
    EventKind.OUTCOME: "outcome",
    EventKind.GRAPH_ERASED: "graph erased",
    EventKind.MODEL_ASKED: "model asked",
    EventKind.REMEMBER_ASKED: "to be remembered",
    EventKind.REMEMBERED: "remembered",
    EventKind.VALUE_PART: "value part",
    EventKind.ERASED: "erased",
}
"""The package's own kinds, as they are shown; others are shown as they are."""

OMISSIONS: Final[Mapping[str, str]] = {
    "token_budget": "did not fit into the token budget",
    "min_match": "matched less than min_match",
    "same_text": "repeated the words of a better one",
    "no_query_vector": "The question has no vector, so the search went by words only.",
    "run_not_recorded": "could not be recorded for the run; they are returned all the same",
    "graph_deadline": "The graph took longer than graph_deadline_seconds; scores lack its part.",
}
"""Why a result lacks something. Those that count hits continue a sentence."""

END_REASONS: Final[Mapping[str, str]] = {
    "expired": "reached the end of its tier's time to live",
    "pruned": "was one too many",
    "contradicted": "was contradicted",
    "replaced": "was replaced",
}

_TURNING: Final = dict.fromkeys([*range(0x202A, 0x202F), *range(0x2066, 0x206A)])

_Payload = Mapping[str, Any]


def describe(event: Event) -> str:
    """What an event changed, in one sentence."""
    if event.is_erased:
        return "Erased: only its place, its times and its digest are left."
    if is_user_kind(event.kind):
        return _of_an_agent(event) or shortened(event_text(event)) or "Says nothing."
    said = _SENTENCES.get(event.kind)
    return "" if said is None else said(event.payload)


def _of_an_agent(event: Event) -> str | None:
    """What a ReAct agent notes of an invocation; None for any other event, and for one that only looks like it."""
    payload = event.payload
    match event.kind:
        case "react.invocation.finished" if isinstance(payload.get("question"), str):
            steps = payload.get("steps")
            taken = counted(len(steps), "step") if isinstance(steps, list) else "no steps"
            return f"Was asked “{shortened(payload['question'])}”: {taken}."
        case "react.invocation.learned" if isinstance(payload.get("facts"), list):
            return f"Learned {counted(len(payload['facts']), 'fact')} from an invocation."
        case "react.invocation.recorded":
            return "All that follows from an invocation is recorded."
    return None


def shortened(text: str, longest: int = _LONGEST) -> str:
    """The beginning of a text, on one line, without marks that would turn the direction of what follows it."""
    line = " ".join(text[: longest * 4].translate(_TURNING).split())
    return line if len(line) <= longest else f"{line[:longest]}…"


def counted(count: int, one: str, many: str | None = None) -> str:
    """A number of things."""
    return f"{count:,} {one if count == 1 else many or f'{one}s'}"


def _new(payload: _Payload) -> int:
    return sum(bool(chunk.get("new")) for chunk in payload.get("chunks", ()))


def _created(payload: _Payload) -> str:
    named = f" under the key {payload['key']!r}" if payload.get("key") else ""
    return f"Created “{shortened(payload['title'], 80)}”{named}, in {counted(_new(payload), 'passage')}."


def _updated(payload: _Payload) -> str:
    changed = ", ".join(payload.get("changes", ())) or "language"
    kept = len(payload.get("chunks", ())) - _new(payload)
    return f"Version {payload['version']}: changed {changed}; {counted(_new(payload), 'new passage')}, {kept:,} kept."


def _appended(payload: _Payload) -> str:
    turns = len(payload.get("turns", ()))
    what = counted(turns, "turn") if turns else f"{len(payload['content']):,} characters"
    return f"Version {payload['version']}: added {what} at the end, {counted(_new(payload), 'new passage')}."


def _archived(payload: _Payload) -> str:
    if payload.get("expired"):
        return f"Expired at version {payload['version']}. Its passages ended with it."
    ended = " Its passages ended with it." if payload.get("end_chunks") else " Its passages stay searchable."
    return f"Archived at version {payload['version']}.{ended}"


def _consolidated(payload: _Payload) -> str:
    graph = payload.get("graph") or {}
    parts = [
        counted(len(payload.get("chunks", ())), "passage") + " rated",
        *(counted(len(payload["duplicates"]), "duplicate") for _ in [0] if payload.get("duplicates")),
        *(counted(len(graph["entities"]), "entity", "entities") for _ in [0] if graph.get("entities")),
        *(counted(len(graph["relationships"]), "relationship") for _ in [0] if graph.get("relationships")),
        *(counted(len(payload["facts"]), "fact") for _ in [0] if payload.get("facts")),
    ]
    rules = f" Rules decided: the model was {payload['fallback']}." if payload.get("fallback") else ""
    return f"Consolidated version {payload['version']}: {', '.join(parts)}.{rules}"


def _promoted(payload: _Payload) -> str:
    return f"Moved {counted(len(payload.get('chunks', ())), 'passage')} to longterm memory."


def _ended(payload: _Payload) -> str:
    reason = {
        "expired": "they reached the end of their time to live",
        "pruned": "there were too many",
        "contradicted": "something newer contradicts them",
        "replaced": "something newer replaces them",
    }.get(payload["reason"], payload["reason"])
    why = f" “{shortened(payload['why'])}”" if payload.get("why") else ""
    return f"Ended {counted(len(payload.get('chunks', ())), 'passage')}: {reason}.{why}"


def _cut(payload: _Payload) -> str:
    pieces = sum(len(cut["pieces"]) for cut in payload["cuts"])
    return f"Cut {counted(len(payload['cuts']), 'passage')} into {pieces:,}, because a part is over."


def _outdated(payload: _Payload) -> str:
    chunks = {part["chunk"] for part in payload["parts"]}
    why = f" “{shortened(payload['why'])}”" if payload.get("why") else ""
    return f"Marked {counted(len(chunks), 'passage')} as probably out of date; they stay.{why}"


def _merged(payload: _Payload) -> str:
    why = "their names are alike" if payload.get("reason") == "alike" else "somebody said so"
    return f"Two entities became one: {why}."


def _relationship_ended(payload: _Payload) -> str:
    why = f" “{shortened(payload['why'])}”" if payload.get("why") else ""
    return f"A relationship ended on {str(payload['end_date'])[:10]}.{why}"


def _stated(payload: _Payload) -> str:
    graph = payload["graph"]
    names = {one["id"]: shortened(one["name"], 80) for one in graph["entities"]}
    related = [
        f"{names[one['from_id']]} {one['type'].replace('_', ' ')} {names[one['to_id']]}"
        for one in graph["relationships"]
    ]
    return f"Somebody stated: {', '.join(related or names.values())}."


def _profile_written(payload: _Payload) -> str:
    lines = len(payload["content"].splitlines())
    by = payload.get("model") or "quoting memory"
    return f"Wrote {counted(lines, 'line')} of the profile “{shortened(payload['name'], 80)}”, by {by}."


def _recalled(payload: _Payload) -> str:
    return f"Gave {counted(len(payload.get('chunks', ())), 'passage')} to the run {shortened(payload['run_id'], 80)}."


def _outcome(payload: _Payload) -> str:
    how = "a success" if payload.get("success") else "a failure"
    note = f" “{shortened(payload['note'])}”" if payload.get("note") else ""
    return f"The run {shortened(payload['run_id'], 80)} was {how}.{note}"


def _model_asked(payload: _Payload) -> str:
    usage = payload.get("usage", ())
    tokens = sum(one["input_tokens"] + one["output_tokens"] for one in usage)
    return f"The {payload['agent'].replace('_', ' ')} asked a model: {payload['outcome']}; {counted(tokens, 'token')}."


def _remember_asked(payload: _Payload) -> str:
    if payload.get("failed_attempts"):
        return f"The model failed {counted(payload['failed_attempts'], 'time')}; it is asked again later."
    return "A model is to read what is said from here on."


def _remembered(payload: _Payload) -> str:
    changed = counted(len(payload.get("memory_ids", ())), "memory", "memories")
    asked = len(payload.get("deletion_requests", ()))
    wishes = f" The user asks to have something forgotten, {counted(asked, 'time')}." if asked else ""
    return f"A model has read {counted(payload['turns'], 'turn')} and changed {changed}.{wishes}"


def _value_part(payload: _Payload) -> str:
    return f"Part {payload['number'] + 1} of the large values of an event that follows."


def _erased(payload: _Payload) -> str:
    rows = sum(payload.get("rows", {}).values())
    return (
        f"Erased a {payload['scope']}: {counted(len(payload.get('events', ())), 'event')} emptied,"
        f" {counted(rows, 'row')} removed."
    )


_SENTENCES: Final[Mapping[str, Callable[[_Payload], str]]] = {
    EventKind.CREATED: _created,
    EventKind.UPDATED: _updated,
    EventKind.APPENDED: _appended,
    EventKind.ARCHIVED: _archived,
    EventKind.UNARCHIVED: lambda payload: f"Back on the active list, at version {payload['version']}.",
    EventKind.CONSOLIDATED: _consolidated,
    EventKind.PROMOTED: _promoted,
    EventKind.CUT: _cut,
    EventKind.ENDED: _ended,
    EventKind.OUTDATED: _outdated,
    EventKind.ENTITIES_MERGED: _merged,
    EventKind.ENTITIES_UNMERGED: lambda _: "An entity is separate again.",
    EventKind.RELATIONSHIP_ENDED: _relationship_ended,
    EventKind.ENTITY_STATED: _stated,
    EventKind.RELATIONSHIP_STATED: _stated,
    EventKind.PROFILE_DEFINED: lambda payload: f"Defined the profile “{shortened(payload['name'], 80)}”.",
    EventKind.PROFILE_WRITTEN: _profile_written,
    EventKind.PROFILE_REMOVED: lambda payload: f"Removed the profile “{shortened(payload['name'], 80)}”.",
    EventKind.RECALLED: _recalled,
    EventKind.OUTCOME: _outcome,
    EventKind.GRAPH_ERASED: lambda _: "An erasure reached the graph store.",
    EventKind.MODEL_ASKED: _model_asked,
    EventKind.REMEMBER_ASKED: _remember_asked,
    EventKind.REMEMBERED: _remembered,
    EventKind.VALUE_PART: _value_part,
    EventKind.ERASED: _erased,
}
