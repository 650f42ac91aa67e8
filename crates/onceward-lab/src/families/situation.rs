//! What goes wrong, and how a situation is played.

use anyhow::Result;
use serde_json::Value;

use super::family::{Absence, Family};
use crate::lab::until;
use crate::world::{Caller, GatewayProcess, SandboxProcess};

/// One thing that goes wrong with one call. Where the call is told that it is unknown and a check is scheduled, the gateway is
/// given time for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Situation {
    /// The effect happens and its reply is lost: a lookup finds it.
    LostReply,
    /// The request is lost on its way: a lookup finds nothing.
    LostRequest,
    /// The gateway is killed when the effect has happened and before it is answered, and started again.
    Crash,
    /// The destination does it and answers 500.
    ErrorAfterCommit,
    /// The destination rolls it back and answers 500.
    ErrorRolledBack,
    /// The first attempt is still at work there when its answer is given up: a second one would meet it.
    InFlight,
    /// The destination says that the thing exists already.
    AlreadyExists,
    /// The destination finds the request malformed.
    Malformed,
    /// The destination finds the request unacceptable.
    Unacceptable,
    /// The destination holds other arguments under the key.
    Mismatch,
    /// The answer comes after the caller was told that it is in progress.
    LateAnswer,
}

impl Situation {
    /// All, in the order in which they are played.
    pub(super) const ALL: [Self; 11] = [
        Self::LostReply,
        Self::LostRequest,
        Self::Crash,
        Self::ErrorAfterCommit,
        Self::ErrorRolledBack,
        Self::InFlight,
        Self::AlreadyExists,
        Self::Malformed,
        Self::Unacceptable,
        Self::Mismatch,
        Self::LateAnswer,
    ];

    /// Its name in the matrix.
    #[must_use]
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::LostReply => "lost reply",
            Self::LostRequest => "lost request",
            Self::Crash => "crash",
            Self::ErrorAfterCommit => "500 after commit",
            Self::ErrorRolledBack => "500 rolled back",
            Self::InFlight => "409 in flight",
            Self::AlreadyExists => "409 exists",
            Self::Malformed => "400",
            Self::Unacceptable => "422",
            Self::Mismatch => "mismatch",
            Self::LateAnswer => "late answer",
        }
    }

    const fn fault(self) -> &'static str {
        match self {
            Self::LostReply => "lose_reply_after_commit",
            Self::LostRequest => "cut_before_commit",
            Self::Crash => "delay_after_commit;ms=600000",
            Self::ErrorAfterCommit => "error_500_after_commit",
            Self::ErrorRolledBack => "error_500_rolled_back",
            // Two seconds longer than the gateway waits for an answer.
            Self::InFlight => "delay_before_commit;ms=8000",
            Self::AlreadyExists => "already_exists",
            Self::Malformed => "fail_before_commit;status=400",
            Self::Unacceptable => "fail_before_commit;status=422",
            Self::Mismatch => "key_mismatch",
            Self::LateAnswer => "delay_after_commit;ms=1500",
        }
    }
}

/// What came out of a situation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Cell {
    /// What the first call was told; `-` when it was told nothing.
    pub(super) first: String,
    /// What a repetition was told in the end.
    pub(super) last: String,
    /// Effects at the destination.
    pub(super) effects: i64,
    /// What an operator sees beside it.
    pub(super) remark: &'static str,
}

impl std::fmt::Display for Cell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { first, last, effects, remark } = self;
        write!(f, "{first}>{last} {effects}{remark}")
    }
}

/// One operation of one family.
pub(super) struct Play<'a> {
    pub(super) family: &'a Family,
    pub(super) sandbox: &'a SandboxProcess,
    pub(super) situation: Situation,
}

/// A call that a crash will interrupt.
pub(super) struct Interrupted {
    call: tokio::task::JoinHandle<bool>,
    before: i64,
}

