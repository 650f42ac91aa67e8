//! What would become of an attempt under a contract, asked of the rules themselves: for lists, documents and checks, which
//! would otherwise say what somebody remembers of the rules.

use core::fmt;
use core::time::Duration;

use super::{Contract, Meaning, Predicate, ResponseRule, Span, words};
use crate::classify::{AttemptFacts, Body, Next, NoAnswer, Observed, classify};
use crate::event::{Cause, NoEffect, Verdict};
use crate::evidence::{NextCheck, NoRedrive, RedriveCase, ScopeEquality, may_redrive, next_check_after};
use crate::key::{AttemptNumber, Generation, OutboundKey};
use crate::state::Uncertain;
use crate::time::Timestamp;

/// Which attempt of an operation is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// The first.
    First,
    /// One that repeats the key of an attempt that may have had its effect.
    Repetition,
}

/// What would become of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Becomes {
    /// It is done, and the receipt is stored.
    Done,
    /// It is refused, and nothing happened.
    Refused,
    /// Nothing happened; it is sent again within its budget.
    SentAgain,
    /// Nothing happened; it is sent again once the credential is mended.
    CredentialMended,
    /// It may have happened, and the same key is sent again.
    Repeated {
        /// How long after the first claim at the earliest.
        from: Duration,
        /// Until how long after the first claim; `None` without end.
        until: Option<Duration>,
    },
    /// It may have happened, and the destination is asked.
    LookedUp {
        /// How long after the attempt for the first time.
        from: Duration,
        /// Why the key is not sent again instead; `None` where the same answer would come again.
        why: Option<NoRedrive>,
    },
    /// It may have happened, and a person settles it.
    Person {
        /// Why the key is not sent again instead; `None` where the same answer would come again.
        why: Option<NoRedrive>,
    },
    /// An effect exists that was not asked for, or not only: a person looks at it.
    Disagreement,
}

/// Something that may be seen of an attempt, and what becomes of the operation then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// What is seen, in words.
    pub seen: String,
    /// When it is seen of the first attempt.
    pub first: Becomes,
    /// When it is seen of a repetition, while the first attempt is uncertain.
    pub repetition: Becomes,
}

impl Contract {
    /// What becomes of an operation, by what is seen of an attempt: the general cases first, then those that this contract
    /// tells apart by its own word.
    #[must_use]
    pub fn cases(&self) -> Vec<Case> {
        let observed = |seen: &str, observed: &Observed| Case {
            seen: seen.to_owned(),
            first: self.becomes(Which::First, observed),
            repetition: self.becomes(Which::Repetition, observed),
        };
        let answer = |status, body| Observed::Http { status, headers: Vec::new(), body };
        let mut cases = vec![
            observed("no answer, or the owner is lost", &Observed::NoAnswer(NoAnswer::TimedOut)),
            observed("a success that is cut off", &answer(200, Body::Cut(Vec::new()))),
        ];
        for status in [202, 400, 401, 409, 422, 429, 500, 503] {
            cases.push(observed(&status.to_string(), &answer(status, Body::Whole(Vec::new()))));
        }
        let told_apart = [
            (self.in_flight.when.as_ref(), Meaning::InFlight),
            (self.other_input.when.as_ref(), Meaning::KeyMismatch),
            (self.same_input.duplicate.as_ref(), Meaning::AlreadyExists),
        ];
        let rules = self.responses.iter().map(|rule| (Some(&rule.when), rule.is));
        for (when, meaning) in told_apart.into_iter().chain(rules) {
            cases.extend(when.map(|when| Case {
                seen: format!("{}: {}", words::meaning(meaning), words::words(when)),
                first: self.meaning_becomes(Which::First, meaning),
                repetition: self.meaning_becomes(Which::Repetition, meaning),
            }));
        }
        cases
    }

    /// What would become of an attempt of which this was seen.
    #[must_use]
    pub fn becomes(&self, which: Which, observed: &Observed) -> Becomes {
        let repeats = which == Which::Repetition;
        let facts =
            AttemptFacts { redrive: repeats, earlier_uncertain: repeats, arguments: None, now: Timestamp::EPOCH };
        let classified = classify(self, &facts, observed);
        match classified.verdict {
            Verdict::Effect(_) => Becomes::Done,
            // The earlier attempt stays uncertain (R3), whatever is known about this one.
            Verdict::Refusal(_) if repeats => self.unknown(Cause::ReplyLost, Next::Operator),
            Verdict::NotSent(_) | Verdict::NoEffect(_) if repeats => {
                self.unknown(Cause::ReplyLost, Next::RetrySameKey { not_before: None })
            }
            Verdict::Refusal(_) => Becomes::Refused,
            Verdict::NoEffect(NoEffect::CredentialRefused) => Becomes::CredentialMended,
            Verdict::NotSent(_) | Verdict::NoEffect(_) => Becomes::SentAgain,
            Verdict::Lost(cause) => self.unknown(cause, classified.then),
            Verdict::OtherEffect(_) => Becomes::Disagreement,
        }
    }

