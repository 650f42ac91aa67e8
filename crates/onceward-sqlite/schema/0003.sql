-- The outbox: what a dispatcher asks for. Entries of calls are in neither index and pay nothing.

-- Entries that a dispatcher sends.
CREATE INDEX onceward_operation_outbox ON onceward_operation (number) WHERE dispatch = 'auto' AND state = 'approved';
-- Whether something unresolved comes before an entry in its lane.
CREATE INDEX onceward_operation_lane ON onceward_operation (tenant, lane, number)
    WHERE dispatch = 'auto' AND settled_at IS NULL;
