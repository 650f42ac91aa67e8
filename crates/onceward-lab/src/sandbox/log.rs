//! The log of requests: each is written before it is looked at, and again when it is answered.

use rusqlite::{Connection, Row, params};
use serde_json::{Value, json};

use super::clock::rfc3339;
use super::limits::{REQUESTS_KEPT_MAX, REQUESTS_TRIM_EVERY};
use super::resource::Kind;
use super::store::{Epoch, Store, StoreError, rows};

/// A request as it arrived.
#[derive(Debug)]
pub(crate) struct Arrival<'a> {
    pub(crate) at_us: i64,
    pub(crate) method: &'a str,
    pub(crate) path: &'a str,
    pub(crate) query: Option<&'a str>,
    /// What it tries to make; its own resources also of requests that only read.
    pub(crate) resource: Option<&'a str>,
    pub(crate) account: Option<&'a str>,
    pub(crate) key: Option<&'a str>,
    pub(crate) marker: Option<&'a str>,
    pub(crate) fault: Option<String>,
}

/// How much of the answer was let through to the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Delivery {
    /// All of it.
    Whole,
    /// Not one byte.
    Nothing,
    /// It breaks off inside the headers.
    CutInHeaders,
    /// It breaks off inside the body.
    CutInBody,
    /// All of it, and the JSON breaks off.
    TruncatedJson,
    /// All of it, the second half late.
    Slow,
}

impl Delivery {
    fn name(self) -> &'static str {
        match self {
            Self::Whole => "whole",
            Self::Nothing => "nothing",
            Self::CutInHeaders => "cut_in_headers",
            Self::CutInBody => "cut_in_body",
            Self::TruncatedJson => "truncated_json",
            Self::Slow => "slow",
        }
    }
}

impl Store {
    /// Writes down that a request has arrived, and returns its number in the log.
    pub(crate) fn log_arrival(&self, epoch: Epoch, arrival: &Arrival<'_>) -> Result<i64, StoreError> {
        self.write(epoch, |transaction| {
            transaction
                .prepare_cached(
                    "INSERT INTO request (at_us, method, path, query, resource, account, key, marker, fault) \
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
                )?
                .execute(params![
                    arrival.at_us,
                    arrival.method,
                    arrival.path,
                    arrival.query,
                    arrival.resource,
                    arrival.account,
                    arrival.key,
                    arrival.marker,
                    arrival.fault,
                ])?;
            let sequence = transaction.last_insert_rowid();
            if sequence % REQUESTS_TRIM_EVERY == 0 {
                transaction.execute("DELETE FROM request WHERE sequence <= ?1", [sequence - REQUESTS_KEPT_MAX])?;
            }
            Ok(sequence)
        })
    }

    /// Writes down what the request is answered with. Without this the process ended while the request was under way.
    pub(crate) fn log_answer(
        &self,
        epoch: Epoch,
        sequence: i64,
        at_us: i64,
        status: u16,
        delivery: Delivery,
    ) -> Result<(), StoreError> {
        self.write(epoch, |transaction| {
            transaction
                .prepare_cached(
                    "UPDATE request SET answered_at_us = ?2, status = ?3, delivery = ?4 WHERE sequence = ?1",
                )?
                .execute(params![sequence, at_us, status, delivery.name()])?;
            Ok(())
        })
    }
}

/// The requests, oldest first, as the auditor sees them.
pub(crate) fn requests(connection: &Connection, limit: usize) -> rusqlite::Result<Vec<Value>> {
    let mut statement = connection.prepare_cached(
        "SELECT sequence, at_us, method, path, query, account, key, marker, fault, answered_at_us, status, delivery \
         FROM request ORDER BY sequence LIMIT ?1",
    )?;
    statement.query_map([rows(limit)], read_request)?.collect()
}

fn read_request(row: &Row<'_>) -> rusqlite::Result<Value> {
    Ok(json!({
        "sequence": row.get::<_, i64>(0)?,
        "at": rfc3339(row.get(1)?),
        "method": row.get::<_, String>(2)?,
        "path": row.get::<_, String>(3)?,
        "query": row.get::<_, Option<String>>(4)?,
        "account": row.get::<_, Option<String>>(5)?,
        "idempotency_key": row.get::<_, Option<String>>(6)?,
        "marker": row.get::<_, Option<String>>(7)?,
        "fault": row.get::<_, Option<String>>(8)?,
        "answered_at": row.get::<_, Option<i64>>(9)?.map(rfc3339),
        "status": row.get::<_, Option<u16>>(10)?,
        "delivery": row.get::<_, Option<String>>(11)?,
    }))
}

/// How many of the logged requests tried to make one of these things.
pub(crate) fn writes(connection: &Connection, resource: Option<&Kind>, account: Option<&str>) -> rusqlite::Result<i64> {
    connection.query_row(
        "SELECT count(*) FROM request WHERE (resource GLOB '/*' OR (method = 'POST' AND path = '/' || resource)) \
         AND (?1 IS NULL OR resource = ?1) AND (?2 IS NULL OR account = ?2)",
        params![resource.map(Kind::name), account],
        |row| row.get(0),
    )
}

/// For every key that was sent or that an effect carries: how many effects, and how many requests that tried to make one.
pub(crate) fn per_key(
    connection: &Connection,
    resource: Option<&Kind>,
    account: Option<&str>,
    limit: usize,
) -> rusqlite::Result<Vec<Value>> {
    let mut statement = connection.prepare_cached(
        "SELECT account, key, sum(effects), sum(requests) FROM ( \
           SELECT account, resource, idempotency_key AS key, 1 AS effects, 0 AS requests FROM effect \
             WHERE idempotency_key IS NOT NULL \
           UNION ALL \
           SELECT account, resource, key, 0, 1 FROM request \
             WHERE key IS NOT NULL AND (resource GLOB '/*' OR (method = 'POST' AND path = '/' || resource)) \
         ) WHERE (?1 IS NULL OR resource = ?1) AND (?2 IS NULL OR account = ?2) \
         GROUP BY account, key ORDER BY account, key LIMIT ?3",
    )?;
    statement
        .query_map(params![resource.map(Kind::name), account, rows(limit)], |row| {
            Ok(json!({
                "account": row.get::<_, Option<String>>(0)?,
                "idempotency_key": row.get::<_, String>(1)?,
                "effects": row.get::<_, i64>(2)?,
                "requests": row.get::<_, i64>(3)?,
            }))
        })?
        .collect()
}
