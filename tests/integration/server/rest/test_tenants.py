"""The list of tenants is for whoever runs the server, and for no tenant."""

from __future__ import annotations

import httpx

from agent_reminiscence import AgentMem
from agent_reminiscence.server.access.grants import Scope
from tests.support.rest import TENANT_SCOPES, Credentials, Rest, grant, kind_of, serve_rest


async def test_a_key_of_the_whole_server_lists_all_tenants(rest: Rest) -> None:
    """Page by page, each with what is known of it without reading its memories."""
    for name in ("ida", "joe", "kim"):
        await rest.remember("The key is under the mat.", external_id=name)
    async with rest.served.with_token("backend") as client:
        whole = (await client.get("/v1/tenants")).json()
        first = (await client.get("/v1/tenants?limit=2")).json()
        second = (await client.get("/v1/tenants", params={"limit": 2, "after": first["next"]})).json()

    assert whole == {"tenants": first["tenants"] + second["tenants"], "next": None}
    assert whole["tenants"] == [one.model_dump(mode="json") for one in await rest.memory.admin.tenants()]
    assert [one["external_id"] for one in whole["tenants"]] == ["ida", "joe", "kim"]
    assert (first["next"], second["next"]) == ("joe", None)


async def test_no_credential_of_a_tenant_lists_them(unopened: AgentMem) -> None:
    """Whatever scopes it has; nor does a backend's without the scope admin. Nothing in the answer names anybody."""
    credentials = Credentials(
        {
            "ida": grant("ida"),
            "joe": grant("joe"),
            "all-scopes": grant("ida", *TENANT_SCOPES, Scope.DELEGATE),
            "delegate": grant(None, Scope.READ, Scope.WRITE, Scope.DELEGATE),
        }
    )
    async with serve_rest(unopened, credentials=credentials) as rest:
        await rest.remember("The key is under the mat.", external_id="joe")
        for secret in ("ida", "all-scopes", "delegate"):
            async with rest.served.with_token(secret) as client:
                refused = await client.get("/v1/tenants")
            assert (refused.status_code, kind_of(refused)) == (403, "forbidden"), secret
            assert "joe" not in refused.text


async def test_a_request_for_one_tenant_is_no_request_for_all(rest: Rest) -> None:
    """A header without effect would let a backend believe that the list is narrowed."""
    async with rest.served.with_token("backend", {"X-External-Id": "ida"}) as client:
        refused = await client.get("/v1/tenants")

    assert (refused.status_code, kind_of(refused)) == (400, "tenant-unsupported")


async def test_the_document_says_whose_operation_it_is(rest: Rest) -> None:
    """Programs that are generated from it send no header that is refused."""
    document = (await rest.client.get("/v1/openapi.json")).json()

    [operation] = document["paths"]["/v1/tenants"].values()
    assert operation["x-whole-server"] is True
    assert operation["security"] == [{"bearer": ["memory:admin"]}]
    assert {"$ref": "#/components/parameters/ExternalId"} not in operation["parameters"]
    assert "`tenant-unsupported`" in operation["responses"]["400"]["description"]
    assert "`tenant-missing`" not in operation["responses"]["400"]["description"]


async def test_a_wrong_page_is_refused(rest: Rest) -> None:
    """As everywhere."""
    async with rest.served.with_token("backend") as client:
        answers: list[httpx.Response] = [
            await client.get(f"/v1/tenants?{query}") for query in ("limit=0", "limit=501", "after=", "before=ida")
        ]
    assert [(one.status_code, kind_of(one)) for one in answers] == [(422, "invalid-input")] * 4
