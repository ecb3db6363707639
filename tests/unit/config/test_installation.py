"""Our distribution beside the other project's, which has the same import name."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import pytest

from agent_reminiscence.config.installation import install_command, installed_version
from agent_reminiscence_ledger import find_fault
from tests.support.command_line import CHECKOUT, clean_environment

_REMEDY = (
    "run `pip uninstall agent-reminiscence agent-reminiscence-ledger`, then install agent-reminiscence-ledger again"
)

OPEN = """
import asyncio, sys
from agent_reminiscence import AgentMem, Config, ConfigurationError
try:
    asyncio.run(AgentMem(Config(data_dir=sys.argv[1])).initialize())
except ConfigurationError as error:
    sys.exit(str(error))
"""
COMMAND = "import sys; from agent_reminiscence_launcher import main; sys.argv[1:] = ['doctor']; sys.exit(main())"


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder with the package, as `pip` installs it."""
    folder = tmp_path / "site"
    for name in ("agent_reminiscence", "agent_reminiscence_launcher", "agent_reminiscence_ledger", "cypher", "sql"):
        shutil.copytree(CHECKOUT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "agent_reminiscence_ledger-0.1.0.dist-info").mkdir()
    return folder


def _run(site: Path, program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program, str(site.parent / "data")],
        env=clean_environment() | {"PYTHONPATH": str(site)},
        cwd=site.parent,
        capture_output=True,
        check=False,
        text=True,
        timeout=120,
    )


def _mix_in_distribution(site: Path) -> Path:
    folder = site / "agent_reminiscence-0.1.3.dist-info"
    folder.mkdir()
    return folder


def _mix_in_file(site: Path) -> Path:
    file = site / "agent_reminiscence" / "utils" / "agent_logger.py"
    file.parent.mkdir()
    file.touch()
    return file


def test_the_distribution_has_the_name_that_the_metadata_gives_it() -> None:
    """Its version is looked up under this name; under another, spans and exports would carry none."""
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

    assert project["name"] == "agent-reminiscence-ledger"
    assert project["scripts"] == {"agent-reminiscence": "agent_reminiscence_launcher:main"}
    assert installed_version() == project["version"] == metadata.version("agent-reminiscence-ledger")


def test_nothing_is_wrong_with_the_package_alone(site: Path) -> None:
    """Neither where it is installed nor in a checkout."""
    assert find_fault(site / "agent_reminiscence") is None
    assert find_fault() is None


@pytest.mark.thorough
@pytest.mark.parametrize("mix_in", [_mix_in_distribution, _mix_in_file])
def test_a_memory_does_not_open_where_another_projects_files_are_mixed_in(
    site: Path, mix_in: Callable[[Path], Path]
) -> None:
    """Ours was installed over theirs: it would run until theirs is updated or uninstalled."""
    found = mix_in(site)

    opened, commanded = _run(site, OPEN), _run(site, COMMAND)

    expected = (
        f"files of the distribution agent-reminiscence are mixed into this package: {found}. That is another project"
        f" with the same import name, and cannot share an environment with agent-reminiscence-ledger; {_REMEDY}"
    )
    assert (opened.returncode, opened.stderr.strip()) == (1, expected)
    assert (commanded.returncode, commanded.stderr.strip()) == (2, f"agent-reminiscence: {expected}")
    assert not (site.parent / "data").exists()


def test_the_command_says_so_even_if_the_package_itself_was_replaced(site: Path) -> None:
    """Theirs was installed over ours, and does not even import: the error must not be a traceback of theirs."""
    _mix_in_distribution(site)
    (site / "agent_reminiscence" / "__init__.py").write_text("import a_module_of_theirs\n")

    commanded = _run(site, COMMAND)

    assert commanded.returncode == 2
    assert commanded.stderr.startswith("agent-reminiscence: files of the distribution agent-reminiscence are mixed")
    assert commanded.stderr.count("\n") == 1


def test_the_command_says_what_the_other_projects_uninstallation_took_with_it(site: Path) -> None:
    """`pip uninstall agent-reminiscence` deletes each file whose name both have."""
    (site / "agent_reminiscence" / "__init__.py").unlink()

    commanded = _run(site, COMMAND)

    assert commanded.returncode == 2
    assert commanded.stderr == (
        f"agent-reminiscence: {site / 'agent_reminiscence' / '__init__.py'} is missing, most likely because the"
        f" distribution agent-reminiscence, which has a file of that name, was uninstalled; {_REMEDY}\n"
    )


@pytest.mark.parametrize(
    ("origin", "command"),
    [
        (None, "pip install 'agent-reminiscence-ledger[cli]'"),
        ({"url": "file://{here}", "dir_info": {}}, "pip install '{here}[cli]'"),
        ({"url": "file://{here}", "dir_info": {"editable": True}}, "pip install -e '{here}[cli]'"),
        ({"url": "file://{here}/made%20here.whl", "archive_info": {}}, "pip install '{here}/made here.whl[cli]'"),
        ({"url": "file://{here}/gone.whl", "archive_info": {}}, "pip install 'agent-reminiscence-ledger[cli]'"),
        (
            {"url": "https://example.org/memory.git", "vcs_info": {"vcs": "git", "commit_id": "0" * 40}},
            f"pip install 'agent-reminiscence-ledger[cli] @ git+https://example.org/memory.git@{'0' * 40}'",
        ),
        (
            {
                "url": "https://example.org/memory.git",
                "subdirectory": "python",
                "vcs_info": {"vcs": "git", "requested_revision": "v1.2", "commit_id": "0" * 40},
            },
            "pip install 'agent-reminiscence-ledger[cli] @ git+https://example.org/memory.git@v1.2#subdirectory=python'",
        ),
        (
            {"url": "https://example.org/memory.whl", "archive_info": {}},
            "pip install 'agent-reminiscence-ledger[cli] @ https://example.org/memory.whl'",
        ),
    ],
    ids=[
        "an index",
        "a folder",
        "an editable folder",
        "a wheel",
        "a wheel that is gone",
        "a repository",
        "a part of a tag",
        "an address",
    ],
)
def test_an_extra_is_installed_from_where_the_package_came(
    origin: dict[str, object] | None, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name alone would find nothing, or somebody else's package, where no index has ours."""
    (tmp_path / "made here.whl").touch()
    recorded = tmp_path / "site" / "agent_reminiscence_ledger-0.1.0.dist-info"
    recorded.mkdir(parents=True)
    (recorded / "METADATA").write_text("Metadata-Version: 2.4\nName: agent-reminiscence-ledger\nVersion: 0.1.0\n")
    if origin is not None:
        text = json.dumps(origin).replace("{here}", str(tmp_path))
        (recorded / "direct_url.json").write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(str(recorded.parent))

    assert install_command("cli") == command.replace("{here}", str(tmp_path))


def test_an_extra_of_code_that_was_not_installed_comes_from_its_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    """As when a checkout is on the path."""

    def lacking(name: str) -> metadata.Distribution:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "distribution", lacking)

    assert install_command("cli") == f"pip install '{CHECKOUT}[cli]'"
