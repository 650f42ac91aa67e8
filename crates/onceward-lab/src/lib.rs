//! What Onceward is measured and shown against: real processes, real sockets, real files.
//!
//! [`sandbox`] is a destination that can be told to behave as badly as the ones in the world: it commits a ticket and cuts
//! the connection, forgets a key, hides a fresh row from its list. The scenarios, the demo and the quickstart all send to
//! it, and count what it really holds. [`lab`] plays every scenario with a gateway process before a sandbox process;
//! [`demo`] tells the same as a story.

pub mod demo;
pub mod families;
pub mod lab;
pub mod sandbox;
pub mod table;

mod http;
mod limits;
mod process;
mod world;
