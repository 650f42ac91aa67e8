-- The ledger on PostgreSQL. The tables, their columns and what they mean are those of the ledger on SQLite; the schema is the
-- prefix. Every key begins with the tenant, no number is drawn from a sequence, and nothing refers across tenants, so that an
-- engine that distributes tables can distribute these by tenant.
--
-- The constraints repeat what the types of onceward-core say: a row that the types cannot express cannot be written by hand
-- either. Times are microseconds since the Unix epoch: no time zone or setting moves them. Blobs begin with a header: a format
-- version, then 0 for plain, or 1 and the four bytes of the key that sealed them.

-- One row: which ledger this is.
CREATE TABLE onceward.ledger (
    one          integer PRIMARY KEY CHECK (one = 1),
    ledger_id    text    NOT NULL,
    -- A keyed hash under the secret that is kept outside the database: tells a lost or exchanged secret before a key is derived.
    secret_check bytea   NOT NULL CHECK (length(secret_check) = 32),
    -- Written by a probe, to find out whether a commit reaches as far as it must.
    probes       bigint  NOT NULL DEFAULT 0,
    -- How far the ledger has come: what is kept of it outside tells when the database has gone back.
    beats         bigint NOT NULL DEFAULT 0,
    high_water_at bigint NOT NULL DEFAULT 0,
    created_at   bigint  NOT NULL
);

-- Each restore from a backup. While one is open, an identity that is not provably younger opens as unknown.
CREATE TABLE onceward.restore (
    number      bigint PRIMARY KEY CHECK (number >= 1),
    as_of       bigint NOT NULL,
    restored_at bigint NOT NULL,
    closed_at   bigint,
    reason      text,
    CHECK ((closed_at IS NULL) = (reason IS NULL))
);

CREATE TABLE onceward.operation (
    tenant          text    COLLATE "C" NOT NULL CHECK (length(tenant) BETWEEN 1 AND 128),
    operation_id    text    COLLATE "C" NOT NULL CHECK (length(operation_id) BETWEEN 1 AND 255),
    -- The time of creation and some chance: the order of lists. Not unique, and no identity.
    ordinal         bigint  NOT NULL,
    tool            text    COLLATE "C" NOT NULL,
    fingerprint     bytea   NOT NULL CHECK (length(fingerprint) = 32),
    fingerprint_key bigint  NOT NULL,
    state           text    NOT NULL,
    cause           text,
    dispatch        text    NOT NULL CHECK (dispatch IN ('caller', 'auto')),
    lane            text    COLLATE "C",
    attempt         bigint  NOT NULL CHECK (attempt >= 0),
    owner           text    COLLATE "C",
    effect_id       text    COLLATE "C",
    suspicion_mark  bytea   CHECK (length(suspicion_mark) = 32),
    suspicion_group bytea   CHECK (length(suspicion_group) = 32),
    deadline_at     bigint,
    next_check_at   bigint,
    settle_by_at    bigint,
    uncertain_since bigint,
    disagreement    text,
    corrects        text,
    superseded_by   text,
    created_at      bigint  NOT NULL,
    updated_at      bigint  NOT NULL,
    settled_at      bigint,
    purged_at       bigint,
    journal_seq     bigint  NOT NULL CHECK (journal_seq >= 1),
    journal_hash    bytea   NOT NULL CHECK (length(journal_hash) = 32),
    body            bytea   NOT NULL,
    progress        bytea   NOT NULL,
    answer          bytea,
    PRIMARY KEY (tenant, operation_id),
    CHECK (CASE state
        WHEN 'proposed' THEN owner IS NULL AND cause IS NULL AND settled_at IS NULL AND answer IS NULL
        WHEN 'approved' THEN owner IS NULL AND cause IS NULL AND settled_at IS NULL AND answer IS NULL
        WHEN 'pending' THEN owner IS NOT NULL AND attempt >= 1 AND cause IS NULL AND settled_at IS NULL AND answer IS NULL
        WHEN 'unknown' THEN owner IS NULL AND attempt >= 1 AND cause IS NOT NULL AND settled_at IS NULL AND answer IS NULL
        WHEN 'succeeded' THEN owner IS NULL AND attempt >= 1 AND cause IS NULL AND settled_at IS NOT NULL
            AND (answer IS NOT NULL OR purged_at IS NOT NULL)
        WHEN 'rejected' THEN owner IS NULL AND attempt >= 1 AND cause IS NULL AND settled_at IS NOT NULL
            AND (answer IS NOT NULL OR purged_at IS NOT NULL)
        WHEN 'closed' THEN owner IS NULL AND cause IS NULL AND settled_at IS NOT NULL AND answer IS NULL
        ELSE FALSE
    END),
    CHECK (settle_by_at IS NULL OR state = 'pending'),
    CHECK (next_check_at IS NULL OR state = 'unknown'),
    CHECK (uncertain_since IS NULL OR state = 'unknown'),
    CHECK (effect_id IS NULL OR state = 'succeeded'),
    CHECK (superseded_by IS NULL OR state = 'closed'),
    CHECK ((suspicion_mark IS NULL) = (suspicion_group IS NULL))
) WITH (fillfactor = 80);

