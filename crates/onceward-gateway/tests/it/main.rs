//! The gateway over real sockets: what callers are told, and what really happened behind it.

mod authority;
mod bench;
mod calls;
mod cases;
mod claims;
mod decisions;
mod due;
mod explain;
mod hosts;
mod later;
mod leaving;
mod limits;
mod mcp;
mod metrics;
mod notices;
mod observe;
mod postgres;
mod powers;
mod process;
mod proxy;
mod secrets;
mod upstreams;
mod webhooks;
