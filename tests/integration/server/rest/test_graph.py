"""The graph over HTTP."""

from __future__ import annotations

from tests.support.graph_scene import GraphScene, day
from tests.support.rest import Rest, kind_of


async def test_the_graph_is_read_from_every_side(rest: Rest) -> None:
    """Entities, what is around one, a path, a pattern, and what one memory names; at a time as well."""
    scene = GraphScene(rest.memory, "ida")
    ana, piet, mill = scene.entity("Ana Sousa"), scene.entity("Piet Bakker"), scene.entity("The Windmill", "place")
    knows = scene.relationship(ana, piet, start_date=day(0), end_date=day(10))
    owns = scene.relationship(piet, mill, "owns", start_date=day(0))
    (memory_id,) = await scene.tell(ana, piet, mill, knows, owns)
    then = day(5).isoformat()

    places = (await rest.client.get("/v1/graph/entities", params={"types": ["place", "event"]})).json()["entities"]
    named = (await rest.client.get("/v1/graph/entities", params={"name": "ana sousa"})).json()["entities"]
    alike = (await rest.client.get("/v1/graph/entities", params={"alike": "Pit Baker", "limit": 1})).json()["entities"]
    near = (await rest.client.get("/v1/graph/neighbourhood", params={"entity": "Piet Bakker"})).json()
    near_then = (await rest.client.get("/v1/graph/neighbourhood", params={"entity": str(piet), "at": then})).json()
    ends = {"from_entity": "Ana Sousa", "to_entity": str(mill)}
    path_then = (await rest.client.get("/v1/graph/path", params=ends | {"at": then})).json()["path"]
    path_now = (await rest.client.get("/v1/graph/path", params=ends)).json()
    matched = (await rest.client.post("/v1/graph/match", json={"relationship_type": "owns"})).json()["triples"]
    steps = [{"from_type": "person", "relationship_types": ["knows"]}, {"to_entity": str(mill)}]
    pattern = {"path": steps, "at": then}
    ways = (await rest.client.post("/v1/graph/match/paths", json=pattern)).json()["paths"]
    nobody = await rest.client.post("/v1/graph/match/paths", json={"path": [{"to_entity": "Nobody"}]})
    of_memory = (await rest.client.get(f"/v1/memories/{memory_id}/graph")).json()

    assert [one["name"] for one in places] == ["The Windmill"]
    assert [one["id"] for one in named] == [str(ana)]
    assert [one["id"] for one in alike] == [str(piet)]
    assert [one["id"] for one in near["relationships"]] == [str(owns)]
    assert {one["id"] for one in near_then["relationships"]} == {str(knows), str(owns)}
    assert near_then["distances"][str(ana)] == 1
    assert [one["id"] for one in path_then["entities"]] == [str(ana), str(piet), str(mill)]
    assert path_now == {"path": None}
    assert [(one["source"]["id"], one["target"]["id"]) for one in matched] == [(str(piet), str(mill))]
    assert [[one["id"] for one in way["entities"]] for way in ways] == [[str(ana), str(piet), str(mill)]]
    assert nobody.status_code == 404
    assert {one["id"] for one in of_memory["entities"]} == {str(ana), str(piet), str(mill)}


async def test_what_is_no_entity_is_said(rest: Rest) -> None:
    """An unknown one, and questions that contradict themselves."""
    unknown = await rest.client.get("/v1/graph/neighbourhood", params={"entity": "Nobody"})
    both = await rest.client.get("/v1/graph/entities", params={"name": "a", "alike": "b"})
    blank = await rest.client.get("/v1/graph/entities", params={"name": " "})
    far = await rest.client.get("/v1/graph/neighbourhood", params={"entity": "Nobody", "hops": 7})
    unsure = await rest.client.get("/v1/graph/neighbourhood", params={"entity": "Nobody", "min_confidence": "nan"})

    assert (unknown.status_code, kind_of(unknown)) == (404, "entity-not-found")
    for refused in (both, blank, far, unsure):
        assert (refused.status_code, kind_of(refused)) == (422, "invalid-input")
