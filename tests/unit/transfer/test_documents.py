"""Documents, pages and tables: what of them is text, what is said about them, and what is no text at all."""

from __future__ import annotations

import bz2
import csv
import os
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from agent_reminiscence import ImportedMemory, InvalidInputError
from agent_reminiscence.services.transfer import tables
from agent_reminiscence.services.transfer.files import find_sources, read_memories
from agent_reminiscence.services.transfer.front_matter import split_front_matter
from agent_reminiscence.services.transfer.parts import BLOCK_BYTES, Format, LeftOut, Refusal, SourceFile

type Reader = Callable[..., list[ImportedMemory]]


@pytest.fixture
def read(tmp_path: Path) -> Reader:
    """Reads what is written to a file of this name."""

    def read_file(name: str, content: str | bytes, file_format: Format | None = None) -> list[ImportedMemory]:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        (source,) = find_sources([path], file_format=file_format)
        assert isinstance(source, SourceFile), source
        return list(read_memories(source))

    return read_file


_PAGE = """<!DOCTYPE html><html><head><title>The
  Ferry &amp; the pier</title><style>p { color: red }</style><script>var a = "<p>no</p>"</script></head>
<body><nav><ul><li>Home</li></ul></nav><main><h1>Times</h1><p>The ferry leaves
 at   <b>nine</b>.<br>Not on Sundays.</p><ul><li><p>Tickets: 5&nbsp;€</p></li><li>Dogs are free</li></ul>
<table><tr> <th>Pier</th> <th>Colour</th></tr><tr><td>North</td><td>red</td></tr></table>
<pre>a  b
c</pre><svg><text>no</text></svg><template>no</template></main><footer>Open since 1902</footer></body></html>"""


def test_of_a_page_the_words_are_read(read: Reader) -> None:
    """In their order, with their headings, items and cells; without scripts, styles and navigation."""
    (memory,) = read("page.html", _PAGE)

    assert memory.title == "The Ferry & the pier"
    assert [line.replace("\xa0", " ") for line in memory.content.split("\n") if line.strip()] == [
        "# Times",
        "The ferry leaves at nine.",
        "Not on Sundays.",
        "- Tickets: 5 €",
        "- Dogs are free",
        "Pier | Colour",
        "North | red",
        "a  b",
        "c",
        "Open since 1902",
    ]
    assert memory.metadata == {"file": "page.html"}


