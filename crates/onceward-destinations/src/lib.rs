//! The only place of Onceward that sends to a destination.
//!
//! [`catalog`] reads destinations and tools from the configuration and says what each of them becomes when a reply is
//! lost; [`http`] sends one attempt and tells `not sent` apart from `sent`; [`client`] makes every HTTP client of the
//! product.
//!
//! Deliberately absent: any decision whether to send (the ledger makes the dispatch), any repetition of a write, any
//! expression language (a mapping is data), and any secret outside [`secrets`].

pub mod catalog;
pub mod client;
pub mod error;
pub mod explain;
pub mod http;
pub mod limits;
pub mod mcp;
pub mod notice;
pub mod proxy;
pub mod schema;
pub mod secrets;
pub mod tool;
pub mod webhook;

mod auth;
mod carrier;
mod config;
mod mapping;
mod places;
mod question;
mod refusals;
mod requests;
mod template;

#[cfg(test)]
mod testing;
