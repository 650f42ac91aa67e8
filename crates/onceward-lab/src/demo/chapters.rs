//! The three chapters of the demo. Each does what it tells, and adds what it found.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::http::{NoReply, Reply};
use crate::lab::Findings;
use crate::table::Table;
use crate::world::{Decision, GatewayProcess, SandboxProcess, ticket_of};

/// The agent without Onceward writes to an account of its own, so that its tickets are counted by themselves.
pub(super) const NAIVE_ACCOUNT: &str = "naive";

/// The account of whoever names none, as the gateway does here.
pub(super) const GATEWAY_ACCOUNT: &str = "default";

/// Characters of a line of the story.
const LINE_CHARS: usize = 112;

const LOSE_REPLY: &str = "lose_reply_after_commit";

fn ticket() -> Value {
    json!({ "title": "Printer on fire", "body": "It burns. Please come." })
}

/// Chapter 1: what happens everywhere.
pub(super) async fn without_onceward(
    sandbox: &SandboxProcess,
    findings: Findings,
    tell: &mut impl FnMut(&str),
) -> Result<Findings> {
    let account = ("Authorization", "Bearer sandbox-naive");
    let mut table = Table::new(&["call", "what the agent sees", "tickets there are"]);
    let first = sandbox.create("/tickets", &ticket(), &[account, ("Sandbox-Fault", LOSE_REPLY)]).await;
    let count = sandbox.count_of("tickets", NAIVE_ACCOUNT).await?;
    table.row(&["create_ticket", &seen(&first), &count.to_string()]);
    let second = sandbox.create("/tickets", &ticket(), &[account]).await;
    let count = sandbox.count_of("tickets", NAIVE_ACCOUNT).await?;
    table.row(&["create_ticket, again", &seen(&second), &count.to_string()]);
    tell(&format!(
        "1. Without Onceward\n   The helpdesk commits the ticket, and its reply is lost on the way. The agent does what every \
         framework does.\n\n{}\n",
        indented(&table)
    ));
    Ok(findings)
}

/// What a caller of the helpdesk itself sees.
fn seen(reply: &Result<Reply, NoReply>) -> String {
    match reply {
        Ok(reply) => format!("{} {}", reply.status, reply.text("/id")),
        Err(lost) => format!("nothing: {lost}"),
    }
}

/// Chapter 2: the same fault, with an operation id.
pub(super) async fn through_onceward(
    sandbox: &SandboxProcess,
    gateway: &GatewayProcess,
    findings: Findings,
    tell: &mut impl FnMut(&str),
) -> Result<Findings> {
    let agent = gateway.agent("acme", "agent").await?;
    let mut table = Table::new(&["call", "outcome", "receipt", "tickets there are"]);
    sandbox.break_next("/tickets", LOSE_REPLY).await?;
    let first = agent.call("create_ticket", "printer-4711", &ticket()).await?;
    add(&mut table, "create_ticket printer-4711", &first, sandbox, "tickets").await?;
    let second = agent.call("create_ticket", "printer-4711", &ticket()).await?;
    add(&mut table, "the same, again", &second, sandbox, "tickets").await?;
    let other = json!({ "title": "Printer on ice", "body": "It burns. Please come." });
    let other = agent.call("create_ticket", "printer-4711", &other).await?;
    add(&mut table, "the same id, another title", &other, sandbox, "tickets").await?;
    tell(&format!(
        "2. Through Onceward: the call has an operation id, printer-4711\n   The same reply is lost. The helpdesk recognises \
         the key that the gateway sent with it, so the gateway may ask\n   again under that key, and finds the ticket. Every \
         repetition gets the stored receipt. Another title under\n   the same id is another intention: a conflict at {}, and \
         nothing is sent.\n\n{}\n",
        other.text("/differences/0/at"),
        indented(&table)
    ));
    Ok(findings
        .with("first_outcome", first.text("/outcome"))
        .with("second_outcome", second.text("/outcome"))
        .with("other_words_outcome", other.text("/outcome")))
}

/// Chapter 3: a destination that promises nothing, a killed gateway, and a person.
pub(super) async fn nobody_knows(
    sandbox: &SandboxProcess,
    gateway: GatewayProcess,
    findings: Findings,
    tell: &mut impl FnMut(&str),
) -> Result<Findings> {
    let agent = gateway.agent("acme", "agent").await?;
    let operator = gateway.operator("acme", "ines").await?;
    let order = json!({ "item": "fire extinguisher", "quantity": 1 });
    let mut table = Table::new(&["what happens", "outcome", "receipt", "orders there are"]);
    sandbox.break_next("/orders", LOSE_REPLY).await?;
    let lost = agent.call("create_order", "order-17", &order).await?;
    add(&mut table, "create_order order-17", &lost, sandbox, "orders").await?;
    let repeated = agent.call("create_order", "order-17", &order).await?;
    add(&mut table, "the same, again", &repeated, sandbox, "orders").await?;
    let gateway = gateway.kill().await?.start().await?;
    let (agent, operator) = (gateway.again(&agent), gateway.again(&operator));
    let status = agent.status("order-17").await?;
    add(&mut table, "kill -9, start again, ask for its status", &status, sandbox, "orders").await?;
    let audit = sandbox.audit("orders").await?;
    let found = audit["effects"][0]["id"].as_str().context("the shop has no order")?.to_owned();
    let evidence = format!("looked into the shop: {found} is the only order, placed at that time");
    operator.decide("order-17", &Decision::confirmed_done(&found, &evidence)).await?.succeeded("the decision")?;
    let settled = agent.call("create_order", "order-17", &order).await?;
    add(&mut table, "a person looks and decides; the same, again", &settled, sandbox, "orders").await?;
    tell(&format!(
        "3. A destination that promises nothing\n   The shop knows no keys. Nobody can know whether a lost order was placed, \
         and so nobody sends it again: not the\n   agent, not a restarted gateway. It stays unknown until there is evidence. A \
         person looks into the shop and\n   records what was found; from then on the receipt is replayed.\n\n{}\n\n   What the \
         agent was told\n{}\n",
        indented(&table),
        wrapped(lost.text("/message"))
    ));
    Ok(findings
        .with("lost_order_outcome", lost.text("/outcome"))
        .with("repeated_order_outcome", repeated.text("/outcome"))
        .with("order_state_after_restart", status.text("/state"))
        .with("decided_order_outcome", settled.text("/outcome")))
}

/// A row: what was called, what was told, and what the destination really has.
async fn add(table: &mut Table, call: &str, reply: &Reply, sandbox: &SandboxProcess, resource: &str) -> Result<()> {
    let count = sandbox.count_of(resource, GATEWAY_ACCOUNT).await?.to_string();
    let receipt = ticket_of(reply).unwrap_or_else(|| "–".to_owned());
    table.row(&[call, reply.text("/outcome"), &receipt, &count]);
    Ok(())
}

/// A long sentence in lines that fit a terminal, set off from the story.
fn wrapped(text: &str) -> String {
    let mut lines = vec![String::from("   >")];
    for word in text.split_whitespace() {
        if lines.last().is_some_and(|line| line.chars().count() + word.chars().count() >= LINE_CHARS) {
            lines.push(String::from("   >"));
        }
        if let Some(line) = lines.last_mut() {
            line.push(' ');
            line.push_str(word);
        }
    }
    lines.join("\n")
}

fn indented(table: &Table) -> String {
    let lines: Vec<String> = table.to_string().lines().map(|line| format!("   {line}")).collect();
    lines.join("\n")
}
