//! The only place of Onceward that sends to a destination.
//!
//! [`catalog`] reads destinations and tools from the configuration and says what each of them becomes when a reply is
//! lost; [`http`] sends one attempt and tells `not sent` apart from `sent`; [`client`] makes every HTTP client of the
//! product.
//!
//! Deliberately absent: any decision whether to send (the ledger makes the dispatch), any repetition of a write, any
//! expression language (a mapping is data), and any secret outside [`secrets`].

pub mod amount;
mod auth;
mod carrier;
pub mod catalog;
pub mod client;
mod config;
pub mod error;
pub mod explain;
pub mod http;
pub mod limits;
mod mapping;
pub mod mcp;
pub mod notice;
mod places;
pub mod proxy;
mod question;
mod refusals;
mod requests;
pub mod schema;
pub mod secrets;
mod template;
pub mod tool;
pub mod webhook;

#[cfg(test)]
mod testing;
