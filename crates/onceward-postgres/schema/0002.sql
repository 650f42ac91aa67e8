-- The SQL contract: a service in any language has its effect and its receipt in one commit of its own transaction, by two
-- functions. docs/sql.md is its description. What they write is what the Rust store writes: the same rows, the same blobs, the
-- same chain of hashes. The database is UTF-8, since hashes are over UTF-8.

-- Operations that a transaction has begun and not finished. No row of it is ever committed, so nothing of it needs the log.
CREATE UNLOGGED TABLE onceward.begun (
    tenant       text   COLLATE "C" NOT NULL,
    operation_id text   COLLATE "C" NOT NULL,
    owner        text   COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant, operation_id)
);

-- Looked at when the transaction is committed: an operation that is begun and not finished keeps it from being so.
CREATE FUNCTION onceward.begun_is_finished() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM onceward.begun b WHERE b.tenant = NEW.tenant AND b.operation_id = NEW.operation_id) THEN
        RAISE EXCEPTION 'operation %/% is begun and not finished', NEW.tenant, NEW.operation_id
            USING ERRCODE = '23000', HINT = 'Call onceward.finish_operation before COMMIT, or roll back.';
    END IF;
    -- A receipt that a crash can take back is none. Asked at the end, since a transaction can change it until then.
    IF current_setting('synchronous_commit') = 'off' THEN
        RAISE EXCEPTION 'synchronous_commit is off: the receipt of operation %/% would not be on disk', NEW.tenant,
            NEW.operation_id USING ERRCODE = '55000', HINT = 'SET LOCAL synchronous_commit = on.';
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER begun_is_finished AFTER INSERT ON onceward.begun DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION onceward.begun_is_finished();

-- Microseconds since the Unix epoch, by the database's clock.
CREATE FUNCTION onceward.now_micros() RETURNS bigint LANGUAGE sql VOLATILE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
$$;

