"""Schemas as models read them: every word costs tokens in every conversation."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema


def lean_schema(model: type[BaseModel]) -> dict[str, Any]:
    """The schema of a model without what costs tokens and says nothing.

    That is titles, the docstrings of our classes, that a text or a list is not empty, and that what is optional may be
    null. What is empty is refused, and what is null accepted, all the same.
    """
    return model.model_json_schema(schema_generator=_LeanSchema)


class _LeanSchema(GenerateJsonSchema):
    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        written = super().model_schema(schema)
        written.pop("title", None)
        written.pop("description", None)
        return written

    def str_schema(self, schema: core_schema.StringSchema) -> JsonSchemaValue:
        return _without_least(super().str_schema(schema), "minLength")

    def list_schema(self, schema: core_schema.ListSchema) -> JsonSchemaValue:
        return _without_least(super().list_schema(schema), "minItems")

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        written = super().default_schema(schema)
        if written.get("default", ...) is None:
            del written["default"]
        return written


def _without_least(written: JsonSchemaValue, name: str) -> JsonSchemaValue:
    if written.get(name) == 1:
        del written[name]
    return written
