//! Many callers at once with one operation id.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use futures_util::future::join_all;
use serde_json::Value;

use super::repetitions::ticket;
use crate::lab::findings::Findings;
use crate::lab::stage::Stage;
use crate::process;
use crate::world::{Caller, Promise, SandboxProcess, ticket_in, ticket_of};

/// Every caller of a crowd waits for the same slow dispatch, so that they really meet.
const SLOW: &str = "delay_before_commit;ms=600";

/// Eight calls at once from one process.
pub(super) async fn concurrent_same_key(stage: &Stage) -> Result<Findings> {
    let (sandbox, gateway) = stage.both(Promise::Nothing).await?;
    let agent = gateway.agent("acme", "agent").await?;
    sandbox.break_next("/tickets", SLOW).await?;
    let wanted = ticket();
    let replies = join_all((0..8).map(|_| agent.call("create_ticket", "printer-1", &wanted))).await;
    let mut told = Vec::new();
    for reply in replies {
        told.push(ticket_of(&reply?));
    }
    crowd(&sandbox, "attempts", told).await
}

/// Sixteen calls from eight threads, each with a runtime and a connection of its own.
pub(super) async fn threads(stage: &Stage) -> Result<Findings> {
    let (sandbox, gateway) = stage.both(Promise::Nothing).await?;
    sandbox.break_next("/tickets", SLOW).await?;
    let agent = gateway.agent("acme", "agent").await?;
    let threads: Vec<_> = (0..8)
        .map(|_| {
            let agent = agent.clone();
            std::thread::spawn(move || calls_of_one_thread(&agent))
        })
        .collect();
    let told = tokio::task::spawn_blocking(move || {
        threads
            .into_iter()
            .map(|thread| thread.join().map_err(|_| anyhow::anyhow!("a calling thread panicked"))?)
            .collect::<Result<Vec<_>>>()
    })
    .await??;
    Ok(crowd(&sandbox, "calls", told.into_iter().flatten().collect()).await?.with("threads", 8))
}

fn calls_of_one_thread(agent: &Caller) -> Result<Vec<Option<String>>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut told = Vec::new();
        for _ in 0..2 {
            told.push(ticket_of(&agent.call("create_ticket", "printer-1", &ticket()).await?));
        }
        Ok(told)
    })
}

/// Sixteen calls from eight processes: the command line as a shell script would use it, two rounds of eight at once.
pub(super) async fn processes(stage: &Stage) -> Result<Findings> {
    let (sandbox, gateway) = stage.both(Promise::Nothing).await?;
    sandbox.break_next("/tickets", SLOW).await?;
    let agent = gateway.agent("acme", "agent").await?;
    let wanted = ticket().to_string();
    let url = gateway.url().to_owned();
    let arguments: Vec<&str> = vec![
        "call",
        "create_ticket",
        "--url",
        &url,
        "--token",
        agent.token(),
        "--operation-id",
        "printer-1",
        "--arguments",
        &wanted,
        "--json",
    ];
    let mut told = Vec::new();
    for _ in 0..2 {
        for output in join_all((0..8).map(|_| process::run(stage.binary(), &arguments))).await {
            let envelope: Value = serde_json::from_str(&output?).context("the command line printed no JSON")?;
            told.push(ticket_in(&envelope));
        }
    }
    Ok(crowd(&sandbox, "calls", told).await?.with("processes", 8))
}

async fn crowd(sandbox: &SandboxProcess, calls: &str, told: Vec<Option<String>>) -> Result<Findings> {
    let answered = told.iter().flatten().count();
    let different: BTreeSet<&String> = told.iter().flatten().collect();
    Ok(Findings::new()
        .with(calls, told.len())
        .with("tickets", sandbox.tickets().await?)
        .with("returned_ticket_ids", different.into_iter().cloned().collect::<Vec<_>>())
        .with("answered_with_a_ticket", answered))
}
