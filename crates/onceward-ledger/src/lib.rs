//! onceward-ledger
