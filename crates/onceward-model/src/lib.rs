//! onceward-model
