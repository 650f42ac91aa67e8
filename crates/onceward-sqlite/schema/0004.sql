-- How far the ledger has come, and what was restored: what is kept of the first outside the file tells when the file has gone back.

-- The beats of all its gateways, and the time of the latest.
ALTER TABLE onceward_ledger ADD COLUMN beats INTEGER NOT NULL DEFAULT 0;
ALTER TABLE onceward_ledger ADD COLUMN high_water_at INTEGER NOT NULL DEFAULT 0;

-- Each restore from a backup. While one is open, an identity that is not provably younger opens as unknown.
CREATE TABLE onceward_restore (
    number      INTEGER PRIMARY KEY CHECK (number >= 1),
    as_of       INTEGER NOT NULL,
    restored_at INTEGER NOT NULL,
    closed_at   INTEGER,
    reason      TEXT,
    CHECK ((closed_at IS NULL) = (reason IS NULL))
) STRICT;
