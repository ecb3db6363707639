"""Which names are taken for one: a table of pairs, and the rules about types, passages and open cases."""

from __future__ import annotations

import random
from uuid import UUID, uuid4

from hypothesis import given
from hypothesis import strategies as st

from agent_reminiscence.text.folding import name_key
from agent_reminiscence.text.likeness import Likeness, Match, NamedEntity, find_alike

# Of one thing, and recognised as such.
_FOUND = (
    ("Caroline", "Carolline"),
    ("Melanie", "Mellanie"),
    ("Michael", "Micheal"),
    ("Philippa", "Phillippa"),
    ("Katherine Johnson", "Katherine Jonson"),
    ("Elizabeth Okafor", "Elisabeth Okafor"),
    ("Veronica Lund", "Veronika Lund"),
    ("Mississippi", "Missisippi"),
    ("San Francisco", "San Fransisco"),
    ("Kubernetes", "Kubernets"),
    ("Massachusetts", "Massachussetts"),
    ("Guggenheim Museum", "Gugenheim Museum"),
    ("World Health Organization", "World Health Organisation"),
    ("Edinburgh Festival", "Edinbrugh Festival"),
    ("Shakespeare", "Shakespaere"),
    ("Constantinople", "Constantinpole"),
    ("Acme Corp", "Acme Corporation"),
    ("Acme", "Acme Corporation"),
    ("Northwind Ltd.", "Northwind Limited"),
    ("Northwind", "Northwind, Inc."),
    ("J.K. Rowling", "J. K. Rowling"),
    ("JK Rowling", "J.K. Rowling"),
    ("Wi-Fi Alliance", "The WiFi Alliance"),
    ("The Beatles", "Beatles"),
    ("Ben & Jerry's", "Ben and Jerry's"),
    ("Coca-Cola", "Coca Cola"),
    ("Red-Boat", "Red Boat"),
    ("New York", "New York City"),
    ("Salt Lake", "Salt Lake City"),
)
# Of one thing, and not recognised: no rule says so without likening names of different things.
_MISSED = (
    ("Catherine", "Katherine"),
    ("Muhammad Ali", "Mohammed Ali"),
    ("Postgres", "PostgreSQL"),
    ("Stanford", "Stanford University"),
    ("NYC", "New York City"),
    ("JavaScript", "Javscrpt"),
    ("Red Boat", "Red Boats"),
    ("Jon Abara", "Jonn Abara"),
    ("Cincinnati", "Cincinatti"),
)
# Of different things.
_DIFFERENT = (
    ("Jon", "Joan"),
    ("Jon", "John"),
    ("Maria", "Marie"),
    ("Anna", "Hanna"),
    ("Hannah", "Johannah"),
    ("Austria", "Australia"),
    ("Iran", "Iraq"),
    ("Slovakia", "Slovenia"),
    ("Mauritania", "Mauritius"),
    ("Niger", "Nigeria"),
    ("Hamburg", "Homburg"),
    ("Freiburg", "Freiberg"),
    ("John Smith", "Joan Smith"),
    ("Tim Smith", "Tom Smith"),
    ("Maria Gonzalez", "Mario Gonzalez"),
    ("Katherine Johnson", "Katherine Jackson"),
    ("Katherine Johnson", "Katherine Johnston"),
    ("Emma Thompson", "Emma Thomson"),
    ("Caroline", "Carolina"),
    ("Christina", "Christian"),
    ("Christine", "Christina"),
    ("Alexander", "Alexandra"),
    ("Francesco", "Francesca"),
    ("Francesca", "Francisca"),
    ("Daniel", "Danielle"),
    ("Gabriel", "Gabriela"),
    ("Michael", "Michelle"),
    ("Stephan", "Stephanie"),
    ("Jacqueline Moreau", "Jacqueline Moreaux"),
    ("North Carolina", "South Carolina"),
    ("New York", "New Jersey"),
    ("Lake Erie", "Lake Eyre"),
    ("Red Boat", "Red Coat"),
    ("iPhone 12", "iPhone 13"),
    ("iPhone", "iPhone 13"),
    ("Python 3.11", "Python 3.12"),
    ("Apollo 11", "Apollo 1"),
    ("Kubernetes1", "Kubernetes2"),
    ("Room B12", "Room B13"),
    ("Kansas", "Kansas City"),
    ("Boston", "Boston University"),
    ("Boston", "Boston Marathon"),
    ("Amazon", "Amazon River"),
    ("Apple", "Apple Pie"),
    ("Oxford", "Oxford Street"),
    ("Acme Inc", "Acme GmbH"),
    ("Acme Corp", "Acne Corp"),
    ("Johnson", "Johnson & Johnson"),
    ("Java", "JavaScript"),
    ("Sara", "Sarah"),
)


