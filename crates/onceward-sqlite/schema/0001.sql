-- The ledger. Every name begins with `onceward_`, so that it can live in an application's own database.
--
-- The constraints repeat what the types of onceward-core say: a row that the types cannot express cannot be written by
-- hand either. Times are microseconds since the Unix epoch. Blobs begin with a header: a format version, then 0 for plain,
-- or 1 and the four bytes of the key that sealed them.
--
-- To forget one operation wholly, by hand and at one's own risk (its identity becomes free: the same key would run again):
--
--     DELETE FROM onceward_operation WHERE tenant = 'acme' AND operation_id = 'order-17';
--
-- Its journal goes with it.

-- One row: which ledger this is.
CREATE TABLE onceward_ledger (
    one          INTEGER PRIMARY KEY CHECK (one = 1),
    ledger_id    TEXT    NOT NULL,
    -- A keyed hash under the secret that lies beside the file: tells a lost or exchanged secret before a key is derived.
    secret_check BLOB    NOT NULL CHECK (length(secret_check) = 32),
    -- Written by a probe, after a failed commit, to find out whether the file takes writes again.
    probes       INTEGER NOT NULL DEFAULT 0,
    created_at   INTEGER NOT NULL
) STRICT;

-- One row per approved or proposed intention. What is searched or checked is a column; the rest is in three blobs: `body`
-- never changes but for erasure, `progress` changes with every event, `answer` is written once, when it is settled.
CREATE TABLE onceward_operation (
    -- In the order of creation: neighbours in time are neighbours on disk.
    number          INTEGER PRIMARY KEY,
    tenant          TEXT    NOT NULL CHECK (length(tenant) BETWEEN 1 AND 128),
    operation_id    TEXT    NOT NULL CHECK (length(operation_id) BETWEEN 1 AND 255),
    tool            TEXT    NOT NULL,
    fingerprint     BLOB    NOT NULL CHECK (length(fingerprint) = 32),
    fingerprint_key INTEGER NOT NULL,
    state           TEXT    NOT NULL,
    cause           TEXT,
    dispatch        TEXT    NOT NULL CHECK (dispatch = 'caller' OR dispatch = 'auto'),
    lane            TEXT,
    attempt         INTEGER NOT NULL CHECK (attempt >= 0),
    owner           TEXT,
    effect_id       TEXT,
    suspicion_mark  BLOB    CHECK (length(suspicion_mark) = 32),
    suspicion_group BLOB    CHECK (length(suspicion_group) = 32),
    deadline_at     INTEGER,
    next_check_at   INTEGER,
    settle_by_at    INTEGER,
    disagreement    TEXT,
    corrects        TEXT,
    superseded_by   TEXT,
    created_at      INTEGER NOT NULL,
    updated_at      INTEGER NOT NULL,
    settled_at      INTEGER,
    purged_at       INTEGER,
    journal_seq     INTEGER NOT NULL CHECK (journal_seq >= 1),
    journal_hash    BLOB    NOT NULL CHECK (length(journal_hash) = 32),
    body            BLOB    NOT NULL,
    progress        BLOB    NOT NULL,
    answer          BLOB,
    UNIQUE (tenant, operation_id),
    -- What a row of each state has, and nothing else. One comparison decides, where lists (`IN`) would have SQLite build a
    -- table of their values for every row that is written.
    CHECK (CASE state
        WHEN 'proposed' THEN owner IS NULL AND cause IS NULL AND settled_at IS NULL AND answer IS NULL
        WHEN 'approved' THEN owner IS NULL AND cause IS NULL AND settled_at IS NULL AND answer IS NULL
        -- Only who holds an attempt is an owner, and there is no attempt without one.
        WHEN 'pending' THEN owner IS NOT NULL AND attempt >= 1 AND cause IS NULL AND settled_at IS NULL AND answer IS NULL
        WHEN 'unknown' THEN owner IS NULL AND attempt >= 1 AND cause IS NOT NULL AND settled_at IS NULL AND answer IS NULL
        -- An answer is there, or was erased.
        WHEN 'succeeded' THEN owner IS NULL AND attempt >= 1 AND cause IS NULL AND settled_at IS NOT NULL
            AND (answer IS NOT NULL OR purged_at IS NOT NULL)
        WHEN 'rejected' THEN owner IS NULL AND attempt >= 1 AND cause IS NULL AND settled_at IS NOT NULL
            AND (answer IS NOT NULL OR purged_at IS NOT NULL)
        WHEN 'closed' THEN owner IS NULL AND cause IS NULL AND settled_at IS NOT NULL AND answer IS NULL
        ELSE FALSE
    END),
    CHECK (settle_by_at IS NULL OR state = 'pending'),
    CHECK (next_check_at IS NULL OR state = 'unknown'),
    CHECK (effect_id IS NULL OR state = 'succeeded'),
    CHECK (superseded_by IS NULL OR state = 'closed'),
    CHECK ((suspicion_mark IS NULL) = (suspicion_group IS NULL))
) STRICT;

