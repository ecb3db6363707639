-- Further memories that a key may ask beside the one that it acts for, and only ask.
ALTER TABLE access_key ADD COLUMN also_reads text[] NOT NULL DEFAULT '{}';
ALTER TABLE access_key ADD CONSTRAINT access_key_also_reads_check CHECK (
    also_reads = '{}' OR external_id IS NOT NULL AND external_id <> ALL (also_reads) AND cardinality(also_reads) < 16
);
ALTER TABLE access_key ALTER COLUMN also_reads SET STATISTICS 0;

-- The function that answers for a key says so, too. What a function returns cannot be changed in place.
DROP FUNCTION check_access_key(bytea, bigint);
CREATE FUNCTION check_access_key(hash bytea, made bigint) RETURNS TABLE (
    key_id uuid, acts_for text, reads_beside text[], key_scopes text[], rate integer, per_day integer, today bigint,
    ends_at timestamptz
) LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, reminiscence, pg_temp
AS $function$
DECLARE
    held record;
    is_writable boolean := current_setting('transaction_read_only') = 'off';
    utc_day date := (clock_timestamp() AT TIME ZONE 'UTC')::date;
BEGIN
    SELECT id, external_id, also_reads, scopes, requests_per_minute, requests_per_day, expires_at, last_used_at,
        CASE WHEN counted_on = utc_day THEN counted ELSE 0 END AS counted
    INTO held
    FROM access_key
    WHERE secret_hash = hash AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > clock_timestamp());
    IF held.id IS NULL THEN
        RETURN;
    END IF;
    IF held.requests_per_day IS NOT NULL AND made > 0 AND is_writable THEN
        UPDATE access_key SET counted_on = utc_day, counted = made + CASE WHEN counted_on = utc_day THEN counted ELSE 0 END
        WHERE id = held.id
        RETURNING counted INTO held.counted;
    END IF;
    IF coalesce(held.last_used_at < clock_timestamp() - interval '1 minute', true) AND is_writable THEN
        UPDATE access_key SET last_used_at = clock_timestamp()
        WHERE id = (SELECT k.id FROM access_key AS k WHERE k.id = held.id FOR UPDATE SKIP LOCKED);
    END IF;
    RETURN QUERY SELECT held.id, held.external_id, held.also_reads, held.scopes, held.requests_per_minute,
        held.requests_per_day, held.counted, held.expires_at;
END
$function$;
REVOKE EXECUTE ON FUNCTION check_access_key(bytea, bigint) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION check_access_key(bytea, bigint) TO reminiscence_app;
