//! Where a gateway's ledger lies: a file of its own, or a database of its own on a server that was named.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tokio_postgres::{Client, NoTls};
use uuid::Uuid;

/// What a scenario's ledgers are kept in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Store {
    /// SQLite files, each in its scenario's folder.
    #[default]
    Files,
    /// A PostgreSQL server, by an address of any database of it whose user may make databases.
    Server(ServerAddress),
}

/// The address of a PostgreSQL server. It may hold a password, so it is not shown.
#[derive(Clone, PartialEq, Eq)]
pub struct ServerAddress(String);

/// Text that names no PostgreSQL server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a store is `sqlite`, or postgres://user@host/database")]
pub struct InvalidStore;

impl std::fmt::Debug for ServerAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ServerAddress(…)")
    }
}

impl std::str::FromStr for Store {
    type Err = InvalidStore;

    fn from_str(text: &str) -> Result<Self, InvalidStore> {
        match text.split_once("://") {
            Some(("postgres" | "postgresql", _)) => Ok(Self::Server(ServerAddress(text.to_owned()))),
            None if text == "sqlite" => Ok(Self::Files),
            Some(_) | None => Err(InvalidStore),
        }
    }
}

impl ServerAddress {
    /// The address of another database of the same server.
    fn database(&self, name: &str) -> String {
        let (scheme, rest) = self.0.split_once("://").unwrap_or(("postgres", &self.0));
        let (place, options) = rest.split_once('?').map_or((rest, String::new()), |(a, b)| (a, format!("?{b}")));
        let authority = place.split('/').next().unwrap_or_default();
        format!("{scheme}://{authority}/{name}{options}")
    }
}

/// Where one gateway's ledger lies.
#[derive(Clone, Debug)]
pub(crate) enum Home {
    /// A file.
    File(PathBuf),
    /// A database, made for this and dropped after it.
    Database(Database),
}

/// A database of one scenario.
#[derive(Clone, Debug)]
pub(crate) struct Database {
    server: ServerAddress,
    name: String,
    /// Holds its address: a configuration holds none that may have a password.
    address_file: PathBuf,
    secret_file: PathBuf,
}

impl Home {
    /// A file in this folder.
    #[must_use]
    pub(crate) fn file(folder: &Path) -> Self {
        Self::File(folder.join("ledger.db"))
    }

    /// A new place, as the store says.
    ///
    /// # Errors
    /// When the server makes no database.
    pub(crate) async fn make(store: &Store, folder: &Path) -> Result<Self> {
        let Store::Server(server) = store else { return Ok(Self::file(folder)) };
        let database = Database {
            server: server.clone(),
            name: format!("onceward_lab_{}", Uuid::new_v4().simple()),
            address_file: folder.join("ledger.address"),
            secret_file: folder.join("ledger.secret"),
        };
        std::fs::write(&database.address_file, server.database(&database.name))?;
        std::fs::write(&database.secret_file, format!("{0}{0}", Uuid::new_v4().simple()))?;
        let client = connected(&server.0).await?;
        client.batch_execute(&format!("CREATE DATABASE {}", database.name)).await?;
        Ok(Self::Database(database))
    }

    /// The lines of a configuration that name it.
    #[must_use]
    pub(crate) fn to_toml(&self) -> String {
        match self {
            Self::File(path) => format!("ledger = {:?}\n", format!("sqlite:{}", path.display())),
            Self::Database(Database { address_file, secret_file, .. }) => format!(
                "ledger = {:?}\nledger_secret = {:?}\n",
                format!("file:{}", address_file.display()),
                format!("file:{}", secret_file.display())
            ),
        }
    }

    /// Deletes an operation by hand, as no part of the product does, and gives how many rows went.
    ///
    /// # Errors
    /// When the ledger cannot be changed.
    pub(crate) async fn delete_by_hand(&self, tenant: &str, operation_id: &str) -> Result<u64> {
        let deleted = match self {
            Self::File(path) => {
                let (path, key) = (path.clone(), [tenant.to_owned(), operation_id.to_owned()]);
                let sql = "DELETE FROM onceward_operation WHERE tenant = ?1 AND operation_id = ?2";
                tokio::task::spawn_blocking(move || rusqlite::Connection::open(path)?.execute(sql, key)).await?? as u64
            }
            Self::Database(Database { server, name, .. }) => {
                let client = connected(&server.database(name)).await?;
                let sql = "DELETE FROM onceward.operation WHERE tenant = $1 AND operation_id = $2";
                client.execute(sql, &[&tenant, &operation_id]).await?
            }
        };
        Ok(deleted)
    }

    /// Removes what was made on a server. A file goes with its folder.
    ///
    /// # Errors
    /// When the server does not.
    pub(crate) async fn remove(&self) -> Result<()> {
        let Self::Database(Database { server, name, .. }) = self else { return Ok(()) };
        // Gateways of the scenario are killed; the server may not have seen yet that their connections are gone.
        connected(&server.0).await?.batch_execute(&format!("DROP DATABASE {name} WITH (FORCE)")).await?;
        Ok(())
    }
}

async fn connected(address: &str) -> Result<Client> {
    let (client, connection) = tokio_postgres::connect(address, NoTls).await.context("the server of --store")?;
    // It ends with the client, and what went wrong on it is told by the client's own answers.
    tokio::spawn(async move { drop(connection.await) });
    Ok(client)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_beside_another_keeps_the_servers_address_and_options() {
        let of = |text: &str| ServerAddress(text.to_owned()).database("x");
        assert_eq!(of("postgres://me@host:1/postgres"), "postgres://me@host:1/x");
        assert_eq!(of("postgres://me:a@host"), "postgres://me:a@host/x");
        assert_eq!(of("postgresql://host/a?sslmode=disable"), "postgresql://host/x?sslmode=disable");
    }

    #[test]
    fn a_store_is_named_or_refused() {
        assert_eq!("sqlite".parse(), Ok(Store::Files));
        assert!(matches!("postgres://host/x".parse(), Ok(Store::Server(_))));
        assert_eq!("mysql://host/x".parse::<Store>(), Err(InvalidStore));
        assert!(!format!("{:?}", "postgres://me:secret@host/x".parse::<Store>()).contains("secret"));
    }
}
