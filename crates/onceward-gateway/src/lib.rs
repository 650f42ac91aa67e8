//! onceward-gateway
