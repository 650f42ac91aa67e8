//! What a transport saw, in words that no transport owns.

use serde_json::Value;

use crate::event::NotSent;
use crate::key::EffectId;
use crate::receipt::Answer;
use crate::time::Timestamp;

/// What is known about the attempt that an observation belongs to.
#[derive(Clone, Copy, Debug)]
pub struct AttemptFacts<'a> {
    /// Whether it repeats a key that an earlier attempt may have used.
    pub redrive: bool,
    /// Whether an earlier attempt of the operation is uncertain.
    pub earlier_uncertain: bool,
    /// What the operation asked for, where the answer is to be compared with it.
    pub arguments: Option<&'a Value>,
    /// The time.
    pub now: Timestamp,
}

impl AttemptFacts<'_> {
    /// Whether something of this operation may be at the destination already.
    pub(super) const fn repeats(&self) -> bool {
        self.redrive || self.earlier_uncertain
    }
}

/// What was seen of one dispatch. A caller that hangs up is not among it: that changes nothing, and the answer is awaited
/// and kept all the same (row 7).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Observed {
    /// We did not send it: a budget, a breaker, a kill switch.
    HeldBack,
    /// Not one byte left this machine.
    NotSent(NotSent),
    /// The peer says that it did not look at the request: REFUSED_STREAM, or a GOAWAY below it.
    RefusedStream,
    /// Writing failed before the request was complete.
    WriteFailed,
    /// It was sent, and no answer came.
    NoAnswer(NoAnswer),
    /// Whoever held it is gone, and the dispatch may have begun.
    OwnerLost,
    /// An HTTP answer.
    Http {
        /// The status.
        status: u16,
        /// All headers.
        headers: Vec<(String, String)>,
        /// The body.
        body: Body,
    },
    /// A JSON-RPC error.
    McpError {
        /// Its code.
        code: i64,
        /// Its message.
        message: String,
        /// Its data.
        data: Option<Value>,
    },
    /// The result of a tool.
    McpResult {
        /// What its `isError` says.
        is_error: bool,
        /// The whole result as JSON.
        answer: Answer,
        /// The text of its content.
        text: String,
    },
    /// The session or stream ended, or the call was cancelled, before a result.
    McpStreamLost,
    /// The end of an application's own function.
    Function(FunctionEnd),
}

/// A body as it arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// All of it.
    Whole(Vec<u8>),
    /// It ended early, or was larger than is kept.
    Cut(Vec<u8>),
}

impl Body {
    /// What arrived.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Whole(bytes) | Self::Cut(bytes) => bytes,
        }
    }
}

/// How it came that no answer came. All mean the same; people read them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoAnswer {
    /// Time ran out.
    TimedOut,
    /// The connection was reset.
    Reset,
    /// The connection ended.
    Eof,
    /// A connection that had been used before closed. It cannot be told whether the peer had read the request.
    ReusedConnectionClosed,
}

/// How an application says that its own function ended. It is the application's word, given with the claim's secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FunctionEnd {
    /// The effect happened.
    Done {
        /// The effect's id, where the application knows it.
        effect_id: Option<EffectId>,
        /// What is replayed.
        answer: Answer,
    },
    /// The destination refused it and nothing happened.
    Refused(Answer),
    /// The function ended before it sent anything.
    NothingSent,
    /// It failed; nobody knows how far it came.
    Failed,
}
