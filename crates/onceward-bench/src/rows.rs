//! What is measured beside what.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result};
use onceward::core::outcome::Outcome;
use tokio::sync::Mutex;

use crate::Measure;
use crate::client::Client;
use crate::library::Library;
use crate::load::{self, Measured};
use crate::process::{self, Server};
use crate::raw::Raw;
use crate::report::{self, Report, Series};

pub(crate) const ARGUMENTS: &str =
    r#"{"customer":"c-4711","priority":2,"title":"the printer on floor three is broken"}"#;
pub(crate) const RECEIPT: &str = r#"{"id":"T-1001"}"#;

/// Measures everything that was asked for.
///
/// # Errors
/// When a server does not start, or a call fails.
pub(crate) async fn measure(measure: &Measure) -> Result<()> {
    std::fs::create_dir_all(&measure.folder)?;
    let mut report = Report::default();
    for &filled in &measure.filled {
        let folder = tempfile::tempdir_in(&measure.folder)?;
        in_process(measure, folder.path(), filled, &mut report).await?;
        through_http(measure, folder.path(), filled, &mut report).await?;
    }
    report::finish(&report, measure.output.as_deref())
}

const RAW_TWO: &str = "raw, two commits";
const RAW_ONE: &str = "raw, one commit";
const EXTERNAL: &str = "library, external";
const LOCAL: &str = "library, local";

/// The library against the raw writer, in this process.
async fn in_process(measure: &Measure, folder: &Path, filled: u64, report: &mut Report) -> Result<()> {
    let raw = Raw::open(&folder.join("raw.db"))?;
    fill_raw(&raw, filled).await?;
    let file = folder.join("library.db");
    let (library, store) = Library::open(&file).await?;
    rusqlite_table(&file)?;
    let written = process::bytes_written()?;
    library.fill(filled).await?;
    report.size("SQLite, the file and its log", filled, size(&file)? + size(&folder.join("library.db-wal"))?);
    report.size("SQLite, written to the disk", filled, process::bytes_written()? - written);
    library.call("replayed", Outcome::Executed).await?;
    let time = measure.time();
    for callers in measure.callers() {
        let mut series = vec![
            Series::new(RAW_TWO, &[]),
            Series::new(RAW_ONE, &[]),
            Series::new(EXTERNAL, &[RAW_TWO]),
            Series::new(LOCAL, &[RAW_ONE]),
            Series::new("library, replay", &[]),
        ];
        for _ in 0..measure.rounds {
            for one in series.iter_mut().filter(|one| measure.wants(one.what)) {
                let (raw, library, store) = (raw.clone(), library.clone(), Arc::clone(&store));
                let what = one.what;
                let measured = load::run(callers, time, move |_, _| {
                    let (raw, library, store) = (raw.clone(), library.clone(), Arc::clone(&store));
                    async move {
                        match what {
                            RAW_TWO => {
                                let id = fresh();
                                raw.claim(id.clone(), ARGUMENTS.to_owned()).await?;
                                raw.complete(id, RECEIPT.to_owned()).await
                            }
                            RAW_ONE => raw.both(fresh(), ARGUMENTS.to_owned(), RECEIPT.to_owned()).await,
                            EXTERNAL => library.call(&fresh(), Outcome::Executed).await,
                            LOCAL => library.local(&store, &fresh()).await,
                            _ => library.call("replayed", Outcome::Replayed).await,
                        }
                    }
                });
                one.rounds.push(measured.await?);
            }
        }
        report.add(series, filled, callers);
    }
    Ok(())
}