def _entity(name: str, type_: str = "other", *passages: int) -> NamedEntity:
    return NamedEntity(uuid4(), (name_key(name),), name, type_, frozenset(passages))


def _are_alike(one: str, other: str) -> bool:
    return bool(find_alike([_entity(one)], [_entity(other)]))


def _one_match(new: NamedEntity, *known: NamedEntity) -> UUID | None:
    matches = find_alike([new], known)
    return matches[0].known_id if matches else None


def test_no_pair_of_different_things_is_taken_for_one() -> None:
    """Precision of the table is 1: a wrong merge joins what two people did."""
    wrong = [pair for pair in _DIFFERENT if _are_alike(*pair) or _are_alike(*reversed(pair))]

    assert wrong == []


def test_most_spellings_of_one_thing_are_found() -> None:
    """Recall of the table: 29 of 38, whichever of the two is known."""
    found = [pair for pair in _FOUND + _MISSED if _are_alike(*pair)]

    assert found == list(_FOUND)
    assert all(_are_alike(other, one) for one, other in found)
    assert len(_FOUND) / len(_FOUND + _MISSED) > 0.75


def test_each_match_names_its_reason_and_a_score() -> None:
    """Who reads a merge sees which rule made it."""
    new = [_entity("Carolline"), _entity("Acme Corp"), _entity("New York City"), _entity("JK Rowling"),
           _entity("Tim", "person"), _entity("Zanzibar")]  # fmt: skip
    known = [_entity("Caroline"), _entity("Acme"), _entity("New York"), _entity("J.K. Rowling"),
             _entity("Tim Smith", "person")]  # fmt: skip

    matches = find_alike(new, known)

    assert [(match.new_id, match.known_id) for match in matches] == [
        (one.id, other.id) for one, other in zip(new, known, strict=False)
    ]
    reasons = [match.reason for match in matches]
    assert reasons == [
        Likeness.SPELLING, Likeness.LEGAL_FORM, Likeness.CITY, Likeness.SAME_LETTERS, Likeness.SHORT_FORM
    ]  # fmt: skip
    assert all(0 < match.score < 1 for match in matches)


def test_an_alias_counts_like_a_name() -> None:
    """A known entity is found by any of its keys."""
    known = NamedEntity(uuid4(), ("nyc", "philadelphia"), "NYC", "place")

    assert _one_match(_entity("Philadellphia"), known) == known.id


def test_types_that_differ_are_never_one() -> None:
    """`other` may be anything; a person is no place."""
    place, open_ = _entity("Constantina", "place"), _entity("Constantina")

    assert _one_match(_entity("Constanttina", "person"), place) is None
    assert _one_match(_entity("Constanttina", "person"), open_) == open_.id
    assert _one_match(_entity("Constanttina"), place) == place.id


def test_names_that_stand_in_one_passage_are_never_one() -> None:
    """Who writes both means two."""
    known = _entity("Caroline", "other", 1, 2)

    assert _one_match(_entity("Carolline", "other", 2), known) is None
    assert _one_match(_entity("Carolline", "other", 3), known) == known.id


