//! MCP servers as destinations: the gateway as their client.
//!
//! [`McpUpstream`] is one configured server with its connection; a tool of it that writes is a [`McpTool`], a destination like any
//! other. Messages are read and written as values, because the types of a protocol library drop what they do not know, and because
//! its client sends a call again when a session or a revision is lost. Here a call of a tool is sent once. docs/design/0008 has the
//! whole of it.
//!
//! Deliberately absent: sampling, elicitation and roots, which would let a server ask things of the gateway, and any trust in what
//! a server says of its own tools.

mod children;
mod connect;
mod era;
mod headers;
mod link;
mod message;
mod plan;
mod setting;
mod sse;
mod stdio;
mod streamable;
mod tool;
mod upstream;

#[cfg(test)]
mod tests;

pub(crate) use self::plan::{CallPlan, Over};
pub(crate) use self::setting::Setting;
pub(crate) use self::stdio::Program;
pub(crate) use self::streamable::Address;
pub(crate) use self::upstream::Transport;

pub use self::era::{Era, Greeting};
pub use self::link::Watcher;
pub use self::message::RpcError;
pub use self::tool::McpTool;
pub use self::upstream::{About, McpUpstream, Notice, UpstreamError, UpstreamStatus};
