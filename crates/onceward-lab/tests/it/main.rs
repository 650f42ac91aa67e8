//! The lab against real sockets and real processes.

mod sandbox;
