//! onceward-destinations
