SELECT * FROM onceward.operation WHERE tenant = 'bench' AND operation_id = 'replayed';