/// The gateway against HTTP with group commit and no rules, and against HTTP alone. All servers in processes of their own.
async fn through_http(measure: &Measure, folder: &Path, filled: u64, report: &mut Report) -> Result<()> {
    if !["http", "gateway"].iter().any(|what| measure.wants(what)) {
        return Ok(());
    }
    let myself = std::env::current_exe()?;
    let echo = Server::start(&myself, &["echo"], "listening on")?;
    let raw = folder.join("bare.db");
    let bare = Server::start(&myself, &["bare", path(&raw)?, &echo.address], "listening on")?;
    let gateway = gateway(measure, folder, &echo.address, filled).await?;
    let time = measure.time();
    for callers in measure.callers() {
        let mut series = vec![
            Series::new("http alone", &[]),
            Series::new("http + group commit", &[]),
            Series::new("gateway, external", &["http + group commit"]),
            Series::new("gateway, replay", &["http alone"]),
        ];
        for _ in 0..measure.rounds {
            let body: Request = Arc::new(|_| (String::new(), ARGUMENTS.to_owned()));
            series[0].rounds.push(post(callers, time, &echo.address, "/things", body.clone()).await?);
            series[1].rounds.push(post(callers, time, &bare.address, "/call", body).await?);
            let token = gateway.token.clone();
            let body: Request = Arc::new(move |_| {
                let headers = format!("authorization: Bearer {token}\r\nidempotency-key: {}\r\n", fresh());
                (headers, format!(r#"{{"arguments":{ARGUMENTS}}}"#))
            });
            let before = gateway.server.usage()?.0;
            let measured = post(callers, time, &gateway.server.address, CALLS, body).await?;
            let (after, resident) = gateway.server.usage()?;
            series[2].processor_us = Some((after - before) * 1e6 / (measured.per_second * time.as_secs_f64()));
            series[2].resident_mib = Some(resident);
            series[2].rounds.push(measured);
            let token = gateway.token.clone();
            let body: Request = Arc::new(move |_| {
                let headers = format!("authorization: Bearer {token}\r\nidempotency-key: replayed\r\n");
                (headers, format!(r#"{{"arguments":{ARGUMENTS}}}"#))
            });
            series[3].rounds.push(post(callers, time, &gateway.server.address, CALLS, body).await?);
        }
        report.add(series, filled, callers);
    }
    Ok(())
}

const CALLS: &str = "/v1/tools/create_thing/calls";

/// Headers and body of one request, by its number.
type Request = Arc<dyn Fn(u64) -> (String, String) + Send + Sync>;

async fn post(
    callers: usize,
    time: std::time::Duration,
    address: &str,
    path: &'static str,
    request: Request,
) -> Result<Measured> {
    let mut clients = Vec::new();
    for _ in 0..callers {
        clients.push(Mutex::new(Client::connect(address).await?));
    }
    let clients = Arc::new(clients);
    load::run(callers, time, move |caller, number| {
        let clients = Arc::clone(&clients);
        let request = Arc::clone(&request);
        async move {
            let (headers, body) = request(number);
            clients[caller].lock().await.post(path, &headers, &body).await
        }
    })
    .await
}

/// A running gateway and a credential for it.
struct Gateway {
    server: Server,
    token: Arc<str>,
}

async fn gateway(measure: &Measure, folder: &Path, echo: &str, filled: u64) -> Result<Gateway> {
    let program = match &measure.onceward {
        Some(program) => program.clone(),
        None => beside("onceward")?,
    };
    let ledger = folder.join("gateway.db");
    let config = folder.join("onceward.toml");
    std::fs::write(&config, configuration(&ledger, echo))?;
    if filled > 0 {
        Library::open(&ledger).await?.0.fill(filled).await?;
    }
    let token = token(&program, &ledger)?;
    let server = Server::start(&program, &["serve", "--config", path(&config)?], "listens on")?;
    let mut client = Client::connect(&server.address).await?;
    let headers = format!("authorization: Bearer {token}\r\nidempotency-key: replayed\r\n");
    client.post(CALLS, &headers, &format!(r#"{{"arguments":{ARGUMENTS}}}"#)).await?;
    Ok(Gateway { server, token: token.into() })
}

fn configuration(ledger: &Path, echo: &str) -> String {
    format!(
        r#"version = 1
ledger = "sqlite:{}"
listen = "127.0.0.1:0"

[destination.bench]
url = "http://{echo}"
contract = "none"
max_in_flight = 256

[destination.bench.tool.create_thing]
version = "1"
title = "Thing: {{/title}}"
description = "Makes a thing"
schema = {{ type = "object", required = ["title"], properties = {{ title = {{ type = "string" }} }} }}
request = {{ method = "POST", path = "/things", body = "arguments" }}
"#,
        ledger.display()
    )
}

/// Makes an agent's credential on the file, before the gateway holds it.
fn token(program: &Path, ledger: &Path) -> Result<String> {
    let output = std::process::Command::new(program)
        .args(["token", "create", "--ledger", path(ledger)?, "--tenant", "bench", "--principal", "bench"])
        .args(["--role", "agent", "--json"])
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let answer: serde_json::Value = serde_json::from_str(&text)
        .with_context(|| format!("`onceward token create`: {text}{}", String::from_utf8_lossy(&output.stderr)))?;
    Ok(answer["token"].as_str().context("no token in the answer")?.to_owned())
}

fn beside(name: &str) -> Result<PathBuf> {
    Ok(std::env::current_exe()?.parent().context("no folder")?.join(name))
}

fn path(path: &Path) -> Result<&str> {
    path.to_str().context("a path that is no text")
}

/// Time-ordered, as our own clients make them.
pub(crate) fn fresh() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    format!("{}-{}", uuid::Uuid::now_v7(), COUNT.fetch_add(1, Ordering::Relaxed))
}

async fn fill_raw(raw: &Raw, filled: u64) -> Result<()> {
    const CALLERS: u64 = 512;
    let tasks: Vec<_> = (0..CALLERS)
        .map(|caller| {
            let raw = raw.clone();
            tokio::spawn(async move {
                let mut number = caller;
                while number < filled {
                    raw.both(fresh(), ARGUMENTS.to_owned(), RECEIPT.to_owned()).await?;
                    number += CALLERS;
                }
                anyhow::Ok(())
            })
        })
        .collect();
    for task in tasks {
        task.await??;
    }
    Ok(())
}

fn size(file: &Path) -> Result<f64> {
    Ok(std::fs::metadata(file).with_context(|| format!("the size of {}", file.display()))?.len() as f64)
}

fn rusqlite_table(file: &Path) -> Result<()> {
    rusqlite::Connection::open(file)?
        .execute_batch("CREATE TABLE IF NOT EXISTS thing (id INTEGER PRIMARY KEY, title TEXT NOT NULL)")?;
    Ok(())
}
