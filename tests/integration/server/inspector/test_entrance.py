"""Signing in and out, and whose memory is shown."""

from __future__ import annotations

from urllib.parse import quote, unquote

import httpx
import pytest

from agent_reminiscence import AgentMem
from agent_reminiscence.server import create_app
from agent_reminiscence.server.access.grants import Grant
from agent_reminiscence.server.problems import ProblemError
from tests.integration.server.inspector.conftest import TOKEN, SignedIn
from tests.support.browsing import read
from tests.support.inspected import MILL
from tests.support.serving import serve


async def test_the_printed_address_signs_in_and_is_left_at_once(signed_in: SignedIn) -> None:
    """The token is in a cookie that no script reads, and no longer in the address."""
    async with signed_in(None) as client:
        answer = await client.get(f"/sign-in?token={TOKEN}")
        assert answer.status_code == 303
        assert answer.headers["location"] == "/"
        cookie = next(
            one for one in answer.headers.get_list("set-cookie") if one.startswith("reminiscence_credential=")
        )
        assert {"HttpOnly", "SameSite=strict", "Path=/"} <= {part.strip() for part in cookie.split(";")}
        assert "Secure" not in cookie
        assert answer.headers["referrer-policy"] == "same-origin"
        assert (await client.get("/tenants")).status_code == 200


async def test_over_https_the_cookie_is_for_https_only(signed_in: SignedIn) -> None:
    """A proxy says how it was asked."""
    async with signed_in(None) as client:
        answer = await client.post("/sign-in", data={"token": "reader"}, headers={"X-Forwarded-Proto": "https"})
        assert "Secure" in answer.headers["set-cookie"]


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
async def test_no_other_page_signs_somebody_in(signed_in: SignedIn, site: str) -> None:
    """A link elsewhere must not put a reader into somebody else's memory."""
    async with signed_in(None) as client:
        answer = await client.get(f"/sign-in?token={TOKEN}", headers={"Sec-Fetch-Site": site})
        assert answer.status_code == 200
        assert "set-cookie" not in answer.headers
        assert TOKEN not in answer.text


@pytest.mark.parametrize("token", ["", "wrong", "reader2", "ключ", "x" * 5_000])
async def test_a_wrong_key_is_told_so_and_kept_nowhere(signed_in: SignedIn, token: str) -> None:
    """The form comes back, without what was typed."""
    async with signed_in(None) as client:
        for answer in (
            await client.post("/sign-in", data={"token": token}),
            await client.get(f"/sign-in?token={quote(token or 'none')}"),
        ):
            assert answer.status_code == 403
            assert "set-cookie" not in answer.headers
            assert "no valid key" in read(answer).text
            assert not token or token not in answer.text


async def test_wrong_keys_are_not_tried_without_end(signed_in: SignedIn) -> None:
    """After ten the form says how long to wait, and looks at no key until then, not even at a good one."""
    async with signed_in(None) as client:
        for number in range(10):
            assert (await client.post("/sign-in", data={"token": f"wrong-{number}"})).status_code == 403
        for answer in (
            await client.post("/sign-in", data={"token": "reader"}),
            await client.get("/sign-in?token=reader"),
        ):
            assert answer.status_code == 429
            assert 1 <= int(answer.headers["retry-after"]) <= 6
            assert "set-cookie" not in answer.headers
            assert "Too many wrong keys" in read(answer).text


async def test_a_key_that_cannot_be_checked_is_said_on_the_form(unopened: AgentMem) -> None:
    """Not as JSON; and it is not counted as wrong."""
    away = _Away()
    headers = {"Accept": "text/html", "Sec-Fetch-Site": "same-origin"}
    async with serve(create_app(unopened, away)) as served, served.with_token(None, headers) as client:
        for _ in range(11):
            answer = await client.post("/sign-in", data={"token": "reader"})
            assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        assert "the issuer is away." in read(answer).text


class _Away:
    async def authenticate(self, secret: str) -> Grant | None:
        raise ProblemError(503, "unavailable", "the issuer is away", headers={"Retry-After": "1"})


async def test_a_form_of_another_kind_is_refused(signed_in: SignedIn) -> None:
    """A page of ours sends no other."""
    async with signed_in(None) as client:
        answer = await client.post("/sign-in", json={"token": "reader"})
        assert answer.status_code == 400


