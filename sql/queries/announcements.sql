-- The announcement is sent after COMMIT in the same message, as a transaction of its own that holds no lock of memory.
-- Whoever listens to the bucket holds its lock, so where nobody does nothing is sent. A notification takes a lock of the
-- whole database until its transaction has ended, which waits for no disk here. A queue that somebody has kept from being
-- read for very long is not filled up: then only the subscribers' own looking finds what is new. This stands outside the
-- statement because each write sends it.

-- name: announce
SELECT CASE
    WHEN pg_try_advisory_xact_lock({space}, {bucket}) THEN NULL
    WHEN pg_notification_queue_usage() > 0.5 THEN NULL
    ELSE set_config('synchronous_commit', 'off', true) || pg_notify('{channel}', '{name}')::text
END;

-- name: notify
-- Whether notifications pass is found out by sending one.
SELECT pg_notify($(channel)p, $(payload)p)::text;

-- name: listen
LISTEN {channel};

-- name: unlisten
UNLISTEN {channel};

-- name: be_present
-- Held by the connection that listens for as long as it does.
SELECT pg_advisory_lock_shared({space}, {bucket});

-- name: be_absent
SELECT pg_advisory_unlock_shared({space}, {bucket});
