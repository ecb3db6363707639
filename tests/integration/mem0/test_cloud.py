"""mem0's hosted service: what is checked before anything is sent there, and what the errors do not say."""

from __future__ import annotations

import subprocess
import sys
import warnings
from typing import Any

import pytest
from pydantic import SecretStr

from agent_reminiscence.exceptions import ConfigurationError, StoreError
from agent_reminiscence.integrations import Mem0CloudIndex, memory_index_from_env
from tests.support.command_line import CHECKOUT, clean_environment
from tests.support.ledger_events import make_event
from tests.support.mem0_fixtures import Mem0Backends

MILL = make_event(1, "the miller hides a key under the wheel", kind="clue.found")


def open_index(*arguments: Any, **settings: Any) -> Mem0CloudIndex:
    """An index, without what is said once."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return Mem0CloudIndex(*arguments, **settings)


async def test_a_write_is_found_once_it_has_been_worked_off(mem0_backends: Mem0Backends) -> None:
    """Until then it is not there, and it is not sent twice."""
    hosted, url = mem0_backends.hosted(pending=4)
    with open_index(hosted.key, url, external_id="village") as index:
        await index.index((MILL,))
        await index.index((MILL,))
        assert await index.search("where is the key?", 3) == []
        for _ in range(4):
            found = await index.search("where is the key?", 3)
        assert found == [MILL]

    [sent] = [body for method, path, body in hosted.requests if path == "/v3/memories/add/"]
    assert (sent["infer"], sent["messages"]) == (
        False,
        [{"role": "user", "content": "the miller hides a key under the wheel"}],
    )
    assert sent["metadata"].keys() == {"event_id", "event"}
    assert "village" not in sent["run_id"]
    searches = [body for _, path, body in hosted.requests if path == "/v3/memories/search/"]
    assert {body["threshold"] for body in searches} == {0.0}


async def test_an_event_that_two_processes_sent_is_found_once(mem0_backends: Mem0Backends) -> None:
    """Neither could see the other's, which was pending."""
    hosted, url = mem0_backends.hosted(pending=8)
    with open_index(hosted.key, url) as one, open_index(hosted.key, url) as other:
        await one.index((MILL,))
        await other.index((MILL, make_event(2, "the key is lost")))
        for _ in range(9):
            found = await one.search("where is the key?", 2)
        assert len(hosted.rows) == 3
        assert sorted(event.position for event in found) == [1, 2]
        assert await one.delete([MILL.event_id]) == 1
        assert len(hosted.rows) == 1


async def test_more_than_the_service_returns_is_not_asked_for(mem0_backends: Mem0Backends) -> None:
    """It refuses more than 1000."""
    hosted, url = mem0_backends.hosted(pending=0)
    with open_index(hosted.key, url) as index:
        await index.index((MILL,))
        assert await index.search("key", 5_000) == [MILL]


@pytest.mark.parametrize("key", ["m0-wrong", SecretStr("m0-wrong")])
def test_a_refused_key_is_not_quoted(mem0_backends: Mem0Backends, key: str | SecretStr) -> None:
    """Although the service quotes it."""
    _, url = mem0_backends.hosted()
    with pytest.raises(ConfigurationError, match=r"refuses the key \(401\); check MEM0_API_KEY") as refused:
        open_index(key, url)
    assert "m0-wrong" not in str(refused.value)
    assert refused.value.__cause__ is None


@pytest.mark.parametrize("key", ["m0-wr\nong", "m0-schlüssel", "m0 wrong"])
def test_what_can_be_no_key_is_not_sent(mem0_backends: Mem0Backends, key: str) -> None:
    """The HTTP client's error would quote it."""
    hosted, url = mem0_backends.hosted()
    with pytest.raises(ConfigurationError, match="a character that no key has") as refused:
        open_index(key, url)
    assert key not in str(refused.value)
    assert hosted.requests == []


@pytest.mark.parametrize(("setting", "right"), [("org_id", "org-1"), ("project_id", "project-1")])
def test_a_key_of_another_project_is_refused(mem0_backends: Mem0Backends, setting: str, right: str) -> None:
    """What the service says of the key is compared before anything is written."""
    hosted, url = mem0_backends.hosted()
    open_index(hosted.key, url, **{setting: right}).close()
    complaint = rf"\(MEM0_{setting.upper()}\) is 'other', but the key belongs to '{right}'"
    with pytest.raises(ConfigurationError, match=complaint):
        open_index(hosted.key, url, **{setting: "other"})
    assert {path for _, path, _ in hosted.requests} == {"/v1/ping/"}


def test_a_service_that_is_away(mem0_backends: Mem0Backends) -> None:
    """Trying again may help, so it is no configuration error."""
    with pytest.raises(StoreError, match=r"at http://127\.0\.0\.1:9 cannot be reached: ConnectError"):
        open_index("m0-a-key", "http://127.0.0.1:9")
    with pytest.raises(ConfigurationError, match="must begin with https://"):
        open_index("m0-a-key", "api.mem0.ai")
    with pytest.raises(ConfigurationError, match="has a login in it") as refused:
        open_index("m0-a-key", "https://ana:hunter2@api.mem0.ai")
    assert "hunter2" not in str(refused.value)


async def test_an_index_from_the_environment(mem0_backends: Mem0Backends, monkeypatch: pytest.MonkeyPatch) -> None:
    """All five variables."""
    hosted, url = mem0_backends.hosted(pending=0)
    for name, value in {
        "MEMORY_INDEX": "1",
        "MEMORY_INDEX_BACKEND": "cloud",
        "MEM0_API_KEY": hosted.key,
        "MEM0_HOST": f"{url}/",
        "MEM0_ORG_ID": "org-1",
        "MEM0_PROJECT_ID": "project-2",
    }.items():
        monkeypatch.setenv(name, value)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        with pytest.raises(ConfigurationError, match="MEM0_PROJECT_ID"):
            memory_index_from_env("village")
        monkeypatch.setenv("MEM0_PROJECT_ID", "project-1")
        index = memory_index_from_env("village")
    assert isinstance(index, Mem0CloudIndex)
    async with index:
        await index.index((MILL,))
        assert await index.search("where is the key?") == [MILL]


async def test_an_error_of_the_service_quotes_nothing(mem0_backends: Mem0Backends) -> None:
    """A key that was withdrawn meanwhile."""
    hosted, url = mem0_backends.hosted()
    with open_index(hosted.key, url, external_id="village") as index:
        hosted.key = "m0-another"
        with pytest.raises(StoreError, match="failed: AuthenticationError") as failed:
            await index.index((MILL,))
    assert "miller" not in str(failed.value)


def test_that_texts_leave_the_machine_is_said_once(mem0_backends: Mem0Backends) -> None:
    """On standard error, where somebody sees it who has set up nothing."""
    hosted, url = mem0_backends.hosted()
    program = f"""
from agent_reminiscence.integrations import Mem0CloudIndex
for _ in range(3):
    Mem0CloudIndex({hosted.key!r}, {url!r}).close()
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=clean_environment() | {"NO_PROXY": "127.0.0.1"},
        cwd=CHECKOUT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("UserWarning: whole events and questions are sent to http://127.0.0.1") == 1
    assert hosted.key not in done.stderr
