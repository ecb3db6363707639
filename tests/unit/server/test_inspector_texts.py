"""Two versions of a text side by side."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agent_reminiscence.server.inspector.texts import Piece, Row, compare, words


def _side(rows: list[Row], which: str) -> list[str]:
    sides = [getattr(row, which) for row in rows]
    return ["".join(piece.text for piece in side[1]) for side in sides if side is not None]


def test_the_words_that_differ_are_marked() -> None:
    """And only these."""
    removed, added, _ = words("Opening day is June 14.", "Opening day is June 28.")
    assert removed == (Piece("Opening day is June ", "same"), Piece("14", "removed"), Piece(".", "same"))
    assert added == (Piece("Opening day is June ", "same"), Piece("28", "added"), Piece(".", "same"))


def test_a_line_that_only_one_text_has_stands_alone() -> None:
    """The lines after it stand side by side again."""
    rows = compare("a\nc", "a\nb\nc")
    assert [(row.left is None, row.right is None) for row in rows] == [(False, False), (True, False), (False, False)]
    assert rows[1].right == (2, (Piece("b", "added"),))


def test_lines_far_from_a_change_are_left_out_and_counted() -> None:
    """Unless the whole text is asked for."""
    old = "\n".join(f"line {number}" for number in range(100))
    rows = compare(old, old.replace("line 50", "line fifty"))
    assert [row.skipped for row in rows if row.skipped] == [48, 47]
    assert sum(row.is_changed for row in rows) == 1
    assert len(compare(old, old.replace("line 50", "line fifty"), whole=True)) == 100


def test_equal_texts_have_nothing_but_a_count() -> None:
    """There is nothing to see."""
    assert compare("a\nb", "a\nb") == [Row(skipped=2)]
    assert compare("", "") == []


def test_a_very_long_line_is_compared_as_a_whole() -> None:
    """Comparing words takes the square of their number."""
    removed, added, _ = words("x " * 5_000, "y " * 5_000)
    assert [len(side) for side in (removed, added)] == [1, 1]


def test_texts_that_have_little_in_common_are_cut_and_say_so() -> None:
    """A page of a hundred thousand lines helps nobody."""
    rows = compare("\n".join(map(str, range(5_000))), "\n".join(f"x{number}" for number in range(5_000)))
    assert rows[-1].cut == len(rows[:-1]) - 1_000 == 2_000


def test_a_long_text_of_equal_lines_is_compared_all_the_same() -> None:
    """Though each line could stand beside every other."""
    rows = compare("same\n" * 20_000, "same\n" * 20_000 + "new")
    assert [row.right for row in rows if row.left is None and row.right is not None] == [
        (20_001, (Piece("new", "added"),))
    ]


@given(st.text(alphabet="ab \n", max_size=60), st.text(alphabet="ab \n", max_size=60))
def test_each_side_holds_its_text_whole(old: str, new: str) -> None:
    """Nothing is lost between the lines."""
    rows = compare(old, new, whole=True)
    assert _side(rows, "left") == old.splitlines()
    assert _side(rows, "right") == new.splitlines()
    numbers = [row.left[0] for row in rows if row.left is not None]
    assert numbers == list(range(1, len(numbers) + 1))


@given(st.text(max_size=80), st.text(max_size=80))
def test_what_is_marked_as_the_same_is_the_same(old: str, new: str) -> None:
    """On both sides, in the same order."""
    removed, added, _ = words(old, new)
    assert "".join(piece.text for piece in removed) == old
    assert "".join(piece.text for piece in added) == new
    assert [piece.text for piece in removed if piece.mark == "same"] == [
        piece.text for piece in added if piece.mark == "same"
    ]
