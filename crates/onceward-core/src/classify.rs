//! What an observed behaviour of a destination means for the effect: total, pure, and tested row by row.
//!
//! Each [`Classified`] names its row of the table in docs/contracts/classification.md. Nothing here decides whether another dispatch is
//! permitted: [`evidence`](crate::evidence) does, at the time it would be made.

mod facts;
mod http;
pub mod http_date;
mod mcp;

#[cfg(test)]
mod tests;

use core::time::Duration;

pub use facts::{AttemptFacts, Body, FunctionEnd, NoAnswer, Observed};
pub use http::kept_headers;
pub use mcp::{TOOL_RESULT, tool_payload, tool_text};

use crate::contract::{Contract, Kind};
use crate::event::{Cause, NoEffect, NotSent, OtherEffect, Verdict};
use crate::receipt::{Answer, Receipt, Rejection};

/// What an observation means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Classified {
    /// What was learned about the attempt.
    pub verdict: Verdict,
    /// The row of the table that decided, 0 for the rule that whatever is not listed may have had its effect.
    pub row: u8,
    /// What to do next.
    pub then: Next,
    /// A receipt that the verdict has no room for: it goes into the journal beside the disagreement, and is never dropped.
    pub late_receipt: Option<Receipt>,
    /// What a tool said that failed, where its words decide nothing: the journal keeps them for the person who has to.
    pub said: Option<String>,
}

/// What to do next. It is advice: whether a repetition is permitted is asked when it would be made (R6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Nothing: the verdict stands by itself.
    Settle,
    /// The same request with the same key.
    RetrySameKey {
        /// The destination's wish for patience.
        not_before: Option<Duration>,
    },
    /// Ask what became of the accepted work.
    Poll,
    /// Ask whether it exists, after that time.
    LookupAfter(Duration),
    /// Somebody executes the same key; wait, then the same key again.
    Wait {
        /// The destination's wish for patience.
        not_before: Option<Duration>,
    },
    /// A person.
    Operator,
    /// Mend the credential; then the same request with the same key.
    RefreshCredential,
}

/// What an observation means under a contract.
#[must_use]
pub fn classify(contract: &Contract, attempt: &AttemptFacts<'_>, observed: &Observed) -> Classified {
    match observed {
        Observed::HeldBack => not_sent(1, NotSent::HeldBack, Next::Settle),
        Observed::NotSent(why) => not_sent(2, *why, Next::RetrySameKey { not_before: None }),
        Observed::RefusedStream => refused_stream(contract),
        Observed::WriteFailed => lost(contract, 4, Cause::ReplyLost),
        Observed::NoAnswer(NoAnswer::TimedOut | NoAnswer::Reset | NoAnswer::Eof | NoAnswer::ReusedConnectionClosed) => {
            lost(contract, 5, Cause::ReplyLost)
        }
        Observed::OwnerLost => lost(contract, 6, Cause::OwnerLost),
        Observed::Http { status, headers, body } => http::classify(contract, attempt, *status, headers, body),
        Observed::McpError { code, message, data } => mcp::error(contract, attempt, *code, message, data.as_ref()),
        Observed::McpResult { is_error, answer, text } => mcp::result(contract, attempt, *is_error, answer, text),
        Observed::McpStreamLost => lost(contract, 28, Cause::ReplyLost),
        Observed::Function(end) => function(contract, attempt, end),
    }
}

/// How an application says that its own function ended.
fn function(contract: &Contract, attempt: &AttemptFacts<'_>, end: &FunctionEnd) -> Classified {
    match end {
        FunctionEnd::Done { effect_id, answer } => settled(
            8,
            Verdict::Effect(Receipt { effect_id: effect_id.clone(), answer: answer.clone(), received_at: attempt.now }),
        ),
        FunctionEnd::Refused(answer) => refused(13, answer.clone(), attempt),
        FunctionEnd::NothingSent => not_sent(2, NotSent::NoConnection, Next::RetrySameKey { not_before: None }),
        FunctionEnd::Failed => lost(contract, 5, Cause::FunctionFailed),
    }
}

fn refused_stream(contract: &Contract) -> Classified {
    if contract.execution.trusts_refused_stream {
        return turned_away(3, None);
    }
    lost(contract, 3, Cause::ReplyLost)
}

/// The effect is possible, and nothing was learned that a repetition could not use.
fn lost(contract: &Contract, row: u8, cause: Cause) -> Classified {
    classified(row, Verdict::Lost(cause), after_lost(contract, None))
}

/// What follows a lost reply: the same key where that is recognised even after a failure (R7), else a question, else a person.
fn after_lost(contract: &Contract, not_before: Option<Duration>) -> Next {
    match contract.kind() {
        Kind::K1 | Kind::K3 | Kind::I => Next::RetrySameKey { not_before },
        Kind::K2 if contract.execution.effect_atomic_with_key => Next::RetrySameKey { not_before },
        Kind::K2 | Kind::L | Kind::N => ask(contract),
    }
}

/// A question to the destination, or a person where there is none to ask.
fn ask(contract: &Contract) -> Next {
    match &contract.lookup {
        Some(lookup) if contract.finds_a_lost_effect() => {
            Next::LookupAfter(lookup.shown_after().map_or(Duration::ZERO, |delay| delay.duration()))
        }
        Some(_) | None => Next::Operator,
    }
}

fn not_sent(row: u8, why: NotSent, then: Next) -> Classified {
    classified(row, Verdict::NotSent(why), then)
}

fn turned_away(row: u8, not_before: Option<Duration>) -> Classified {
    classified(row, Verdict::NoEffect(NoEffect::TurnedAway), Next::RetrySameKey { not_before })
}

fn refused(row: u8, answer: Answer, attempt: &AttemptFacts<'_>) -> Classified {
    settled(row, Verdict::Refusal(Rejection { answer, received_at: attempt.now }))
}

fn disagrees(row: u8, other: OtherEffect, late_receipt: Option<Receipt>) -> Classified {
    Classified { verdict: Verdict::OtherEffect(other), row, then: Next::Operator, late_receipt, said: None }
}

fn settled(row: u8, verdict: Verdict) -> Classified {
    classified(row, verdict, Next::Settle)
}

const fn classified(row: u8, verdict: Verdict, then: Next) -> Classified {
    Classified { verdict, row, then, late_receipt: None, said: None }
}
