//! onceward-sqlite