-- Each index is partial where it can be, and named with its one use.
-- Lists of one tenant, newest first.
CREATE INDEX operation_by_tenant ON onceward.operation (tenant, ordinal);
-- An owner sweeps what it holds; recovery sweeps what a lost owner held.
CREATE INDEX operation_held ON onceward.operation (owner) WHERE owner IS NOT NULL;
-- Claims of applications whose time to settle has passed.
CREATE INDEX operation_overdue ON onceward.operation (settle_by_at) WHERE settle_by_at IS NOT NULL;
-- Unknown operations whose next check is due.
CREATE INDEX operation_due ON onceward.operation (next_check_at) WHERE next_check_at IS NOT NULL;
-- What waits for a person, a dispatcher or evidence: proposed, approved or unknown.
CREATE INDEX operation_open ON onceward.operation (tenant, state, ordinal) WHERE owner IS NULL AND settled_at IS NULL;
-- Counts and ages by tool and cause.
CREATE INDEX operation_unknown ON onceward.operation (tool, cause, uncertain_since, next_check_at) WHERE state = 'unknown';
CREATE INDEX operation_disputed ON onceward.operation (tenant, ordinal) WHERE disagreement IS NOT NULL;
-- Possible repetitions from hosts without identity.
CREATE INDEX operation_marked ON onceward.operation (tenant, suspicion_mark, settled_at) WHERE suspicion_mark IS NOT NULL;
CREATE INDEX operation_grouped ON onceward.operation (tenant, suspicion_group)
    WHERE suspicion_group IS NOT NULL AND settled_at IS NULL;
-- Two operations with one effect.
CREATE INDEX operation_effect ON onceward.operation (tenant, effect_id) WHERE effect_id IS NOT NULL;

-- The outbox: entries that a dispatcher sends.
CREATE INDEX operation_outbox ON onceward.operation (ordinal) WHERE dispatch = 'auto' AND state = 'approved';
-- Whether something unresolved comes before an entry in its lane.
CREATE INDEX operation_lane ON onceward.operation (tenant, lane, ordinal) WHERE dispatch = 'auto' AND settled_at IS NULL;

-- The number of a lane's advisory lock.
CREATE FUNCTION onceward.lane_lock(tenant text, lane text) RETURNS bigint LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT ('x' || encode(substring(sha256('\x6f6e636577617264206c616e6500'::bytea || int8send(octet_length(tenant)::bigint)
        || convert_to(tenant, 'UTF8') || convert_to(lane, 'UTF8')) FROM 1 FOR 8), 'hex'))::bit(64)::bigint
$$;
-- Whoever adds to a lane holds it until the commit, and comes after everything unresolved in it: the order of commits is the
-- order in the lane. What others have committed is seen only where each statement looks anew.
CREATE FUNCTION onceward.operation_takes_its_place() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    last bigint;
BEGIN
    IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
        RAISE EXCEPTION 'an entry of a lane needs a transaction that is READ COMMITTED' USING ERRCODE = 'feature_not_supported';
    END IF;
    PERFORM pg_advisory_xact_lock(onceward.lane_lock(NEW.tenant, NEW.lane));
    SELECT max(ordinal) INTO last FROM onceward.operation
        WHERE tenant = NEW.tenant AND lane = NEW.lane AND dispatch = 'auto' AND settled_at IS NULL;
    NEW.ordinal := greatest(NEW.ordinal, last + 1);
    RETURN NEW;
END $$;
CREATE TRIGGER operation_takes_its_place BEFORE INSERT ON onceward.operation
    FOR EACH ROW WHEN (NEW.dispatch = 'auto' AND NEW.lane IS NOT NULL)
    EXECUTE FUNCTION onceward.operation_takes_its_place();

-- What happened to an operation, append only, in the transaction that it records. `detail` and `salt` are null once erased.
CREATE TABLE onceward.journal (
    tenant       text   COLLATE "C" NOT NULL,
    operation_id text   COLLATE "C" NOT NULL,
    seq          bigint NOT NULL CHECK (seq >= 1),
    at           bigint NOT NULL,
    actor        text   NOT NULL,
    event        text   NOT NULL,
    detail       bytea,
    salt         bytea  CHECK (length(salt) = 16),
    commitment   bytea  NOT NULL CHECK (length(commitment) = 32),
    hash         bytea  NOT NULL CHECK (length(hash) = 32),
    PRIMARY KEY (tenant, operation_id, seq),
    CHECK ((detail IS NULL) = (salt IS NULL))
);

-- By what events of destinations name an operation: hashes of its keys and of the handles of accepted work.
CREATE TABLE onceward.mark (
    digest       bytea NOT NULL CHECK (length(digest) = 32),
    tenant       text  COLLATE "C" NOT NULL,
    operation_id text  COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant, operation_id, digest)
);
CREATE INDEX mark_digest ON onceward.mark (digest);

-- Contracts that operations were made with, named by their content.
CREATE TABLE onceward.pin (
    digest     text   COLLATE "C" PRIMARY KEY CHECK (length(digest) BETWEEN 1 AND 128),
    body       bytea  NOT NULL,
    created_at bigint NOT NULL
);

CREATE TABLE onceward.owner (
    owner text   COLLATE "C" PRIMARY KEY,
    kind  text   NOT NULL CHECK (kind IN ('gateway', 'library')),
    beat  bigint NOT NULL CHECK (beat >= 0)
);

-- A secret is stored hashed; a revoked credential stays, since the journal names it.
CREATE TABLE onceward.credential (
    hash          bytea  PRIMARY KEY CHECK (length(hash) = 32),
    credential_id text   NOT NULL UNIQUE,
    tenant        text   NOT NULL,
    grant_json    text   NOT NULL,
    created_at    bigint NOT NULL,
    revoked_at    bigint
);

-- Identities may be forgotten only together with what names them.
CREATE FUNCTION onceward.operation_forgotten() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM onceward.journal WHERE tenant = OLD.tenant AND operation_id = OLD.operation_id;
    DELETE FROM onceward.mark WHERE tenant = OLD.tenant AND operation_id = OLD.operation_id;
    RETURN OLD;
END $$;
CREATE TRIGGER operation_forgotten AFTER DELETE ON onceward.operation
    FOR EACH ROW EXECUTE FUNCTION onceward.operation_forgotten();