def test_nothing_is_taken_where_two_fit() -> None:
    """Which of them is meant is open, and a weaker reason does not decide it."""
    assert _one_match(_entity("Acme"), _entity("Acme GmbH"), _entity("Acme Inc")) is None
    assert _one_match(_entity("Philippa"), _entity("Phillippa"), _entity("Philipppa")) is None


def test_a_short_form_is_a_persons_whose_first_name_nobody_else_has() -> None:
    """`Tim` is Tim Smith as long as there is no other Tim, known or new."""
    smith, jones, place = _entity("Tim Smith", "person"), _entity("Tim Jones", "person"), _entity("Tim Street", "place")
    tim = _entity("Tim", "person")

    assert _one_match(tim, smith, place) == smith.id
    assert _one_match(smith, tim) == tim.id
    assert _one_match(tim, smith, jones) is None
    assert find_alike([tim, jones], [smith]) == []
    assert find_alike([smith, jones], [tim]) == []
    assert _one_match(jones, tim, smith) is None
    assert _one_match(_entity("Tim"), smith) is None, "perhaps no person"
    assert _one_match(_entity("Smith", "person"), smith) is None, "a family has one last name"
    assert _one_match(_entity("Paris"), _entity("Paris Hilton", "person")) is None


def test_different_titles_are_different_persons() -> None:
    """Keys have no titles, names do."""
    known = _entity("Mr. Hollingsworth", "person")

    assert _one_match(_entity("Mrs. Hollingsworrth", "person"), known) is None
    assert _one_match(_entity("Mr. Hollingsworrth", "person"), known) == known.id
    assert _one_match(_entity("Hollingsworrth", "person"), known) == known.id


def test_an_entity_is_not_like_itself() -> None:
    """The same id on both sides is no match."""
    entity = _entity("Acme Corp")

    assert find_alike([entity], [entity]) == []


_NAMES = st.text(alphabet=st.one_of(st.sampled_from("abcdelmnz -'.&12"), st.characters()), max_size=30)


@given(new=st.lists(_NAMES, max_size=4), known=st.lists(_NAMES, max_size=4))
def test_any_keys_can_be_compared(new: list[str], known: list[str]) -> None:
    """Empty ones, too; each new entity has one match at most, and names of different numbers have none."""
    newcomers, others = [_entity(name) for name in new], [_entity(name) for name in known]

    matches = find_alike(newcomers, others)

    assert len({match.new_id for match in matches}) == len(matches)
    keys = {entity.id: entity.keys[0] for entity in newcomers + others}
    for match in matches:
        assert _digits(keys[match.new_id]) == _digits(keys[match.known_id])


def _digits(key: str) -> str:
    return "".join(character for character in key if character.isdecimal())


def test_names_of_one_passage_do_not_become_one_through_a_third() -> None:
    """Two companies that stand in one sentence are two, though each by itself is most likely the one that is known."""
    acme = _entity("Acme", "organization")
    corp, gmbh = _entity("Acme Corp", "organization", 0), _entity("Acme GmbH", "organization", 0)

    assert find_alike([corp], [acme])
    assert find_alike([gmbh], [acme])
    assert find_alike([corp, gmbh], [acme]) == []
    assert find_alike([corp, _entity("Acme GmbH", "organization", 5)], [acme]) == []


def test_a_company_of_one_legal_form_is_none_of_another() -> None:
    """What has been called Acme and Acme Corp is not Acme GmbH."""
    acme = NamedEntity(uuid4(), ("acme", "acme corp"), "Acme", "organization")

    assert find_alike([_entity("Acme GmbH", "organization")], [acme]) == []
    assert find_alike([_entity("Acme Corporation", "organization")], [acme])


def test_two_hundred_names_are_compared_with_ten_thousand() -> None:
    """Names made at random are hardly ever alike."""
    generator = random.Random(3)

    def made_up() -> str:
        return " ".join("".join(generator.choices("abcdefghij", k=generator.randint(4, 10))) for _ in range(2))

    known = [_entity(made_up()) for _ in range(10_000)]
    new = [_entity(made_up()) for _ in range(200)]

    matches: list[Match] = find_alike(new, known)

    assert len(matches) < 5
