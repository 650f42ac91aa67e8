WITH batch AS (SELECT lpad(to_hex((extract(epoch FROM clock_timestamp()) * 1000000)::bigint), 14, '0') || '-' || :client_id AS name),
    made AS (INSERT INTO bench.operation (tenant, operation_id, state, arguments)
        SELECT 'bench', name || '-' || lpad(n::text, 3, '0'), 'pending', '{arguments}'
        FROM batch, generate_series(1, {rows}) AS n)
    SELECT name AS id FROM batch \gset
UPDATE bench.operation SET state = 'succeeded', receipt = '{receipt}' WHERE tenant = 'bench'
    AND operation_id = ANY(ARRAY(SELECT CAST(:id AS text) || '-' || lpad(n::text, 3, '0') FROM generate_series(1, {rows}) AS n));
