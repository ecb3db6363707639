-- name: read_backend
-- Which process of the server answers. With a parameter, so that the driver prepares it.
SELECT pg_backend_pid() AS pid, $(number)p::int AS number;
