-- name: add_attributes
INSERT INTO memory_attribute (external_id, path, value, item_id)
SELECT $(external_id)p, given.path, given.value, given.item_id
FROM unnest($(paths)p::text[], $(values)p::text[], $(item_ids)p::uuid[]) AS given (path, value, item_id);

-- name: replace_attributes
-- Gives some memories or chunks these attributes and no others, or none but these at some paths; what stays the same is
-- not touched.
WITH given AS MATERIALIZED (
    SELECT path, value, item_id
    FROM unnest($(paths)p::text[], $(values)p::text[], $(item_ids)p::uuid[]) AS a (path, value, item_id)
), stored AS MATERIALIZED (
    SELECT attribute.path, attribute.value, attribute.item_id
    FROM unnest($(replaced)p::uuid[]) AS item (id)
    CROSS JOIN LATERAL (
        SELECT path, value, item_id FROM memory_attribute WHERE external_id = $(external_id)p AND item_id = item.id OFFSET 0
    ) AS attribute
    WHERE $(replaced_paths)p::text[] IS NULL OR attribute.path = ANY($(replaced_paths)p::text[])
), gone AS (
    DELETE FROM memory_attribute AS a
    USING (SELECT * FROM stored EXCEPT SELECT * FROM given) AS former
    WHERE a.external_id = $(external_id)p AND a.path = former.path AND a.value = former.value AND a.item_id = former.item_id
        -- Known before the join: a plan made for a small table compared all of the tenant's.
        AND a.item_id = ANY($(replaced)p::uuid[])
)
INSERT INTO memory_attribute (external_id, path, value, item_id)
SELECT $(external_id)p, added.path, added.value, added.item_id
FROM (SELECT * FROM given EXCEPT SELECT * FROM stored) AS added;
