//! onceward
