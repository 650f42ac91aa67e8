-- What is asked about uncertain operations: how many there are and since when, and which one an event of a destination is about.
-- An operation that is claimed and then succeeds touches nothing of this.

-- When the earliest attempt that may have had its effect was claimed: the age of an unknown operation.
ALTER TABLE onceward_operation ADD COLUMN uncertain_since INTEGER
    CHECK (uncertain_since IS NULL OR state = 'unknown');

-- Counts and ages by tool and cause, read from the index alone.
CREATE INDEX onceward_operation_unknown ON onceward_operation (tool, cause, uncertain_since, next_check_at)
    WHERE state = 'unknown';

-- By what events of destinations name an operation: the outbound keys of its attempts that were uncertain or disproved, and
-- the names that destinations gave to accepted work. They stay when it is settled, so that an event which contradicts what a
-- person decided still finds it. A mark is a hash: a destination's own words are not repeated here.
CREATE TABLE onceward_mark (
    digest    BLOB    NOT NULL CHECK (length(digest) = 32),
    operation INTEGER NOT NULL,
    PRIMARY KEY (digest, operation)
) STRICT, WITHOUT ROWID;

CREATE INDEX onceward_mark_of ON onceward_mark (operation);

CREATE TRIGGER onceward_marks_forgotten AFTER DELETE ON onceward_operation
BEGIN
    DELETE FROM onceward_mark WHERE operation = old.number;
END;
