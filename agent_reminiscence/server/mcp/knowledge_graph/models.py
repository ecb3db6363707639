"""What the tools of a knowledge graph take and return; as in MCP's reference server, unknown fields are ignored."""

from __future__ import annotations

from typing import ClassVar

from pydantic import BaseModel, ConfigDict, Field


class _Shape(BaseModel):
    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, validate_by_name=True, extra="ignore")


class Entity(_Shape):
    """An entity."""

    name: str = Field(description="The name of the entity")
    entity_type: str = Field(alias="entityType", description="The type of the entity")
    observations: list[str] = Field(description="An array of observation contents associated with the entity")


class Relation(_Shape):
    """A relation between two names, which need not be those of entities."""

    from_: str = Field(alias="from", description="The name of the entity where the relation starts")
    to: str = Field(description="The name of the entity where the relation ends")
    relation_type: str = Field(alias="relationType", description="The type of the relation")


class Addition(_Shape):
    """Observations to add to an entity."""

    entity_name: str = Field(alias="entityName", description="The name of the entity to add the observations to")
    contents: list[str] = Field(description="An array of observation contents to add")


class Added(_Shape):
    """What was added to an entity."""

    entity_name: str = Field(alias="entityName")
    added_observations: list[str] = Field(alias="addedObservations")


class Deletion(_Shape):
    """Observations to take from an entity."""

    entity_name: str = Field(alias="entityName", description="The name of the entity containing the observations")
    observations: list[str] = Field(description="An array of observations to delete")


class Graph(_Shape):
    """Entities and relations, each in the order in which they were created."""

    entities: list[Entity]
    relations: list[Relation]


class CreateEntities(_Shape):
    """Arguments of `create_entities`, and its result."""

    entities: list[Entity]


class CreateRelations(_Shape):
    """Arguments of `create_relations`, and its result."""

    relations: list[Relation]


class AddObservations(_Shape):
    """Arguments of `add_observations`."""

    observations: list[Addition]


class AddedObservations(_Shape):
    """The result of `add_observations`."""

    results: list[Added]


class DeleteEntities(_Shape):
    """Arguments of `delete_entities`."""

    entity_names: list[str] = Field(alias="entityNames", description="An array of entity names to delete")


class DeleteObservations(_Shape):
    """Arguments of `delete_observations`."""

    deletions: list[Deletion]


class DeleteRelations(_Shape):
    """Arguments of `delete_relations`."""

    relations: list[Relation] = Field(description="An array of relations to delete")


class Done(_Shape):
    """The result of a deletion."""

    success: bool
    message: str


class ReadGraph(_Shape):
    """Arguments of `read_graph`: none."""


class SearchNodes(_Shape):
    """Arguments of `search_nodes`."""

    query: str = Field(description="The search query to match against entity names, types, and observation content")


class OpenNodes(_Shape):
    """Arguments of `open_nodes`."""

    names: list[str] = Field(description="An array of entity names to retrieve")
