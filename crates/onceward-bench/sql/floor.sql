-- What the floor writes to: an operation by its key, and no rules.
CREATE SCHEMA bench;
CREATE TABLE bench.operation (
    tenant       text COLLATE "C" NOT NULL,
    operation_id text COLLATE "C" NOT NULL,
    state        text NOT NULL,
    arguments    text NOT NULL,
    receipt      text,
    PRIMARY KEY (tenant, operation_id)
) WITH (fillfactor = 80);
-- Some rows and their statistics, so that no plan is made for an empty table.
INSERT INTO bench.operation
    SELECT 'bench', '0-' || n, 'succeeded', '{arguments}', '{receipt}' FROM generate_series(1, 20000) AS n;