def test_a_page_is_read_the_same_wherever_its_blocks_end(read: Reader) -> None:
    """A file is read in blocks, and a tag or a character may lie across two of them."""
    filler = "<p>" + "word " * (BLOCK_BYTES // 5 - 3)
    for shift in range(12):
        (memory,) = read("page.htm", f"<title>T</title>{'x' * shift}{filler}</p><p>The pïer is r&euml;d.</p>")
        assert memory.content.endswith("word\n\nThe pïer is rëd."), shift


def test_a_page_says_how_it_is_encoded(read: Reader) -> None:
    """Old pages are seldom UTF-8; one that names nothing is."""
    (named,) = read(
        "a.html", '<meta http-equiv="c" content="text/html; charset=iso-8859-1"><p>Brücke – ja'.encode("cp1252")
    )
    (plain,) = read("b.html", "<p>Brücke")

    assert (named.content, plain.content) == ("Brücke – ja", "Brücke")
    with pytest.raises(InvalidInputError, match="line 1: this is not UTF-8 text"):
        read("c.html", "<p>Brücke".encode("latin-1"))
    for name in ("rot13", "zip", "klingon", "undefined", "idna", "punycode", "unicode_escape", "cp037", "base64"):
        with pytest.raises(InvalidInputError, match=f"encoding is '{name}', which is unknown"):
            read("d.html", f'<meta charset="{name}"><p>x')


_XMLNS = 'xmlns="http://www.w3.org/1999/xhtml"'


@pytest.mark.parametrize(
    ("name", "page", "title", "text"),
    [
        ("a.xhtml", '<head><script src="a.js"/><title>T</title></head><body><p>Hi</p></body>', "T", "Hi"),
        ("a.xhtml", '<script src="a.js"/><p>Hi</p><script>no()</script>', "a", "Hi"),
        ("a.html", '<?xml version="1.0"?><script src="a.js"/><p>Hi</p><script>no()</script>', "a", "Hi"),
        ("a.html", f'<!DOCTYPE html><html lang="en" {_XMLNS}><iframe/><p>Hi</p><iframe></iframe>', "a", "Hi"),
        ("a.html", '<script src="a.js"/><p>Hi</p>', "a", "Hi"),
        ("a.html", '<script src="a.js"/>no()</script><p>Hi</p>', "a", "Hi"),
        ("a.html", "<head><title/></head><body><p>Hi</p></body>", "a", "Hi"),
        ("a.html", "<title>T<h1>Hi</h1><p>Text", "a", "T\n\n# Hi\n\nText"),
        ("a.html", "<svg/><p>Hi</p><svg><text>no</text></svg>", "a", "Hi"),
        ("a.html", '<video src="x"/><p>Hi</p>', "a", "Hi"),
        ("a.html", "<video src=x><p>Hi</p>", "a", "Hi"),
        ("a.html", "<p>Hi</p><pre/><p>a   b</p>", "a", "Hi\n\na b"),
        ("a.html", '<head prefix="og: x"><title>T</title><h1>Hi</h1><p>Text', "T", "# Hi\n\nText"),
        ("a.html", "<head><title>T</title>Hi, <b>Ana</b>.", "T", "Hi, Ana."),
        ("a.html", "<head><title>T</title>Hi, Ana.", "T", "Hi, Ana."),
        ("a.html", "<head><title>T</title>no<body>Hi", "T", "Hi"),
        ("a.html", "<head><meta charset=utf-8><link href=x>no<title>The <i>T</i></title></head>Hi", "The T", "Hi"),
    ],
)
def test_a_page_that_leaves_out_an_end_keeps_its_words(
    read: Reader, name: str, page: str, title: str, text: str
) -> None:
    """In XHTML a tag may be the whole element, and people forget ends: what follows is still said."""
    (memory,) = read(name, page)

    assert (memory.title, memory.content) == (title, text)


@pytest.mark.parametrize(
    "page",
    [
        "<nav>" * 50_000,
        "<p" * 100_000,
        "<![CDATA[" * 50_000,
        "&#" * 100_000,
        "<a b='" * 50_000,
        "</nav>" * 50_000,
        "<script/>" * 50_000,
        "<nav>" * 50_000 + "</svg>" * 50_000 + "</nav>",
    ],
    ids=["open", "cut off", "cdata", "references", "attributes", "closed", "scripts", "other ends"],
)
def test_a_page_made_to_be_slow_is_read_like_any_other(read: Reader, page: str) -> None:
    """Whoever ingests a folder of saved pages did not write them."""
    memories = read("page.html", f"<p>The pier is red.</p>{page}")

    assert memories[0].content.startswith("The pier is red.")


@pytest.mark.parametrize(
    ("name", "table", "rows"),
    [
        ("a.csv", "name,city\nAna,Porto\nBo,Oslo\n", ["name = Ana; city = Porto", "name = Bo; city = Oslo"]),
        ("a.csv", 'name;note\nAna;"red; and\nwhite"\n\n', ["name = Ana; note = red; and white"]),
        ("a.tsv", "name\tcity\r\nAna\tPorto, PT\r\n", ["name = Ana; city = Porto, PT"]),
        ("a.csv", "1,Porto\n2,Oslo", ["1; Porto", "2; Oslo"]),
        ("a.csv", "a,b\n1,2,3\n,\n4", ["a = 1; b = 2; column 3 = 3", "a = 4"]),
        ("a.csv", '\ufeff"the ""name""",b\nx,y', ['the "name" = x; b = y']),
        ("a.csv", "name,city\n", ["name; city"]),
        ("a.csv", "Ana,Porto", ["Ana; Porto"]),
        ("a.csv", "Ana,Porto\n\n,\n", ["Ana; Porto"]),
        ("a.csv", "Milk\nBread\nEggs", ["Milk", "Bread", "Eggs"]),
        ("a.csv", "\n\n", []),
        ("a.csv", "sep=;\r\nname;note\r\nAna;red, white\r\n", ["name = Ana; note = red, white"]),
        ("a.csv", '"sep=\t"\nname\tcity\nAna\tPorto, PT\n', ["name = Ana; city = Porto, PT"]),
        ("a.csv", "sep=;\n", []),
        ("a.csv", "sep=x,1\n", ["sep=x; 1"]),
        ("a.tsv", '1\t"Hello" he said\n2\tBo', ['1; "Hello" he said', "2; Bo"]),
        ("a.tsv", '1\t"the ""red""\tpier,\nand more"\tx\r\n2\t"y"', ['1; the "red" pier, and more; x', "2; y"]),
        ("a.tsv", '1\t"never closed\n2\t5" pipe\n3\t"z"\n', ['1; "never closed', '2; 5" pipe', "3; z"]),
        ("a.tsv", '1\t"never closed\n2\tx', ['1; "never closed', "2; x"]),
    ],
)
def test_a_row_of_a_table_says_what_its_cells_are(read: Reader, name: str, table: str, rows: list[str]) -> None:
    """So that a question for a city finds it, and a hit can be understood without the first line."""
    memories = read(name, table)

    assert [row for memory in memories for row in memory.content.split("\n\n") if row] == rows


def test_a_table_that_is_none_names_its_line(read: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    """A quotation mark that is never closed, and what no cell is as long as."""
    with pytest.raises(InvalidInputError, match="line 2: this is not CSV"):
        read("a.csv", 'a,b\n"x,y')
    with pytest.raises(InvalidInputError, match="line 5: this is not CSV"):
        read("a.csv", '\nsep=;\n\na;b\n"x;y')
    monkeypatch.setattr(tables, "_MAX_CELL_CHARACTERS", 1_000)
    with pytest.raises(InvalidInputError, match="line 2: this is not CSV: field larger than"):
        read("a.csv", f"a,b\n{'x' * 2_000},y")


def test_a_long_cell_is_read_and_changes_no_limit_of_the_process(read: Reader) -> None:
    """Longer than the standard library reads by itself; other code of the process relies on that limit."""
    before = csv.field_size_limit()

    (memory,) = read("a.csv", f"name,note\nAna,{'x' * 140_000}\n")

    assert memory.content == f"name = Ana; note = {'x' * 140_000}\n\n"
    assert csv.field_size_limit() == before


def test_front_matter_is_metadata_and_no_passage(read: Reader) -> None:
    """It says what the document is; a question is not to find `tags:` in it."""
    text = """---
title: "Pier notes"  # mine
tags: [sea, 'old pier']
authors:
  - Ana
  - Bo
date: 2025-03-01
url: https://example.org/#pier
nested:
  a: 1
---

# Pier

The pier is red.
"""
    (memory,) = read("note.md", text)

    assert memory.title == "Pier notes"
    assert memory.content.strip() == "# Pier\n\nThe pier is red."
    assert memory.occurred_at == datetime(2025, 3, 1, tzinfo=UTC)
    assert memory.metadata["front_matter"] == {
        "title": "Pier notes",
        "tags": ["sea", "old pier"],
        "authors": ["Ana", "Bo"],
        "date": "2025-03-01",
        "url": "https://example.org/#pier",
        "nested": "a: 1",
    }


def test_toml_front_matter_is_read_too(read: Reader) -> None:
    """As Hugo and Zola write it; dates become text, which JSON has."""
    (memory,) = read("note.markdown", '+++\ntitle = "Pier"\ndate = 2025-03-01T09:00:00Z\nweight = 3\n+++\nRed.\n')

    assert (memory.title, memory.content) == ("Pier", "Red.\n")
    assert memory.occurred_at == datetime(2025, 3, 1, 9, tzinfo=UTC)
    assert memory.metadata["front_matter"] == {"title": "Pier", "date": "2025-03-01T09:00:00+00:00", "weight": 3}


@pytest.mark.parametrize(
    "text",
    [
        "---\n\nA rule, and then text.\n\n---\n\nMore.",
        "---\nAna said: yes\nthen she left\n---\n",
        "---\ntitle: never closed\n\ntext",
        "+++\nno toml\n+++\n",
        "text\n---\ntitle: x\n---\n",
        "---\n---\ntext",
        "",
        "---\nAna: hi, where are you?\nBob: at the station\nAna: wait for me\n---\n\nLater they met.",
        "---\nQ: What is red?\nA: The pier.\n\nQ: What leaves at nine?\nA: The ferry.\n---\n",
        "---\n\n# Shopping\nMilk: 2\n---\n",
        "---\nMilk: 2\n#pier\n---\n",
    ],
)
def test_a_rule_begins_no_front_matter(text: str) -> None:
    """Nothing of a document is taken for metadata unless all lines of the block are fields, of different names."""
    assert split_front_matter(text) == ({}, text)


def test_a_hash_within_a_value_is_part_of_it() -> None:
    """Only a line of its own could be a heading."""
    assert split_front_matter("---\nabout: |\n  # Pier\n  It is red.\n---\n") == ({"about": "# Pier\nIt is red."}, "")


_BINARY = {
    "a PDF": b"%PDF-1.4\n1 0 obj\n<< /Type /Catalog >>\nendobj\n%%EOF\n",
    "a PNG picture": b"\x89PNG\r\n\x1a\n",
    "an RTF document": b"{\\rtf1 The pier is red.}",
    "a binary file": bytes(range(32)) * 4,
    "an MP4 or HEIC file": b"\0\0\0\x20ftypisom",
}


@pytest.mark.parametrize("kind", _BINARY)
@pytest.mark.parametrize("file_format", ["txt", "md", "html", "csv"])
def test_what_is_no_text_is_refused_under_any_format_of_text(read: Reader, kind: str, file_format: Format) -> None:
    """A PDF may be all ASCII, and its bytes are no memory."""
    with pytest.raises(InvalidInputError, match=f"it is {kind}, which is not text"):
        read("pier.dat", _BINARY[kind], file_format)


@pytest.mark.parametrize("file_format", ["txt", "md"])
@pytest.mark.parametrize(
    "text",
    [
        "ID3 is a decision tree algorithm.",
        "RIFF notes: WAVE and AVI are such files.",
        "BZh is short.",
        "The ftyp box comes first.",
        "GIF89a is a format of 1989.",
        "OggS begins each page.",
        "fLaC is how it begins.",
        "%PDF-files are read by few.",
        "%!PSst, they sleep.",
    ],
)
def test_a_text_may_begin_with_the_words_of_a_signature(read: Reader, text: str, file_format: Format) -> None:
    """A signature is more than its letters."""
    (memory,) = read("a.dat", text, file_format)

    assert memory.content == text


_MEDIA = {
    "an MP3 file": b"ID3\x04\0\0\0\0\0\x17",
    "a RIFF file (WAV, WebP or AVI)": b"RIFF\x24\x08\n\0WAVEfmt ",
    "a bzip2 file": bz2.compress(b"The pier is red."),
    "a GIF picture": b"GIF89a\xe8\x03\x58\x02\xf7\xff\0",
    "an Ogg file": b"OggS\0\x02",
    "a FLAC file": b"fLaC\0\0\0\x22",
}


@pytest.mark.parametrize("kind", _MEDIA)
def test_media_are_known_by_their_whole_signature(read: Reader, kind: str) -> None:
    """As short as they are."""
    with pytest.raises(InvalidInputError, match=re.escape(f"it is {kind}, which is not text")):
        read("pier.dat", _MEDIA[kind], "txt")


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
def test_text_with_a_byte_order_mark_is_read_in_every_format(read: Reader, encoding: str) -> None:
    """As editors and shells of Windows write it."""

    def marked(text: str) -> bytes:
        return f"\ufeff{text}".encode(encoding)

    long = "Der Steg ist rot: größer als 😀.\n" * 10_000
    assert "".join(part.content for part in read("a.txt", marked(long))) == long
    assert read("a.md", marked("---\ntitle: Steg\n---\nrot"))[0].title == "Steg"
    assert read("a.html", marked('<meta charset="iso-8859-1"><p>größer'))[0].content == "größer"
    assert read("a.csv", marked("name,ort\nÄnne,Köln"))[0].content == "name = Änne; ort = Köln\n\n"
    chat = '{"role": "user", "content": "größer"}'
    assert read("a.jsonl", marked(f"{chat}\n{chat}"))[0].content == "user: größer\nuser: größer"
    assert read("a.json", marked(f"[{chat}]"))[0].content == "user: größer"
    with pytest.raises(InvalidInputError, match=f"line 2: this is not {encoding[:6].upper()} text"):
        read("b.txt", marked("a\nb") + b"\0")


def test_a_stray_control_character_makes_no_text_binary(read: Reader) -> None:
    """Logs have some; NUL is replaced and counted."""
    (memory,) = read("a.txt", "The pier\x00 is \x1b[31mred\x1b[0m.")

    assert memory.content == "The pier\ufffd is \x1b[31mred\x1b[0m."
    assert memory.replaced_characters == 1


def test_what_a_folder_leaves_out_is_told(tmp_path: Path) -> None:
    """And a file that is named by itself is refused with the way out that it has."""
    for name, content in {
        "a.md": b"text",
        "b.pdf": _BINARY["a PDF"],
        "c.dat": b"text",
        "d.zip": b"PK",
        "e": b"x",
        ".hidden.pdf": b"%PDF-",
        "export/conversations.json": b"[]",
        "export/user.json": b"{}",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)

    found = list(find_sources([tmp_path]))
    named = list(find_sources([tmp_path / "b.pdf", tmp_path / "c.dat"]))

    assert {Path(one.name).name: one.reason for one in found if isinstance(one, LeftOut)} == {
        "b.pdf": ".pdf is not read",
        "c.dat": ".dat is not read",
        "d.zip": "an archive in a folder is not read; name it by itself",
        "e": "a file without an extension is not read",
        "user.json": "a file of an export that is no chat",
    }
    assert [one.path.name for one in found if isinstance(one, SourceFile)] == ["a.md", "conversations.json"]
    pdf, dat = named
    assert isinstance(pdf, Refusal)
    assert pdf.reason == "it is a PDF, which is not read; convert it to text first"
    assert isinstance(dat, Refusal)
    assert "if it is text, pass --format" in dat.reason


def test_a_named_format_reads_every_file_of_a_folder_that_may_be_text(tmp_path: Path) -> None:
    """Whatever their endings; what is no text is left out and told, as without a format."""
    for name, content in {
        "a.md": b"# text",
        "b.log": b"text",
        "c": "\ufefftext".encode("utf-16-le") * 200,
        "d.png": b"\x89PNG\r\n\x1a\n",
        "e.bin": bytes(range(256)) * 10,
        "f.zip": b"PK",
        ".hidden.log": b"text",
    }.items():
        (tmp_path / name).write_bytes(content)
    os.mkfifo(tmp_path / "g.pipe")

    found = list(find_sources([tmp_path], file_format="txt"))
    named = list(find_sources([tmp_path / "c"]))

    assert [(one.path.name, one.format) for one in found if isinstance(one, SourceFile)] == [
        ("a.md", "txt"),
        ("b.log", "txt"),
        ("c", "txt"),
    ]
    assert {Path(one.name).name: one.reason for one in found if isinstance(one, LeftOut)} == {
        "d.png": "it is a PNG picture, which is not text",
        "e.bin": "it is a binary file, which is not text",
        "f.zip": "an archive in a folder is not read; name it by itself",
        "g.pipe": "it is no regular file",
    }
    (unknown,) = named
    assert isinstance(unknown, Refusal)
    assert "if it is text, pass --format" in unknown.reason
