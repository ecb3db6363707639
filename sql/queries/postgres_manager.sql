-- name: list_extension_schemas
-- Where the extension is, which need not be `public`.
SELECT DISTINCT extnamespace::regnamespace::text AS name FROM pg_extension WHERE extname = 'vector' ORDER BY 1;
