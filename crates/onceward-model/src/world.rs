//! Everything that there is at one moment: the ledger, the destination, what is between them, and who is at work.

use crate::destination::{Destination, Sent, Shown};
use crate::ledger::Ledger;

/// One moment.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World {
    /// The tick of everybody's clock.
    pub now: u8,
    /// The row and the journal.
    pub ledger: Ledger,
    /// The other side.
    pub destination: Destination,
    /// Requests on their way, in the order of their attempts.
    pub requests: Vec<Sent>,
    /// Answers on their way; any of them may arrive at any time.
    pub answers: Vec<Answered>,
    /// Owners that remember an attempt, each its own. An owner that is in nobody's list is dead.
    pub tasks: Vec<Task>,
    /// A lookup whose answer has not been read yet.
    pub asked: Option<Asked>,
    /// Requests of calls that conflict with the operation (only in a mutant).
    pub conflicts_sent: u8,
    /// Requests that a second entrance sent (only in a mutant).
    pub sent_directly: u8,
}

/// What an owner knows of the attempt that it made.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Task {
    /// The attempt.
    pub attempt: u32,
    /// No byte leaves in this tick or later.
    pub send_before: u8,
    /// How far it has come.
    pub stage: Stage,
}

/// How far an owner has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// It has sent without a claim, and is about to make one (only in a mutant).
    SentUnclaimed,
    /// It has its claim, and must announce that it begins.
    Claimed,
    /// It may send.
    Begun,
    /// It has sent, and waits.
    Sent,
    /// It has stopped waiting, and would still take an answer.
    GaveUp,
}

/// An answer on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Answered {
    /// To which attempt.
    pub attempt: u32,
    /// What it says.
    pub reply: Reply,
}

/// What the destination answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reply {
    /// It is done: this effect.
    Done(u8),
    /// It is too busy, and has done nothing.
    TurnedAway,
}

/// A lookup, as the destination answered it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Asked {
    /// When.
    pub at: u8,
    /// The attempts that were uncertain then.
    pub attempts: Vec<u32>,
    /// What was shown then.
    pub shown: Vec<Shown>,
}

impl World {
    /// The owner that remembers that attempt.
    #[must_use]
    pub fn task(&self, attempt: u32) -> Option<&Task> {
        self.tasks.iter().find(|task| task.attempt == attempt)
    }

    /// Adds an owner, in the order of attempts, so that equal worlds look equal.
    pub fn add_task(&mut self, task: Task) {
        self.tasks.push(task);
        self.tasks.sort_unstable();
    }

    /// Takes an owner away, with what it knows.
    pub fn drop_task(&mut self, attempt: u32) {
        self.tasks.retain(|task| task.attempt != attempt);
    }

    /// Moves an owner on.
    pub fn advance(&mut self, attempt: u32, stage: Stage) {
        for task in self.tasks.iter_mut().filter(|task| task.attempt == attempt) {
            task.stage = stage;
        }
        self.tasks.sort_unstable();
    }

    /// Puts a request on its way.
    pub fn send(&mut self, request: Sent) {
        self.requests.push(request);
        self.requests.sort_unstable();
    }

    /// Puts an answer on its way.
    pub fn answer(&mut self, answer: Answered) {
        self.answers.push(answer);
        self.answers.sort_unstable();
    }

    /// Whether a request is on its way or may still be sent: a careful person waits until none can be.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.requests.is_empty()
            && self.tasks.iter().all(|task| match task.stage {
                Stage::SentUnclaimed | Stage::Claimed | Stage::Begun => self.now >= task.send_before,
                Stage::Sent | Stage::GaveUp => true,
            })
    }
}