async def test_whoever_has_not_signed_in_is_led_to_the_form_and_back(signed_in: SignedIn) -> None:
    """A browser gets the form; a program an error that it can read."""
    async with signed_in(None) as client:
        answer = await client.get("/memories?order=oldest&key_prefix=a%2Fb")
        assert answer.status_code == 303
        assert (
            answer.headers["location"] == f"/sign-in?next={quote('/memories?order=oldest&key_prefix=a%2Fb', safe='')}"
        )
        back = unquote(answer.headers["location"].partition("next=")[2])
        entered = await client.post("/sign-in", data={"token": "reader", "next": back})
        assert entered.headers["location"] == back
        assert (await client.get(back)).status_code == 200

    async with signed_in(None) as client:
        program = await client.get("/memories", headers={"Accept": "application/json"})
        assert program.status_code == 401
        assert program.headers["content-type"] == "application/problem+json"
        assert (await client.get("/v1/memories")).status_code == 401
        part = await client.get("/memories", headers={"HX-Request": "true"})
        assert (part.status_code, part.headers["hx-redirect"]) == (401, "/sign-in")
        sent = await client.post("/ledger/verify", data={})
        assert (sent.status_code, sent.headers["location"]) == (303, "/sign-in")


@pytest.mark.parametrize(
    "elsewhere",
    [
        "https://example.org/",
        "//example.org/",
        "/\\example.org",
        "javascript:alert(1)",
        "/x\r\nSet-Cookie: a=b",
        "/sign-out",
    ],
)
async def test_the_form_leads_to_no_other_server(signed_in: SignedIn, elsewhere: str) -> None:
    """Only to a page of ours."""
    async with signed_in(None) as client:
        answer = await client.post("/sign-in", data={"token": "reader", "next": elsewhere})
        assert answer.headers["location"] == "/"


async def test_signing_out_forgets_the_key(signed_in: SignedIn) -> None:
    """The next page asks for it."""
    async with signed_in("reader") as client:
        assert (await client.get("/")).status_code == 200
        assert (await client.post("/sign-out", data={})).headers["location"] == "/sign-in"
        assert (await client.get("/")).status_code == 303


async def test_files_and_the_form_need_no_key(signed_in: SignedIn) -> None:
    """They reveal nothing; and no path leads out of their folder."""
    async with signed_in(None) as client:
        for path in ("/static/inspector.css", "/static/vendor/htmx.min.js", "/static/icon.svg", "/sign-in"):
            answer = await client.get(path)
            assert answer.status_code == 200, path
        assert not read(await client.get("/sign-in")).faults
        for path in ("/static/../rendering.py", "/static/%2e%2e/rendering.py", "/static/..%2frendering.py", "/static/"):
            assert (await client.send(client.build_request("GET", path))).status_code in {303, 404}, path


async def test_a_delegate_chooses_whose_memory_to_see(unopened: AgentMem, signed_in: SignedIn) -> None:
    """Until then each page asks; the choice is kept, and ends with the credential."""
    async with signed_in(TOKEN) as client:
        asked = await client.get("/memories?order=oldest")
        assert asked.headers["location"] == f"/tenants?next={quote('/memories?order=oldest', safe='')}"
        await unopened.create_active_memory("zöe, the miller", "Rye", "Ten sacks.", language="en")
        chosen = await client.post(
            "/tenants", data={"external_id": "zöe, the miller", "next": "/memories?order=oldest"}
        )
        assert chosen.headers["location"] == "/memories?order=oldest"
        assert "Rye" in read(await client.get("/memories")).text
        refused = await client.post("/tenants", data={"external_id": ""})
        assert refused.status_code == 400
        too_long = await client.post("/tenants", data={"external_id": "x" * 257})
        assert too_long.status_code == 400
        await client.post("/sign-in", data={"token": TOKEN})
        assert (await client.get("/memories")).status_code == 303


async def test_a_key_for_one_tenant_sees_no_other(unopened: AgentMem, signed_in: SignedIn) -> None:
    """Whatever its cookies say."""
    async with signed_in("neighbour") as client:
        await unopened.create_active_memory(MILL, "Rye", "Ten sacks.", language="en")
        assert (await client.get("/tenants")).headers["location"] == "/"
        assert (await client.post("/tenants", data={"external_id": MILL})).headers["location"] == "/"
        client.cookies.set("reminiscence_external_id", MILL)
        answer = await client.get("/memories")
        assert answer.status_code == 200
        assert "Rye" not in answer.text
        assert "neighbour" in read(answer).text


@pytest.mark.thorough
async def test_a_key_without_the_scope_to_read_sees_nothing(unopened: AgentMem, signed_in: SignedIn) -> None:
    """As a page that says what is missing."""
    async with signed_in("blind") as client:
        await unopened.create_active_memory(MILL, "Rye", "Ten sacks.", language="en")
        for path in ("/", "/memories", "/ask?q=rye", "/time", "/graph", "/ledger", "/views", "/runs", "/growth.json"):
            answer: httpx.Response = await client.get(path)
            assert answer.status_code == 403, path
            assert "memory:read" in answer.text
            assert "Rye" not in answer.text
