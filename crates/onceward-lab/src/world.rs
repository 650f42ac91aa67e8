//! The two processes that every scenario has: a destination that can be told how to misbehave, and a gateway before it.

mod caller;
mod configuration;
mod destination;
mod gateway;
mod home;

pub(crate) use caller::{Caller, ClaimReply, Decision, ticket_in, ticket_of};
pub(crate) use configuration::{Configuration, Promise, ToolSetting};
pub(crate) use destination::SandboxProcess;
pub(crate) use gateway::{GatewayProcess, StoppedGateway};
pub(crate) use home::Home;
pub use home::{InvalidStore, ServerAddress, Store};
