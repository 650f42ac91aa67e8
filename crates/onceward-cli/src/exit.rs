//! How a command ends: its exit code, and what it says when it did not do what was asked.

use std::fmt;
use std::process::ExitCode;

/// How a command ended. docs/cli.md lists the codes; they never change their meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// It did what was asked.
    Done,
    /// It could not, or what it checked does not hold.
    Failed,
    /// The command line makes no sense.
    Usage,
    /// The operation is not settled: it may have happened, runs, or waits for a person.
    Unresolved,
    /// It was refused, and repeating the same will be refused again.
    Refused,
    /// Nothing was sent: the gateway could not be reached, or did not take it now. The same may be tried again.
    Unreachable,
}

impl Exit {
    /// The number that the process ends with.
    pub(crate) const fn number(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Unresolved => 3,
            Self::Refused => 4,
            Self::Unreachable => 5,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.number())
    }
}

/// Why a command ended otherwise: what happened, what did not, and what to do.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    /// What happened.
    pub(crate) what: String,
    /// What did not happen, where somebody could fear that it had.
    pub(crate) not: Option<String>,
    /// What to do.
    pub(crate) next: Option<String>,
}

impl Failure {
    pub(crate) fn new(exit: Exit, what: impl Into<String>) -> Self {
        Self { exit, what: what.into(), not: None, next: None }
    }

    /// And this did not happen.
    pub(crate) fn not(self, not: impl Into<String>) -> Self {
        Self { not: Some(not.into()), ..self }
    }

    /// And this is what to do.
    pub(crate) fn next(self, next: impl Into<String>) -> Self {
        Self { next: Some(next.into()), ..self }
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self::new(Exit::Failed, format!("{error:#}"))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "onceward: {}", self.what)?;
        for line in [&self.not, &self.next].into_iter().flatten() {
            write!(f, "\n  {line}")?;
        }
        Ok(())
    }
}