-- A number of JSON as RFC 8785 writes it: the double nearest to it, in the shortest digits that name it.
CREATE FUNCTION onceward.canonical_number(raw text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    exact    numeric := raw::numeric;
    double   float8;
    parts    text[];
    digits   text;
    point    integer;
    shorter  numeric;
    one      numeric;
    sign     text := '';
BEGIN
    -- Half of the smallest double, and below: the nearest is 0. A cast would be refused.
    IF abs(exact) <= 2.4703282292062327208e-324 THEN
        RETURN '0';
    END IF;
    IF abs(exact) >= 9007199254740992 THEN
        RAISE EXCEPTION 'number_out_of_range: a number is above 2^53 - 1' USING ERRCODE = '22023',
            HINT = 'Send it as a string.';
    END IF;
    double := exact::float8;
    IF abs(double) > 9007199254740991 THEN
        RAISE EXCEPTION 'number_out_of_range: a number is above 2^53 - 1' USING ERRCODE = '22023',
            HINT = 'Send it as a string.';
    END IF;
    IF double < 0 THEN
        sign := '-';
        double := -double;
    END IF;
    parts := regexp_match(double::text, '^(\d+)(?:\.(\d+))?(?:e([+-]\d+))?$');
    digits := parts[1] || coalesce(parts[2], '');
    point := length(parts[1]) + coalesce(parts[3]::integer, 0);
    point := point - (length(digits) - length(ltrim(digits, '0')));
    digits := rtrim(ltrim(digits, '0'), '0');
    -- PostgreSQL does not use digits that lie just between two doubles; RFC 8785 does, where rounding leads back.
    IF length(digits) >= 16 THEN
        shorter := ('0.' || digits)::numeric;
        FOREACH one IN ARRAY ARRAY[round(shorter, length(digits) - 1), trunc(shorter, length(digits) - 1)] LOOP
            IF (one::text || 'e' || point)::float8 = double THEN
                digits := rtrim(split_part(one::text, '.', 2), '0');
                EXIT;
            END IF;
        END LOOP;
    END IF;
    RETURN sign || CASE
        WHEN length(digits) <= point AND point <= 21 THEN digits || repeat('0', point - length(digits))
        WHEN 0 < point AND point <= 21 THEN left(digits, point) || '.' || substr(digits, point + 1)
        WHEN -6 < point AND point <= 0 THEN '0.' || repeat('0', -point) || digits
        ELSE left(digits, 1) || CASE WHEN length(digits) > 1 THEN '.' || substr(digits, 2) ELSE '' END
            || 'e' || CASE WHEN point > 0 THEN '+' ELSE '-' END || abs(point - 1)
    END;
END $$;

-- A value of JSON as RFC 8785 writes it; what two readers could understand differently is refused.
CREATE FUNCTION onceward.canonical_value(doc json, depth integer) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    written text;
    members bigint;
    names   bigint;
BEGIN
    IF depth > 64 AND json_typeof(doc) IN ('object', 'array') THEN
        RAISE EXCEPTION 'too_deep: more than 64 arrays and objects stand inside each other' USING ERRCODE = '22023',
            HINT = 'Flatten it.';
    END IF;
    CASE json_typeof(doc)
    WHEN 'object' THEN
        -- Members are in the order of UTF-16: what is beyond U+FFFF stands before U+E000, where surrogates are.
        SELECT count(*), count(DISTINCT m.key), '{' || coalesce(string_agg(to_json(m.key)::text || ':'
            || onceward.canonical_value(m.value, depth + 1), ','
            ORDER BY regexp_replace(m.key, '([\U00010000-\U0010FFFF])', U&'\D7FF' || '\1', 'g') COLLATE "C"), '') || '}'
            INTO members, names, written FROM json_each(doc) AS m;
        IF members <> names THEN
            RAISE EXCEPTION 'duplicate_key: a key stands twice in one object' USING ERRCODE = '22023', HINT = 'Keep one.';
        END IF;
    WHEN 'array' THEN
        SELECT '[' || coalesce(string_agg(onceward.canonical_value(e.value, depth + 1), ',' ORDER BY e.place), '') || ']'
            INTO written FROM json_array_elements(doc) WITH ORDINALITY AS e (value, place);
    WHEN 'string' THEN
        written := to_json(doc #>> '{}')::text;
    WHEN 'number' THEN
        written := onceward.canonical_number(doc #>> '{}');
    WHEN 'boolean' THEN
        written := doc #>> '{}';
    ELSE
        written := 'null';
    END CASE;
    RETURN written;
END $$;

-- Arguments in canonical form (RFC 8785). They are an object, as everywhere.
CREATE FUNCTION onceward.canonical(arguments text) RETURNS text LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp SET extra_float_digits = 1 AS $$
DECLARE
    written text;
BEGIN
    IF octet_length(arguments) > 1048576 THEN
        RAISE EXCEPTION 'too_large: the arguments have more than 1048576 bytes' USING ERRCODE = '22023',
            HINT = 'Send a reference.';
    END IF;
    IF json_typeof(arguments::json) <> 'object' THEN
        RAISE EXCEPTION 'not_an_object: the arguments are no object' USING ERRCODE = '22023',
            HINT = 'Send {} for none.';
    END IF;
    written := onceward.canonical_value(arguments::json, 1);
    IF octet_length(written) > 1048576 THEN
        RAISE EXCEPTION 'too_large: the arguments have more than 1048576 bytes in canonical form' USING ERRCODE = '22023',
            HINT = 'Send a reference.';
    END IF;
    RETURN written;
END $$;

-- The fingerprint without a key: docs/fingerprint.md says which bytes are hashed.
CREATE FUNCTION onceward.fingerprint(tool text, tool_version text, canonical text) RETURNS bytea LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT sha256(convert_to('onceward fingerprint v1', 'UTF8') || '\x00'::bytea
        || int8send(octet_length(tool)) || convert_to(tool, 'UTF8')
        || int8send(octet_length(tool_version)) || convert_to(tool_version, 'UTF8')
        || int8send(octet_length(canonical)) || convert_to(canonical, 'UTF8'))
$$;

-- Appends to the journal of one operation, and gives the hash of the new entry.
CREATE FUNCTION onceward.journal_append(
    tenant text, operation_id text, seq bigint, previous bytea, at bigint, actor text, event text, detail text
) RETURNS bytea LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    salt       bytea := uuid_send(gen_random_uuid());
    commitment bytea := sha256(convert_to('onceward journal detail v1', 'UTF8') || '\x00'::bytea || salt
                            || convert_to(detail, 'UTF8'));
    hash       bytea := sha256(convert_to('onceward journal entry v1', 'UTF8') || '\x00'::bytea || previous
                            || int4send(seq::integer) || int8send(at)
                            || int8send(octet_length(actor)) || convert_to(actor, 'UTF8')
                            || int8send(octet_length(event)) || convert_to(event, 'UTF8') || commitment);
BEGIN
    INSERT INTO onceward.journal VALUES (tenant, operation_id, seq, at, actor, event,
        '\x0100'::bytea || convert_to(detail, 'UTF8'), salt, commitment, hash);
    RETURN hash;
END $$;

-- A name: visible ASCII, not empty, not longer than it may be.
CREATE FUNCTION onceward.check_name(what text, name text, bytes_max integer) RETURNS void LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF name IS NULL OR octet_length(name) NOT BETWEEN 1 AND bytes_max OR name COLLATE "C" !~ '^[\x21-\x7e]+$' THEN
        RAISE EXCEPTION '% is not 1 to % visible ASCII characters', what, bytes_max USING ERRCODE = '22023';
    END IF;
END $$;

-- Whether nothing can have been done for an identity before the restores that are open: there is none, or the identity is a UUID
-- of version 7 that was minted later, even by a clock that is five minutes off.
CREATE FUNCTION onceward.survives_restores(operation_id text, at bigint) RETURNS boolean LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    skew_max constant bigint := 300000000;
    restored bigint;
    minted   bigint;
BEGIN
    SELECT max(r.restored_at) INTO restored FROM onceward.restore r WHERE r.closed_at IS NULL;
    IF restored IS NULL THEN
        RETURN true;
    END IF;
    IF operation_id COLLATE "C" !~ '^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$' THEN
        RETURN false;
    END IF;
    minted := ('x' || left(replace(operation_id, '-', ''), 12))::bit(48)::bigint * 1000;
    RETURN minted > restored + skew_max AND minted <= at + skew_max;
END $$;

-- Begins an operation in the caller's transaction, or says what is known of it. Only after `run` may anything be written for it;
-- then `finish_operation` must follow before COMMIT.
CREATE FUNCTION onceward.begin_operation(
    tenant text, operation_id text, principal text, tool text, tool_version text, arguments text,
    fingerprint bytea DEFAULT NULL, fingerprint_key bigint DEFAULT 0,
    OUT verdict text, OUT effect_id text, OUT status integer, OUT answer text, OUT cause text,
    OUT made_with_version text, OUT made_with_key bigint
) LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    known     onceward.operation%ROWTYPE;
    body      json;
    canonical text;
    own       bytea;
    at        bigint;
    owner     text;
    head      bytea;
    claim     text;
    made      bigint;
BEGIN
    PERFORM onceward.check_name('tenant', tenant, 128);
    PERFORM onceward.check_name('operation id', operation_id, 255);
    PERFORM onceward.check_name('principal', principal, 128);
    PERFORM onceward.check_name('tool', tool, 128);
    PERFORM onceward.check_name('tool version', tool_version, 128);
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

    -- A repetition takes no lock and writes nothing.
    SELECT o.* INTO known FROM onceward.operation o
        WHERE o.tenant = begin_operation.tenant AND o.operation_id = begin_operation.operation_id;
    IF NOT FOUND THEN
        at := onceward.now_micros();
        IF NOT onceward.survives_restores(operation_id, at) THEN
            -- It may have been done before the restore, and be forgotten. Nothing is written: it stands so until that is closed.
            verdict := 'unknown';
            cause := 'restored';
            RETURN;
        END IF;
        -- Nobody else ever sees the claim: it is finished by the commit that shows it.
        owner := 'sql:' || gen_random_uuid();
        claim := format('{"claim":{"attempt":1,"owner":"%s","basis":"no_effect_so_far","generation":1,"outbound_key":null,'
            '"send_before":%s,"settle_by":null,"dispatch":"with_claim"}}', owner, at);
        -- Waits for whoever has begun this key, until their transaction ends. Its journal follows, once the key is ours.
        INSERT INTO onceward.operation (tenant, operation_id, ordinal, tool, fingerprint, fingerprint_key, state, dispatch,
                attempt, owner, created_at, updated_at, journal_seq, journal_hash, body, progress)
            VALUES (tenant, operation_id, at * 4096 + floor(random() * 4096)::bigint, tool, fingerprint, fingerprint_key,
                'pending', 'caller', 1, owner, at, at, 2, sha256(''),
                '\x0100'::bytea || convert_to(format('{"tool_version":%s,"arguments":{"present":%s},"principal":%s}',
                    to_json(tool_version), canonical, to_json(principal)), 'UTF8'),
                '\x0100'::bytea || convert_to(format('{"state":{"pending":{"attempt":{"number":1,"owner":"%s","generation":1,'
                    '"outbound_key":null,"claimed_at":%s,"send_before":%s,"settle_by":null,"begun_at":%s,"redrive":false},'
                    '"earlier":[]}},"history":{"attempts":1,"generation":1,"disproved":[],"never_left":0,'
                    '"disagreement":null,"erasure":null}}', owner, at, at, at), 'UTF8'))
            ON CONFLICT ON CONSTRAINT operation_pkey DO NOTHING;
        GET DIAGNOSTICS made = ROW_COUNT;
        IF made = 1 THEN
            head := onceward.journal_append(tenant, operation_id, 1, decode(repeat('00', 32), 'hex'), at,
                'principal:' || principal, 'open',
                format('{"fingerprint":"%s","state":"approved","title":null,"tool":%s,"tool_version":%s}',
                    encode(fingerprint, 'hex'), to_json(tool), to_json(tool_version)));
            head := onceward.journal_append(tenant, operation_id, 2, head, at, 'principal:' || principal, 'claim', claim);
            UPDATE onceward.operation o SET journal_hash = head
                WHERE o.tenant = begin_operation.tenant AND o.operation_id = begin_operation.operation_id;
            INSERT INTO onceward.begun VALUES (tenant, operation_id, owner);
            verdict := 'run';
            RETURN;
        END IF;
        -- Somebody was faster, and has committed.
        SELECT o.* INTO known FROM onceward.operation o
            WHERE o.tenant = begin_operation.tenant AND o.operation_id = begin_operation.operation_id;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'operation %/% cannot be read yet', tenant, operation_id USING ERRCODE = '40001',
                HINT = 'Roll back and begin the transaction anew.';
        END IF;
    END IF;

    body := convert_from(substr(known.body, 3), 'UTF8')::json;
    made_with_version := body ->> 'tool_version';
    made_with_key := known.fingerprint_key;
    IF known.tool <> tool THEN
        verdict := 'conflict';
        RETURN;
    END IF;
    IF made_with_version <> tool_version OR made_with_key <> fingerprint_key THEN
        -- It is compared as it was made: the caller makes that fingerprint, and asks again.
        verdict := 'compare';
        RETURN;
    END IF;
    IF known.fingerprint <> fingerprint THEN
        verdict := 'conflict';
        RETURN;
    END IF;
    cause := known.cause;
    effect_id := known.effect_id;
    IF known.answer IS NOT NULL THEN
        body := convert_from(substr(known.answer, 3), 'UTF8')::json;
        status := (body ->> 'status')::integer;
        answer := body -> 'body' ->> 'text';
    END IF;
    verdict := CASE known.state
        WHEN 'succeeded' THEN 'replay'
        WHEN 'pending' THEN CASE
            WHEN EXISTS (SELECT 1 FROM onceward.begun b WHERE b.tenant = known.tenant AND b.operation_id = known.operation_id)
            THEN 'begun' ELSE 'in_progress' END
        WHEN 'unknown' THEN 'unknown'
        WHEN 'rejected' THEN 'rejected'
        WHEN 'closed' THEN 'closed'
        WHEN 'proposed' THEN 'approval_required'
        ELSE 'approved'
    END;
END $$;

-- Stores the receipt of an operation that this transaction has begun. The answer is kept byte for byte.
CREATE FUNCTION onceward.finish_operation(
    tenant text, operation_id text, effect_id text, answer text, status integer DEFAULT 200
) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    holder       text;
    mine         onceward.operation%ROWTYPE;
    at           bigint;
    head         bytea;
    seq          bigint := 3;
    effect       text := coalesce(to_json(effect_id)::text, 'null');
    headers      constant text := '[["content-type","application/json"]]';
    other        text;
    dispute      text := 'null';
BEGIN
    IF effect_id IS NOT NULL THEN
        PERFORM onceward.check_name('effect id', effect_id, 255);
    END IF;
    IF answer IS NULL OR status IS NULL OR status NOT BETWEEN 200 AND 299 THEN
        RAISE EXCEPTION 'a receipt has an answer, and a status from 200 to 299' USING ERRCODE = '22023';
    END IF;
    -- Refused where it is no JSON.
    PERFORM answer::json;
    DELETE FROM onceward.begun b
        WHERE b.tenant = finish_operation.tenant AND b.operation_id = finish_operation.operation_id
        RETURNING b.owner INTO holder;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'operation %/% is not begun in this transaction', tenant, operation_id USING ERRCODE = '55000',
            HINT = 'Call onceward.begin_operation first; finish only what it answered "run" to, and once.';
    END IF;
    -- Of two operations that store one effect at once, the second sees the first.
    IF effect_id IS NOT NULL THEN
        PERFORM pg_advisory_xact_lock(('x' || encode(substr(sha256(convert_to('onceward effect', 'UTF8') || '\x00'::bytea
            || int8send(octet_length(tenant)) || convert_to(tenant, 'UTF8') || convert_to(effect_id, 'UTF8')), 1, 8),
            'hex'))::bit(64)::bigint);
    END IF;
    SELECT o.* INTO mine FROM onceward.operation o
        WHERE o.tenant = finish_operation.tenant AND o.operation_id = finish_operation.operation_id;
    SELECT o.operation_id INTO other FROM onceward.operation o
        WHERE o.tenant = finish_operation.tenant AND o.effect_id = finish_operation.effect_id AND o.tool = mine.tool
        AND o.operation_id <> finish_operation.operation_id LIMIT 1;
    at := greatest(onceward.now_micros(), mine.updated_at);
    head := onceward.journal_append(tenant, operation_id, seq, mine.journal_hash, at, 'owner:' || holder, 'observe',
        format('{"about":{"attempt":1},"verdict":{"effect":{"effect_id":%s,"answer":{"status":%s,"headers":[],"body":'
            '{"text":"sha256:%s"}},"received_at":%s}},"source":{"owner":"%s"},"next_check":null,"note":null}',
            effect, status, encode(sha256(convert_to(answer, 'UTF8')), 'hex'), at, holder));
    IF other IS NOT NULL THEN
        -- The receipt is stored all the same; two operations with one effect are to be looked at.
        seq := 4;
        head := onceward.journal_append(tenant, operation_id, seq, head, at, 'owner:' || holder, 'observe',
            format('{"about":{"attempt":1},"verdict":{"other_effect":"shared_effect_id"},"source":"late_answer",'
                '"next_check":null,"note":%s}', to_json('operation ' || other || ' has the same effect id')));
        dispute := format('{"kind":{"other_effect":"shared_effect_id"},"first_at":%s,"count":1,"acknowledged_at":null}', at);
    END IF;
    UPDATE onceward.operation o SET state = 'succeeded', owner = NULL, effect_id = finish_operation.effect_id,
        disagreement = CASE WHEN other IS NULL THEN NULL ELSE 'shared_effect_id' END,
        updated_at = at, settled_at = at, journal_seq = seq, journal_hash = head,
        progress = '\x0100'::bytea || convert_to(format('{"state":{"succeeded":{"attempt":1,"received_at":%s}},"history":'
            '{"attempts":1,"generation":1,"disproved":[],"never_left":0,"disagreement":%s,"erasure":null}}', at,
            dispute), 'UTF8'),
        answer = '\x0100'::bytea || convert_to(format('{"status":%s,"headers":%s,"body":{"text":%s}}', status, headers,
            to_json(finish_operation.answer)), 'UTF8')
        WHERE o.tenant = finish_operation.tenant AND o.operation_id = finish_operation.operation_id;
END $$;

-- Nobody may call what is not granted to them: docs/sql.md has the two grants that a service needs.
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA onceward FROM PUBLIC;
