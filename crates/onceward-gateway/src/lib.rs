//! The gateway: what an agent host points at instead of the systems it writes to.
//!
//! [`app`] has the one way from every surface to the ledger; [`http`] and the MCP front are surfaces and decide nothing;
//! [`auth`] turns a token into a grant on every call; [`problem`] is the only place that knows HTTP statuses; [`serve`] puts
//! it all on a socket.
//!
//! Deliberately absent: sending (the destinations do), deciding about repetitions (the rules do), and anything that is kept
//! between two calls.

pub mod app;
mod approvals;
pub mod auth;
pub mod check;
pub mod config;
mod enqueue;
pub mod home;
pub mod http;
pub mod identity;
mod keeper;
pub mod limits;
pub mod mark;
pub mod mcp;
pub mod metrics;
pub mod notify;
pub mod problem;
pub mod proxy;
pub mod quickstart;
pub mod report;
pub mod restoring;
pub mod serve;

mod accept;
mod telemetry;
mod webhooks;
