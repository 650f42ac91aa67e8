//! onceward-lab
