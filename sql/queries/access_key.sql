-- Keys of the server. All but check_key are for the owner of the schema: nobody else has a right on the table.

-- part: columns
id, external_id, also_reads, scopes, label, requests_per_minute, requests_per_day,
    CASE WHEN counted_on = (clock_timestamp() AT TIME ZONE 'UTC')::date THEN counted ELSE 0 END AS requests_today,
    created_at, expires_at, revoked_at, last_used_at

-- name: add_key
INSERT INTO access_key (
    id, secret_hash, external_id, also_reads, scopes, label, requests_per_minute, requests_per_day, expires_at
)
VALUES (
    $(id)p, $(secret_hash)p, $(external_id)p, $(also_reads)p::text[], $(scopes)p::text[], $(label)p, $(requests_per_minute)p::int,
    $(requests_per_day)p::int, $(expires_at)p
)
RETURNING {include columns};

-- name: list_keys
SELECT {include columns}
FROM access_key
WHERE $(external_id)p::text IS NULL OR external_id = $(external_id)p::text OR $(external_id)p::text = ANY (also_reads)
ORDER BY created_at, id;

-- name: revoke_key
-- A key that is revoked again keeps the time at which it ended.
UPDATE access_key
SET revoked_at = coalesce(revoked_at, clock_timestamp())
WHERE id = $(id)p
RETURNING {include columns};

-- name: delete_keys
DELETE FROM access_key WHERE external_id = $(external_id)p RETURNING id;

-- name: stop_reading
UPDATE access_key
SET also_reads = array_remove(also_reads, $(external_id)p::text)
WHERE $(external_id)p::text = ANY (also_reads);

-- name: check_key
SELECT key_id, acts_for AS external_id, reads_beside AS also_reads, key_scopes AS scopes, rate AS requests_per_minute,
    per_day AS requests_per_day, today AS requests_today, ends_at AS expires_at
FROM check_access_key($(secret_hash)p, $(made)p::bigint);
