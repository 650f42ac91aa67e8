//! What observe mode saw: which calls would have been held, replayed or refused, with examples and the money they are about.

use std::collections::BTreeMap;
use std::sync::Arc;

use onceward_core::key::ToolName;
use onceward_core::operation::Operation;
use onceward_core::outcome::Outcome;
use onceward_core::sighting::{Sighting, WouldBe};
use onceward_core::time::Timestamp;
use onceward_destinations::amount::Amount;
use onceward_destinations::tool::{Effect, Mode};
use onceward_ledger::authorize::Grant;
use onceward_ledger::store::{DisagreementOnly, Filter};
use rust_decimal::Decimal;
use serde::Serialize;

use crate::app::App;
use crate::limits::{PAGE_MAX, REPORT_EXAMPLES_MAX, REPORT_ROWS_MAX};
use crate::problem::Problem;

/// What was seen since a time.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// From when on (RFC 3339).
    pub since: String,
    /// Whether every operation since then was looked at; a ledger with more of them than one report reads says `false`.
    pub complete: bool,
    /// Tools that are observed now.
    pub observed_tools: Vec<String>,
    /// Calls that were observed.
    pub calls: u64,
    /// Of them, those that would have been sent.
    pub clean: u64,
    /// The others, by what they would have come to.
    pub blocked: Vec<Group>,
}

/// Calls that would have come to the same.
#[derive(Clone, Debug, Serialize)]
pub struct Group {
    /// In one word: an outcome, or the code of a refusal.
    pub would: &'static str,
    /// What that is: `held`, `replayed` or `refused`.
    pub blocked_as: BlockedAs,
    /// How many calls.
    pub calls: u64,
    /// By tool.
    pub tools: BTreeMap<String, u64>,
    /// What they are about, added up by currency, where the tool says where its amount stands.
    pub amounts: BTreeMap<String, Decimal>,
    /// The newest of them.
    pub examples: Vec<Example>,
}

/// How a call would have been kept from being sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BlockedAs {
    /// It would have waited: for another attempt, for evidence or for a person.
    Held,
    /// It would have been told what is recorded.
    Replayed,
    /// It would have been turned away.
    Refused,
}

/// One call.
#[derive(Clone, Debug, Serialize)]
pub struct Example {
    /// The operation that it was recorded as.
    pub operation_id: String,
    /// The operation that it met.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub met: Option<String>,
    /// What it calls.
    pub tool: String,
    /// One line for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Whose call it was.
    pub principal: String,
    /// When it was made (RFC 3339).
    pub at: String,
    /// What it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub amount: Option<String>,
}

fn blocked_as(would: WouldBe) -> Option<BlockedAs> {
    match would {
        WouldBe::Sent | WouldBe::Redriven => None,
        WouldBe::Refused(_) => Some(BlockedAs::Refused),
        WouldBe::Told(outcome) => Some(match outcome {
            Outcome::PossibleDuplicate
            | Outcome::InProgress
            | Outcome::Unknown
            | Outcome::ApprovalRequired
            | Outcome::NotDispatched => BlockedAs::Held,
            Outcome::Conflict => BlockedAs::Refused,
            Outcome::Executed
            | Outcome::Replayed
            | Outcome::Recovered
            | Outcome::Rejected
            | Outcome::Closed
            | Outcome::Expired => BlockedAs::Replayed,
        }),
    }
}

impl Report {
    fn since(since: Timestamp, observed_tools: Vec<String>) -> Self {
        let since = since.to_string();
        Self { since, complete: true, observed_tools, calls: 0, clean: 0, blocked: Vec::new() }
    }

    /// Counts an observed call in. They come newest first.
    fn add(&mut self, operation: &Operation, sighting: &Sighting, amount: Option<Amount>) {
        self.calls += 1;
        let Some(blocked_as) = blocked_as(sighting.would) else {
            self.clean += 1;
            return;
        };
        let would = sighting.would.name();
        let place = self.blocked.iter().position(|group| group.would == would).unwrap_or_else(|| {
            self.blocked.push(Group {
                would,
                blocked_as,
                calls: 0,
                tools: BTreeMap::new(),
                amounts: BTreeMap::new(),
                examples: Vec::new(),
            });
            self.blocked.len() - 1
        });
        let group = &mut self.blocked[place];
        group.calls += 1;
        *group.tools.entry(operation.binding.tool.to_string()).or_default() += 1;
        if let Some(amount) = &amount {
            let sum = group.amounts.entry(amount.currency.clone()).or_default();
            *sum = sum.saturating_add(amount.value);
        }
        if group.examples.len() < REPORT_EXAMPLES_MAX {
            group.examples.push(Example {
                operation_id: operation.key.id.to_string(),
                met: sighting.met.as_ref().map(ToString::to_string),
                tool: operation.binding.tool.to_string(),
                title: operation.terms.title.clone(),
                principal: operation.terms.principal.to_string(),
                at: operation.created_at.to_string(),
                amount: amount.map(|amount| format!("{} {}", amount.value, amount.currency)),
            });
        }
    }

    fn finished(mut self) -> Self {
        self.blocked.sort_by(|one, other| (other.calls, one.would).cmp(&(one.calls, other.would)));
        self
    }
}

impl App {
    /// What observe mode saw since a time, of the operations that the grant reads.
    ///
    /// # Errors
    /// [`Problem`]: the ledger could not be read.
    pub async fn report(&self, grant: &Grant, since: Timestamp) -> Result<Report, Problem> {
        let mut report = Report::since(since, self.observed_tools(grant));
        let mut filter = Filter {
            tenant: grant.tenant().clone(),
            states: Vec::new(),
            tool: None,
            disagreement_only: DisagreementOnly::No,
            after: None,
            limit: PAGE_MAX,
        };
        let mut looked_at = 0;
        loop {
            let page = self.ledger().list(grant, filter.clone()).await?;
            looked_at += u64::from(filter.limit);
            for operation in &page.operations {
                if operation.created_at < since {
                    return Ok(report.finished());
                }
                if let Some(sighting) = &operation.terms.sighting {
                    report.add(operation, sighting, self.amount_of(operation));
                }
            }
            match page.next {
                None => return Ok(report.finished()),
                Some(_) if looked_at >= REPORT_ROWS_MAX => {
                    report.complete = false;
                    return Ok(report.finished());
                }
                Some(next) => filter.after = Some(next),
            }
        }
    }

    fn observed_tools(&self, grant: &Grant) -> Vec<String> {
        let tools = self.tools_of(grant);
        let tools = tools.iter().filter(|tool| tool.mode() == Mode::Observe && tool.effect() == Effect::Write);
        let proxies = self.catalog().proxies().filter(|proxy| {
            let reached = |tool: &ToolName| grant.tools().iter().any(|pattern| pattern.matches(tool));
            proxy.mode() == Mode::Observe && reached(proxy.tool())
        });
        let mut names: Vec<String> = tools.map(|tool| tool.name().to_string()).collect();
        names.extend(proxies.map(|proxy| proxy.tool().to_string()));
        names.sort();
        names
    }

    /// What an operation is about, as its tool says now.
    fn amount_of(&self, operation: &Operation) -> Option<Amount> {
        let arguments = operation.binding.arguments.present()?;
        let name = &operation.binding.tool;
        match self.catalog().tool(name) {
            Some(tool) => tool.amount()?.read(arguments.value()),
            None => self.catalog().proxy_of_tool(name).map(Arc::clone)?.amount()?.read(arguments.value()),
        }
    }
}