    /// What would become of a first attempt whose answer never came.
    #[must_use]
    pub fn lost_reply_becomes(&self) -> Becomes {
        self.becomes(Which::First, &Observed::NoAnswer(NoAnswer::TimedOut))
    }

    /// What would become of an attempt that is answered with that status and nothing that the contract knows more about.
    #[must_use]
    pub fn status_becomes(&self, which: Which, status: u16) -> Becomes {
        self.becomes(which, &Observed::Http { status, headers: Vec::new(), body: Body::Whole(Vec::new()) })
    }

    /// What would become of an attempt whose answer means that by the contract's own word.
    #[must_use]
    pub fn meaning_becomes(&self, which: Which, meaning: Meaning) -> Becomes {
        if meaning == Meaning::AlreadyExists && which == Which::Repetition && self.same_input.existing.is_some() {
            let cause = Cause::AlreadyExists { handle: Some("it".to_owned()) };
            return self.unknown(cause, Next::LookupAfter(Duration::ZERO));
        }
        let mut contract = self.clone();
        contract.responses.insert(0, ResponseRule { when: Predicate::StatusClass(vec![4]), is: meaning });
        contract.status_becomes(which, 418)
    }

    fn unknown(&self, cause: Cause, advice: Next) -> Becomes {
        let sent = Timestamp::EPOCH;
        let uncertain = [Uncertain {
            attempt: AttemptNumber(1),
            generation: Generation(1),
            outbound_key: self
                .key
                .as_ref()
                .and_then(|_| OutboundKey::parse("01234567-89ab-8def-8123-456789abcdef").ok()),
            claimed_at: sent,
            send_before: sent,
            ended_at: Some(sent),
            cause,
            absences: 0,
            absent_at: None,
        }];
        let case = |now| RedriveCase {
            pinned: self,
            current: self,
            scope: ScopeEquality::Same,
            uncertain: &uncertain,
            disproved: &[],
            last_attempt: AttemptNumber(1),
            now,
        };
        let why = || may_redrive(&case(sent)).err();
        match next_check_after(advice, &case(sent)) {
            NextCheck::Redrive { at } => match may_redrive(&case(at)) {
                Ok(permit) => {
                    let until = permit.valid_until();
                    let until = (until != Timestamp::from_micros(i64::MAX)).then(|| until.since(sent));
                    Becomes::Repeated { from: at.since(sent), until }
                }
                Err(why) => Becomes::Person { why: Some(why) },
            },
            NextCheck::Lookup { at } => Becomes::LookedUp { from: at.since(sent), why: why() },
            NextCheck::Person => Becomes::Person { why: why() },
        }
    }
}

impl Becomes {
    /// Why the same key is not sent again, where that is so.
    #[must_use]
    pub fn why_not_repeated(&self) -> Option<&'static str> {
        match self {
            Self::LookedUp { why, .. } | Self::Person { why } => {
                Some(why.as_ref().map_or("a repetition would be answered the same", NoRedrive::in_short))
            }
            Self::Done
            | Self::Refused
            | Self::SentAgain
            | Self::CredentialMended
            | Self::Repeated { .. }
            | Self::Disagreement => None,
        }
    }
}

impl fmt::Display for Becomes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Done => f.write_str("done"),
            Self::Refused => f.write_str("refused, nothing happened"),
            Self::SentAgain => f.write_str("nothing happened, sent again"),
            Self::CredentialMended => f.write_str("nothing happened, sent again with a mended credential"),
            Self::Repeated { from, until } => {
                f.write_str("the same key again")?;
                if !from.is_zero() {
                    write!(f, " after {}", Span::from(*from))?;
                }
                match until {
                    Some(until) => write!(f, ", for {}", Span::from(*until)),
                    None => f.write_str(", without end"),
                }
            }
            Self::LookedUp { from, .. } => write!(f, "a lookup after {}", Span::from(*from)),
            Self::Person { .. } => f.write_str("a person"),
            Self::Disagreement => f.write_str("a disagreement, for a person"),
        }
    }
}

impl NoRedrive {
    /// The reason in a few words, for a table.
    #[must_use]
    pub const fn in_short(&self) -> &'static str {
        match self {
            Self::NothingUncertain => "nothing is uncertain",
            Self::KeyNotPlaced => "no key was sent",
            Self::NotRecognised => "no repetition is recognised",
            Self::OnlySuccessesStored => "only successes are surely stored",
            Self::HorizonUnsaid => "how long a key is recognised is not said",
            Self::HorizonPassed { .. } => "the key may be forgotten",
            Self::ClockWentBack { .. } => "the clock went back",
            Self::InFlightUnsaid => "what happens to a key in use is not said",
            Self::InFlight { .. } => "the key may still be in use",
            Self::OtherScope => "it would go to another account, mode or region",
            Self::ScopeUnprovable => "the same account, mode and region cannot be proved",
            Self::GenerationsMixed => "attempts used different keys",
            Self::Hearsay => "a part that it relies on is not known well enough",
            Self::KeyMismatch => "the key was used with other input",
            Self::Accepted => "it was accepted for later",
            Self::AlreadyExists => "it exists, says the destination",
        }
    }
}
