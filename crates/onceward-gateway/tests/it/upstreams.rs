//! Tools of MCP servers behind the gateway: written through the ledger, sent once, settled by what can be found.

mod process;
