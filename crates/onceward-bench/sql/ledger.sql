WITH batch AS (SELECT lpad(to_hex((extract(epoch FROM clock_timestamp()) * 1000000)::bigint), 14, '0') || '-' || :client_id AS name),
    wanted AS (SELECT name || '-' || lpad(n::text, 3, '0') AS id FROM batch, generate_series(1, {rows}) AS n),
    made AS (INSERT INTO onceward.operation ({columns}) SELECT {claimed} FROM wanted RETURNING operation_id),
    entries AS (INSERT INTO onceward.journal (tenant, operation_id, seq, at, actor, event, detail, salt, commitment, hash)
        SELECT 'pgbench', operation_id, e.* FROM made, (VALUES {first}) AS e)
    SELECT name AS id FROM batch \gset
BEGIN;
SELECT * FROM onceward.operation WHERE tenant = 'pgbench'
    AND operation_id = ANY(ARRAY(SELECT CAST(:id AS text) || '-' || lpad(n::text, 3, '0') FROM generate_series(1, {rows}) AS n))
    ORDER BY operation_id FOR UPDATE;
WITH changed AS (UPDATE onceward.operation SET {settled} WHERE tenant = 'pgbench' AND journal_hash = {before}
        AND operation_id = ANY(ARRAY(SELECT CAST(:id AS text) || '-' || lpad(n::text, 3, '0') FROM generate_series(1, {rows}) AS n))
        RETURNING operation_id),
    entries AS (INSERT INTO onceward.journal (tenant, operation_id, seq, at, actor, event, detail, salt, commitment, hash)
        SELECT 'pgbench', operation_id, e.* FROM changed, (VALUES {last}) AS e)
    SELECT count(*) FROM changed;
COMMIT;
