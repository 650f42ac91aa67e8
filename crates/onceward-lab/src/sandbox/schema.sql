-- What has happened. One row is one effect; nothing but a reset removes it.
CREATE TABLE IF NOT EXISTS effect (
    sequence        INTEGER PRIMARY KEY AUTOINCREMENT,
    resource        TEXT    NOT NULL,
    number          INTEGER NOT NULL,
    account         TEXT    NOT NULL,
    created_at_us   INTEGER NOT NULL,
    done_at_us      INTEGER NOT NULL,
    idempotency_key TEXT,                -- as it was received, for the auditor
    unique_key      TEXT,                -- the same, while the contract's constraint holds it; NULL is never equal
    marker          TEXT,
    fingerprint     TEXT    NOT NULL,
    fields          TEXT    NOT NULL,
    changed_to      TEXT,
    changed_at_us   INTEGER,
    UNIQUE (resource, number),
    UNIQUE (account, unique_key)
) STRICT;

CREATE INDEX IF NOT EXISTS effect_of_account ON effect (account, resource, number);
CREATE INDEX IF NOT EXISTS effect_marked ON effect (account, resource, marker, number);

-- What a repeated key finds. Without an answer, the work was begun and not finished.
CREATE TABLE IF NOT EXISTS key_record (
    account       TEXT    NOT NULL,
    key           TEXT    NOT NULL,
    first_used_us INTEGER NOT NULL,
    fingerprint   TEXT    NOT NULL,
    effect        INTEGER REFERENCES effect (sequence),
    status        INTEGER,
    body          TEXT,
    PRIMARY KEY (account, key),
    CHECK ((status IS NULL) = (body IS NULL))
) STRICT, WITHOUT ROWID;

-- Every request that arrived, written before it was looked at.
CREATE TABLE IF NOT EXISTS request (
    sequence       INTEGER PRIMARY KEY AUTOINCREMENT,
    at_us          INTEGER NOT NULL,
    method         TEXT    NOT NULL,
    path           TEXT    NOT NULL,
    query          TEXT,
    resource       TEXT,
    account        TEXT,
    key            TEXT,
    marker         TEXT,
    fault          TEXT,
    answered_at_us INTEGER,
    status         INTEGER,
    delivery       TEXT
) STRICT;

CREATE INDEX IF NOT EXISTS request_of_key ON request (resource, key);
