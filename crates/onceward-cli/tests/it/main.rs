//! The binary as people and scripts use it. Every test starts processes, which is why all are in `process`.

mod process;