impl Play<'_> {
    fn operation(&self) -> String {
        format!("{}-{}", self.family.slug(), self.situation.name().replace(' ', "-"))
    }

    fn arguments(&self) -> Value {
        let amount = Situation::ALL.iter().position(|known| *known == self.situation).unwrap_or_default();
        self.family.arguments(&self.operation(), 100 + u32::try_from(amount).unwrap_or_default())
    }

    async fn call(&self, caller: &Caller) -> String {
        match caller.call(&self.family.slug(), &self.operation(), &self.arguments()).await {
            Ok(reply) => said(&reply.body, reply.status),
            Err(_) => "-".to_owned(),
        }
    }

    /// Plays any situation but a crash.
    pub(super) async fn play(&self, agent: &Caller, operator: &Caller) -> Result<Cell> {
        let (before, _) = self.sandbox.everything().await?;
        self.sandbox.break_writes(self.family.path(), self.situation.fault(), 1).await?;
        let first = match self.situation {
            Situation::LateAnswer => {
                let (tool, id) = (self.family.slug(), self.operation());
                let told = agent.call_and_not_wait(&tool, &id, &self.arguments()).await?;
                self.wait_until_settled(operator).await?;
                said(&told.body, told.status)
            }
            _ => self.call(agent).await,
        };
        if self.situation == Situation::InFlight {
            self.wait_for_an_effect(before).await?;
        }
        self.sandbox.mend().await?;
        self.wait_for_the_gateway(operator).await?;
        self.cell(agent, operator, first, before).await
    }

    /// Begins the call that a crash will interrupt, and returns when its effect is there.
    pub(super) async fn begin(&self, agent: &Caller) -> Result<Interrupted> {
        let (before, _) = self.sandbox.everything().await?;
        self.sandbox.break_writes(self.family.path(), self.situation.fault(), 1).await?;
        let (caller, tool, id, arguments) = (agent.clone(), self.family.slug(), self.operation(), self.arguments());
        let call = tokio::spawn(async move { caller.call(&tool, &id, &arguments).await.is_ok() });
        self.wait_for_an_effect(before).await?;
        Ok(Interrupted { call, before })
    }

    async fn wait_for_an_effect(&self, before: i64) -> Result<()> {
        until("the effect at the destination", || async {
            Ok((self.sandbox.everything().await?.0 > before).then_some(()))
        })
        .await
    }

    /// After the crash and a new start.
    pub(super) async fn end(&self, agent: &Caller, operator: &Caller, interrupted: Interrupted) -> Result<Cell> {
        let answered = interrupted.call.await?;
        self.wait_for_the_gateway(operator).await?;
        let first = if answered { "answered" } else { "-" };
        self.cell(agent, operator, first.to_owned(), interrupted.before).await
    }

    async fn cell(&self, agent: &Caller, operator: &Caller, first: String, before: i64) -> Result<Cell> {
        let last = self.call(agent).await;
        let (after, _) = self.sandbox.everything().await?;
        let operation = operator.operation_as_it_is(&self.operation()).await?;
        let remark = match &operation["disagreement"] {
            Value::Null => "",
            _ => "!",
        };
        Ok(Cell { first, last, effects: after - before, remark })
    }

    async fn wait_until_settled(&self, operator: &Caller) -> Result<()> {
        until("the end of the attempt", || async {
            let operation = operator.operation_as_it_is(&self.operation()).await?;
            Ok((operation["state"] != "pending").then_some(()))
        })
        .await
    }

    /// Waits while the gateway has something to do by itself: until the operation is settled or waits for a person, or the
    /// destination has been asked twice (its journal tells) and did not say.
    async fn wait_for_the_gateway(&self, operator: &Caller) -> Result<()> {
        let before = operator.lookups_of(&self.operation()).await?;
        let over = async || {
            if self.family.absence == Absence::Proof {
                // Finding nothing counts only after the bound; an operator's question is one like the gateway's own.
                operator.look_up(&self.operation()).await?;
            }
            let operation = operator.operation_as_it_is(&self.operation()).await?;
            let waits_for_a_person = operation["next_check"].is_null();
            let looked = operator.lookups_of(&self.operation()).await? >= before + 2;
            let asked = looked && self.family.absence == Absence::Nothing;
            let over = match operation["state"].as_str() {
                Some("unknown") => waits_for_a_person || asked,
                Some("pending") | None => false,
                Some(_) => true,
            };
            Ok(over.then_some(()))
        };
        // Longer than the longest of what is scheduled; what is not over by then is told as it stands.
        let _ = until("what the gateway does by itself", over).await;
        Ok(())
    }
}

/// What a caller was told, in one word; of an unknown, who settles it.
fn said(body: &Value, status: u16) -> String {
    let outcome = body["outcome"].as_str().or_else(|| body["code"].as_str());
    match (outcome, body["settles_by"].as_str()) {
        (Some("unknown"), Some("person")) => "unknown".to_owned(),
        (Some("unknown"), _) => "unknown(checked)".to_owned(),
        (Some(outcome), _) => outcome.to_owned(),
        (None, _) => status.to_string(),
    }
}

/// A running gateway's callers.
pub(super) async fn callers(gateway: &GatewayProcess) -> Result<(Caller, Caller)> {
    Ok((gateway.agent("acme", "agent").await?, gateway.operator("acme", "ines").await?))
}