-- Each index costs every write that touches it, so each is partial and named with its one use. A fresh operation that is
-- claimed at once and then succeeds touches the unique index, `_by_tenant` (at its end) and `_held`.

-- Lists of one tenant, newest first.
CREATE INDEX onceward_operation_by_tenant ON onceward_operation (tenant);
-- An owner sweeps what it holds; recovery sweeps what a lost owner held.
CREATE INDEX onceward_operation_held ON onceward_operation (owner) WHERE owner IS NOT NULL;
-- Claims of applications whose time to settle has passed.
CREATE INDEX onceward_operation_overdue ON onceward_operation (settle_by_at) WHERE settle_by_at IS NOT NULL;
-- Unknown operations whose next check is due.
CREATE INDEX onceward_operation_due ON onceward_operation (next_check_at) WHERE next_check_at IS NOT NULL;
-- What waits for a person, a dispatcher or evidence: proposed, approved or unknown. A pending operation is in `_held`.
CREATE INDEX onceward_operation_open ON onceward_operation (tenant, state)
    WHERE owner IS NULL AND settled_at IS NULL;
CREATE INDEX onceward_operation_disputed ON onceward_operation (tenant) WHERE disagreement IS NOT NULL;
-- Possible repetitions from hosts without identity.
CREATE INDEX onceward_operation_marked ON onceward_operation (tenant, suspicion_mark, settled_at)
    WHERE suspicion_mark IS NOT NULL;
CREATE INDEX onceward_operation_grouped ON onceward_operation (tenant, suspicion_group)
    WHERE suspicion_group IS NOT NULL AND settled_at IS NULL;
-- Two operations with one effect.
CREATE INDEX onceward_operation_effect ON onceward_operation (tenant, tool, effect_id) WHERE effect_id IS NOT NULL;

-- What happened to an operation, append only, in the transaction that it records. `detail` and `salt` are null once erased.
CREATE TABLE onceward_journal (
    operation  INTEGER NOT NULL,
    seq        INTEGER NOT NULL CHECK (seq >= 1),
    at         INTEGER NOT NULL,
    actor      TEXT    NOT NULL,
    event      TEXT    NOT NULL,
    detail     BLOB,
    salt       BLOB    CHECK (length(salt) = 16),
    commitment BLOB    NOT NULL CHECK (length(commitment) = 32),
    hash       BLOB    NOT NULL CHECK (length(hash) = 32),
    PRIMARY KEY (operation, seq),
    CHECK ((detail IS NULL) = (salt IS NULL))
) STRICT, WITHOUT ROWID;

-- A trigger and not a foreign key: it also works in a shell that has foreign keys off, and costs an insert nothing.
CREATE TRIGGER onceward_operation_forgotten AFTER DELETE ON onceward_operation
BEGIN
    DELETE FROM onceward_journal WHERE operation = old.number;
END;

-- Contracts that operations were made with, named by their content.
CREATE TABLE onceward_pin (
    digest     TEXT    PRIMARY KEY CHECK (length(digest) BETWEEN 1 AND 128),
    body       BLOB    NOT NULL,
    created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE onceward_owner (
    owner TEXT    PRIMARY KEY,
    kind  TEXT    NOT NULL CHECK (kind IN ('gateway', 'library')),
    beat  INTEGER NOT NULL CHECK (beat >= 0)
) STRICT, WITHOUT ROWID;

-- A secret is stored hashed; a revoked credential stays, since the journal names it.
CREATE TABLE onceward_credential (
    hash          BLOB    PRIMARY KEY CHECK (length(hash) = 32),
    credential_id TEXT    NOT NULL UNIQUE,
    tenant        TEXT    NOT NULL,
    grant_json    TEXT    NOT NULL,
    created_at    INTEGER NOT NULL,
    revoked_at    INTEGER
) STRICT, WITHOUT ROWID;

-- Operations that a caller began in its own transaction and has not finished. The reference points to a row that never
-- exists and is checked at COMMIT: while a row is here, nothing commits.
CREATE TABLE onceward_never (
    never INTEGER PRIMARY KEY CHECK (never IS NULL)
) STRICT;
CREATE TABLE onceward_begun (
    operation INTEGER PRIMARY KEY,
    unfinished INTEGER NOT NULL REFERENCES onceward_never (never) DEFERRABLE INITIALLY DEFERRED
) STRICT;
