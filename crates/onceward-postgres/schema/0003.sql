-- The outbox in SQL: a service in any language approves an operation in its own transaction, and a dispatcher sends it once that
-- has committed. docs/outbox.md is its description.

-- Adds an entry in the caller's transaction, or says what is known of it.
CREATE FUNCTION onceward.approve_operation(
    tenant text, operation_id text, principal text, tool text, tool_version text, arguments text,
    lane text DEFAULT NULL, deadline timestamptz DEFAULT NULL, title text DEFAULT NULL,
    fingerprint bytea DEFAULT NULL, fingerprint_key bigint DEFAULT 0,
    OUT verdict text, OUT state text, OUT made_with_version text, OUT made_with_key bigint
) LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    known     onceward.operation%ROWTYPE;
    canonical text;
    own       bytea;
    at        bigint := onceward.now_micros();
    head      bytea;
    made      bigint;
BEGIN
    PERFORM onceward.check_name('tenant', tenant, 128);
    PERFORM onceward.check_name('operation id', operation_id, 255);
    PERFORM onceward.check_name('principal', principal, 128);
    PERFORM onceward.check_name('tool', tool, 128);
    PERFORM onceward.check_name('tool version', tool_version, 128);
    IF lane IS NOT NULL THEN
        PERFORM onceward.check_name('lane', lane, 128);
    END IF;
    canonical := onceward.canonical(arguments);
    IF fingerprint_key NOT BETWEEN 0 AND 4294967295 OR (fingerprint IS NULL AND fingerprint_key <> 0) THEN
        RAISE EXCEPTION 'a fingerprint under key % must be given', fingerprint_key USING ERRCODE = '22023';
    END IF;
    IF fingerprint_key = 0 THEN
        own := onceward.fingerprint(tool, tool_version, canonical);
        IF fingerprint <> own THEN
            RAISE EXCEPTION 'the fingerprint is not the one of these arguments' USING ERRCODE = '22023',
                HINT = 'Check the helper against the vectors, or leave the fingerprint out.';
        END IF;
        fingerprint := own;
    END IF;
    IF length(fingerprint) <> 32 THEN
        RAISE EXCEPTION 'a fingerprint has 32 bytes' USING ERRCODE = '22023';
    END IF;

    SELECT o.* INTO known FROM onceward.operation o
        WHERE o.tenant = approve_operation.tenant AND o.operation_id = approve_operation.operation_id;
    IF NOT FOUND THEN
        IF NOT onceward.survives_restores(operation_id, at) THEN
            -- It may have been sent before the restore, and be forgotten. Nothing is written.
            verdict := 'unknown';
            RETURN;
        END IF;
        -- Waits for whoever adds this key, until their transaction ends. A trigger gives it its place in the lane.
        INSERT INTO onceward.operation (tenant, operation_id, ordinal, tool, fingerprint, fingerprint_key, state, dispatch, lane,
                attempt, deadline_at, created_at, updated_at, journal_seq, journal_hash, body, progress)
            VALUES (tenant, operation_id, at * 4096 + floor(random() * 4096)::bigint, tool, fingerprint, fingerprint_key,
                'approved', 'auto', lane, 0, (extract(epoch FROM deadline) * 1000000)::bigint, at, at, 1, sha256(''),
                '\x0100'::bytea || convert_to(format('{"tool_version":%s,"arguments":{"present":%s},"principal":%s,"title":%s}',
                    to_json(tool_version), canonical, to_json(principal), coalesce(to_json(title)::text, 'null')), 'UTF8'),
                '\x0100'::bytea || convert_to('{"state":{"approved":{"hold":null}},"history":{"attempts":0,"generation":1,'
                    '"disproved":[],"never_left":0,"disagreement":null,"erasure":null}}', 'UTF8'))
            ON CONFLICT ON CONSTRAINT operation_pkey DO NOTHING;
        GET DIAGNOSTICS made = ROW_COUNT;
        IF made = 1 THEN
            head := onceward.journal_append(tenant, operation_id, 1, decode(repeat('00', 32), 'hex'), at,
                'principal:' || principal, 'open',
                format('{"fingerprint":"%s","state":"approved","title":%s,"tool":%s,"tool_version":%s}',
                    encode(fingerprint, 'hex'), coalesce(to_json(title)::text, 'null'), to_json(tool), to_json(tool_version)));
            UPDATE onceward.operation o SET journal_hash = head
                WHERE o.tenant = approve_operation.tenant AND o.operation_id = approve_operation.operation_id;
            verdict := 'added';
            state := 'approved';
            RETURN;
        END IF;
        -- Somebody was faster, and has committed.
        SELECT o.* INTO known FROM onceward.operation o
            WHERE o.tenant = approve_operation.tenant AND o.operation_id = approve_operation.operation_id;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'operation %/% cannot be read yet', tenant, operation_id USING ERRCODE = '40001',
                HINT = 'Roll back and begin the transaction anew.';
        END IF;
    END IF;

    made_with_version := convert_from(substr(known.body, 3), 'UTF8')::json ->> 'tool_version';
    made_with_key := known.fingerprint_key;
    IF known.tool <> tool THEN
        verdict := 'conflict';
    ELSIF made_with_version <> tool_version OR made_with_key <> fingerprint_key THEN
        -- It is compared as it was made: the caller makes that fingerprint, and asks again.
        verdict := 'compare';
    ELSIF known.fingerprint <> fingerprint THEN
        verdict := 'conflict';
    ELSE
        verdict := 'existing';
        state := known.state;
    END IF;
END $$;

-- Nobody may call it to whom it is not granted: docs/outbox.md has the grants that a service needs.
REVOKE ALL ON FUNCTION onceward.approve_operation(text, text, text, text, text, text, text, timestamptz, text, bytea, bigint)
    FROM PUBLIC;
