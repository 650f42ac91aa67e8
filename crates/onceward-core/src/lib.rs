//! onceward-core
