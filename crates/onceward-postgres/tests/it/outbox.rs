//! The outbox in the transactions of a business in the same database.

use std::sync::Arc;

use onceward_cluster::Database;
use onceward_core::outbound::LedgerSecret;
use onceward_ledger::outbox::Entry;
use onceward_ledger::store::{BoxFuture, Opening, Store};
use onceward_ledger::testkit::now;
use onceward_ledger::testkit::outbox::{End, Stage, exercise_outbox};
use onceward_postgres::tokio_postgres::{Client, NoTls};
use onceward_postgres::{PostgresStore, approve_in};

use crate::suite::options;

/// A database with the ledger, and a table of the business.
struct Shop {
    database: Database,
}

impl Shop {
    async fn new() -> Self {
        let database = Database::make().unwrap();
        drop(PostgresStore::open(database.url(), options()).await.unwrap());
        database.sql("CREATE TABLE orders (id text PRIMARY KEY)").unwrap();
        Self { database }
    }

    async fn client(&self) -> Client {
        let (client, connection) = onceward_postgres::tokio_postgres::connect(self.database.url(), NoTls).await.unwrap();
        tokio::spawn(connection);
        client
    }
}

impl Stage for Shop {
    fn secret(&self) -> LedgerSecret {
        options().secret
    }

    fn open(&self) -> BoxFuture<'_, Arc<dyn Store>> {
        Box::pin(async {
            Arc::new(PostgresStore::open(self.database.url(), options()).await.unwrap()) as Arc<dyn Store>
        })
    }

    fn business(&self, openings: Vec<Opening>, end: End) -> BoxFuture<'_, Vec<Entry>> {
        Box::pin(async move {
            let mut client = self.client().await;
            let transaction = client.transaction().await.unwrap();
            let mut entries = Vec::new();
            for opening in openings {
                let id = opening.operation.key.id.to_string();
                let entry = approve_in(&transaction, opening, now()).await.unwrap();
                if let Entry::Added(_) = entry {
                    transaction.execute("INSERT INTO orders VALUES ($1)", &[&id]).await.unwrap();
                }
                entries.push(entry);
            }
            match end {
                End::Committed => transaction.commit().await.unwrap(),
                End::RolledBack => transaction.rollback().await.unwrap(),
            }
            entries
        })
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_outbox_on_postgres_does_what_every_outbox_must() {
    exercise_outbox(|| async { Box::new(Shop::new().await) as Box<dyn Stage> }).await;
}
