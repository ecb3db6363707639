"""What others wrote and the inspector serves is what its list says."""

from __future__ import annotations

import tomllib
from hashlib import sha256
from pathlib import Path

from agent_reminiscence.server.inspector.rendering import FOLDER

_VENDOR = FOLDER / "static" / "vendor"
_LIST = _VENDOR / "vendored.toml"
# Without conditions on whoever passes them on, but to name the author.
_LICENCES = {"0BSD", "MIT"}


def _listed() -> dict[str, str]:
    packages = tomllib.loads(_LIST.read_text(encoding="utf-8"))["package"]
    return {name: digest for one in packages for name, digest in one["sha256"].items()}


def test_every_vendored_file_is_listed_with_its_sha256() -> None:
    """Nobody changes one of them by the way."""
    found = {
        path.relative_to(_VENDOR).as_posix(): sha256(path.read_bytes()).hexdigest()
        for path in _VENDOR.rglob("*")
        if path.is_file() and path != _LIST
    }
    assert found == _listed()


def test_every_vendored_package_has_its_licence_beside_it() -> None:
    """As each of them asks."""
    for one in tomllib.loads(_LIST.read_text(encoding="utf-8"))["package"]:
        assert one["licence"] in _LICENCES
        assert "ermission" in (_VENDOR / one["licence_file"]).read_text(encoding="utf-8")
        assert one["version"].count(".") == 2


def test_templates_hold_no_script_no_style_and_no_text_that_is_not_escaped() -> None:
    """The policy of the pages forbids the first two, and the third would need it."""
    for path in sorted((FOLDER / "templates").rglob("*.html")):
        text = path.read_text(encoding="utf-8")
        for refused in (
            "|safe",
            "| safe",
            "Markup",
            "autoescape",
            " style=",
            "<style",
            "onclick",
            "javascript:",
            "hx-on",
        ):
            assert refused not in text, (path.name, refused)
        for tag in text.split("<script")[1:]:
            assert tag.startswith(' src="{{ root }}/static/'), path.name
            assert tag.partition(">")[2].startswith("</script>"), path.name


def test_every_file_that_a_page_names_is_there() -> None:
    """And none of ours is left over."""
    named: set[str] = set()
    for path in (FOLDER / "templates").rglob("*.html"):
        named |= {part.split('"')[0] for part in path.read_text(encoding="utf-8").split('"{{ root }}/static/')[1:]}
    ours = {
        path.relative_to(FOLDER / "static").as_posix()
        for path in (FOLDER / "static").rglob("*")
        if path.is_file() and "licences" not in path.parts and path.suffix != ".toml"
    }
    assert named == ours


def test_no_own_script_makes_html_of_a_text() -> None:
    """Texts are set as texts."""
    for path in (FOLDER / "static").glob("*.js"):
        code = Path(path).read_text(encoding="utf-8")
        for refused in ("innerHTML =", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"):
            assert refused not in code, (path.name, refused)
