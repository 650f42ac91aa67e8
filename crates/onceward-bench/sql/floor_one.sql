INSERT INTO bench.operation (tenant, operation_id, state, arguments)
    SELECT 'bench', lpad(to_hex((extract(epoch FROM clock_timestamp()) * 1000000)::bigint), 14, '0') || '-' || :client_id, 'pending', '{arguments}'
    RETURNING operation_id AS id \gset
UPDATE bench.operation SET state = 'succeeded', receipt = '{receipt}' WHERE tenant = 'bench' AND operation_id = :id;
