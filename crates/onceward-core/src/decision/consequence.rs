//! What follows from each choice, computed by making it: the events of the choice go through the machine, and what becomes of
//! the operation is put into words. A choice that the machine refuses is shown with the reason.

use serde::Serialize;

use super::{Choice, ChoiceKind, Evidence, Reason};
use crate::contract::Contract;
use crate::evidence::{NoRedrive, RedriveCase, ScopeEquality, may_redrive, next_generation, recognised_until};
use crate::key::{AttemptNumber, Generation, OutboundKey, Principal};
use crate::limits::ATTEMPTS_MAX;
use crate::operation::{Dispatcher, Operation, Pin};
use crate::receipt::Answer;
use crate::state::State;
use crate::step::Refusal;
use crate::time::Timestamp;

/// Everything that consequences are computed from.
#[derive(Clone, Copy)]
pub struct DecisionCase<'a> {
    /// The operation as it stands.
    pub operation: &'a Operation,
    /// Who runs another attempt.
    pub runs: Runs,
    /// The contract that it was made with; `None` where it was made with none.
    pub pinned: Option<&'a Contract>,
    /// The contract that holds now; `None` where the tool is not configured here now.
    pub current: Option<&'a Contract>,
    /// Whether it would be sent to the same account, mode and region.
    pub scope: ScopeEquality,
    /// The outbound key of each generation.
    pub keys: &'a dyn Fn(Generation) -> OutboundKey,
    /// The time.
    pub now: Timestamp,
}

/// Who runs another attempt of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runs {
    /// Onceward sends it to its destination.
    Destination,
    /// The application that claims it runs a function of its own.
    Application,
}

/// A choice as it is shown before anybody takes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Which.
    pub choice: ChoiceKind,
    /// Whether it can be taken, and what follows from it.
    pub offered: Offered,
}

/// Whether a choice can be taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Offered {
    /// It can.
    Legal(Consequence),
    /// It cannot, where the operation stands.
    NotLegal {
        /// Why.
        because: String,
    },
}

/// What follows from a choice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Consequence {
    /// The state that it leads to.
    pub state: &'static str,
    /// The key that goes out next, where something is sent again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_key: Option<NextKey>,
    /// Whether it can make a second effect.
    pub second_effect: SecondEffect,
    /// The whole of it in words.
    pub words: String,
}

/// The key that the next attempt sends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NextKey {
    /// Its generation.
    pub generation: Generation,
    /// Its text.
    pub key: OutboundKey,
    /// Whether the destination may know it.
    pub is: KeyUse,
}

/// Whether the destination may know the key that goes out next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyUse {
    /// An earlier attempt has sent it.
    Same,
    /// No attempt has: under the earlier one the destination holds something else.
    New,
}

/// Whether a choice can make a second effect, should an earlier attempt have had its effect after all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SecondEffect {
    /// No: nothing is sent by it.
    Excluded,
    /// Not before then, by the destination's word: it recognises the key.
    ExcludedUntil(Timestamp),
    /// Yes.
    Possible,
}

/// Every choice, in the order in which they are shown.
#[must_use]
pub fn offers(case: &DecisionCase<'_>) -> Vec<Offer> {
    ChoiceKind::ALL.map(|choice| Offer { choice, offered: offered(choice, case) }).into()
}

/// What happens if nobody decides, in one sentence.
#[must_use]
pub fn without_a_decision(case: &DecisionCase<'_>) -> String {
    let operation = case.operation;
    let contradicted = operation.history.in_disagreement();
    let next = match &operation.state {
        State::Unknown(unknown) => match unknown.next_check() {
            Some(at) if operation.terms.pin.as_ref().is_some_and(Pin::is_own_function) => {
                format!("From {at} on its application is to look for it; nobody else does.")
            }
            Some(at) => format!("The next automatic check is at {at}."),
            None => "No automatic check is scheduled.".to_owned(),
        },
        State::Pending(_) => "An attempt is running; its end, or recovery, moves it.".to_owned(),
        State::Proposed(_) => "It waits for approval.".to_owned(),
        State::Approved(_) if contradicted => {
            "It is not sent before somebody has looked at the contradiction.".to_owned()
        }
        State::Approved(_) => "It is sent when its call is repeated.".to_owned(),
        State::Succeeded(_) | State::Rejected(_) | State::Closed(_) => "It is settled and stays as it is.".to_owned(),
    };
    match (&operation.state, redrive(case)) {
        (State::Unknown(_), Some(Ok(until))) if !contradicted => {
            format!("{next} Until {} a repetition of the call sends the same key again.", end(until))
        }
        (_, _) => next,
    }
}

fn end(until: Timestamp) -> String {
    if until == Timestamp::from_micros(i64::MAX) { "further notice".to_owned() } else { until.to_string() }
}

fn offered(choice: ChoiceKind, case: &DecisionCase<'_>) -> Offered {
    match after(choice, case) {
        Ok(after) => Offered::Legal(consequence(choice, case, &after)),
        Err(refusal) => Offered::NotLegal { because: because(choice, case.operation, &refusal) },
    }
}

/// The operation as the choice would leave it.
fn after(choice: ChoiceKind, case: &DecisionCase<'_>) -> Result<Operation, Refusal> {
    let answer = || Answer { status: 200, headers: Vec::new(), body: Vec::new() };
    let sample = match choice {
        ChoiceKind::ConfirmedDone => Choice::ConfirmedDone { effect_id: None, answer: answer() },
        ChoiceKind::ConfirmedNotDone => Choice::ConfirmedNotDone,
        ChoiceKind::DispatchAgain => Choice::DispatchAgain,
        ChoiceKind::Refused => Choice::Refused { answer: answer() },
        ChoiceKind::SupersededBy => Choice::SupersededBy(case.operation.key.id.clone()),
        ChoiceKind::Wait => Choice::Wait { until: None },
        ChoiceKind::Acknowledge => Choice::Acknowledge,
    };
    let evidence = Evidence { reason: Reason::StillLooking, text: None, file: None };
    let by: &Principal = &case.operation.terms.principal;
    let events = sample.events(case.operation, &evidence, by, case.now);
    events.iter().try_fold(case.operation.clone(), |operation, event| operation.step(event, case.now))
}

fn consequence(choice: ChoiceKind, case: &DecisionCase<'_>, after: &Operation) -> Consequence {
    let mut words = Vec::new();
    let (mut next_key, mut second_effect) = (None, SecondEffect::Excluded);
    match choice {
        ChoiceKind::ConfirmedDone => words.push(confirmed_done(case.operation)),
        ChoiceKind::ConfirmedNotDone => words.push(
            "The operation is closed; every repetition is told that it was not done, and nothing is sent again. An effect that \
             shows itself later is recorded as a disagreement and changes nothing."
                .to_owned(),
        ),
        ChoiceKind::DispatchAgain => (next_key, second_effect) = dispatch_again(case, after, &mut words),
        ChoiceKind::Refused => words.push(
            "The operation is rejected; every repetition gets the answer given here as the destination's refusal, and nothing is \
             sent again. A corrected call is a new operation."
                .to_owned(),
        ),
        ChoiceKind::SupersededBy => words.push(superseded(case.operation)),
        ChoiceKind::Wait => words.push(wait(case.operation)),
        ChoiceKind::Acknowledge => words.push(format!(
            "The contradiction counts as seen and leaves the list of what waits for somebody. The operation stays {}, with what is \
             recorded in it.",
            after.state.name()
        )),
    }
    if let (true, false) = (case.operation.history.in_disagreement(), choice == ChoiceKind::Acknowledge) {
        words.push(match after.history.in_disagreement() {
            true => "The contradiction stays open.".to_owned(),
            false => "The contradiction counts as seen.".to_owned(),
        });
    }
    Consequence { state: after.state.name(), next_key, second_effect, words: words.join(" ") }
}

fn confirmed_done(operation: &Operation) -> String {
    let said = "The operation succeeds; every repetition gets the receipt given here, and nothing is sent again.";
    match operation.state.uncertain() {
        [] => format!("{said} That contradicts what is recorded of its attempts, and is marked as a disagreement."),
        [_] => said.to_owned(),
        [.., latest] => format!(
            "{said} The receipt counts as that of attempt {}; what became of the other uncertain attempts is not looked for any \
             more.",
            latest.attempt.0
        ),
    }
}

fn superseded(operation: &Operation) -> String {
    let sent = match operation.state.uncertain() {
        [] => "nothing was sent for it",
        [..] => "whether it was done is not established",
    };
    format!("The operation is closed and names its replacement; {sent}, and nothing is sent again under its id.")
}

fn wait(operation: &Operation) -> String {
    let scheduled = match &operation.state {
        State::Unknown(unknown) => unknown.next_check(),
        State::Proposed(_)
        | State::Approved(_)
        | State::Pending(_)
        | State::Succeeded(_)
        | State::Rejected(_)
        | State::Closed(_) => None,
    };
    match scheduled {
        Some(at) => format!(
            "Nothing moves. The next automatic check, at {at} now, is put off until the time given here; without one it stays."
        ),
        None => {
            "Nothing moves, and no automatic check is scheduled; it is recorded that somebody has looked.".to_owned()
        }
    }
}

/// The key that goes out next, and what becomes of an earlier effect.
fn dispatch_again(
    case: &DecisionCase<'_>,
    after: &Operation,
    words: &mut Vec<String>,
) -> (Option<NextKey>, SecondEffect) {
    let (operation, history) = (case.operation, &after.history);
    match &after.state {
        State::Proposed(_) => words.push(
            "The operation waits for approval, since nobody is known to have given it; only after that it is sent."
                .to_owned(),
        ),
        State::Approved(_)
        | State::Pending(_)
        | State::Unknown(_)
        | State::Succeeded(_)
        | State::Rejected(_)
        | State::Closed(_) => {}
    }
    if let Some(deadline) = operation.terms.deadline.filter(|deadline| *deadline <= case.now) {
        words.push(format!("Its deadline passed at {deadline}: nothing is sent, and the next call closes it."));
        return (None, SecondEffect::Excluded);
    }
    if history.attempts.saturating_sub(history.never_left) >= ATTEMPTS_MAX {
        words.push(format!("It has had {ATTEMPTS_MAX} attempts, which is the most: nothing is sent any more."));
        return (None, SecondEffect::Excluded);
    }
    let attempt = history.attempts + 1;
    if case.runs == Runs::Application {
        words.push(format!(
            "The next claim with this operation id is granted as attempt {attempt}, and the application runs its function again. If \
             an earlier attempt had its effect after all, this makes a second one, unless the function itself recognises its key."
        ));
        let key = (case.keys)(history.generation);
        let next = NextKey { generation: history.generation, key, is: KeyUse::Same };
        return (Some(next), SecondEffect::Possible);
    }
    let (Some(_), Some(contract)) = (case.pinned, case.current) else {
        words.push(format!(
            "Its tool is not configured here now; once it is, the next call with this operation id is sent as attempt {attempt}. If an \
             earlier attempt had its effect after all, this makes a second one."
        ));
        return (None, SecondEffect::Possible);
    };
    let who = match operation.terms.dispatch {
        Dispatcher::Caller => "The next call with this operation id is sent",
        Dispatcher::Auto => "It is sent by the dispatcher",
    };
    if contract.key.is_none() {
        words.push(format!(
            "{who} as attempt {attempt}, without a key: the destination takes none. If an earlier attempt had its effect after \
             all, this makes a second one."
        ));
        return (None, SecondEffect::Possible);
    }
    let generation = next_generation(history, contract);
    let key = (case.keys)(generation);
    if generation != history.generation {
        words.push(format!(
            "{who} as attempt {attempt}, under a new key, {key} (generation {}): under the one sent before, the destination holds \
             something else, such as a stored error, and would answer with that. It does not recognise the new key, so that this \
             makes a second effect if an earlier attempt had its effect after all.",
            generation.0
        ));
        return (Some(NextKey { generation, key, is: KeyUse::New }), SecondEffect::Possible);
    }
    let same =
        format!("{who} as attempt {attempt}, under the same key as before, {key} (generation {}).", generation.0);
    let second_effect = match redrive(case) {
        Some(Ok(until)) => {
            words.push(format!(
                "{same} The destination recognises it until {}, so that until then no second effect is made, even if an earlier \
                 attempt had its effect after all.",
                end(until)
            ));
            SecondEffect::ExcludedUntil(until)
        }
        Some(Err(why)) => {
            words.push(format!(
                "{same} If an earlier attempt had its effect after all, this may make a second one: {}.",
                unprotected(&why)
            ));
            SecondEffect::Possible
        }
        None => {
            words.push(format!("{same} If an earlier attempt had its effect after all, this may make a second one."));
            SecondEffect::Possible
        }
    };
    (Some(NextKey { generation, key, is: KeyUse::Same }), second_effect)
}

/// Until when the same key may be sent again by the contract's word; `None` where no contract speaks.
fn redrive(case: &DecisionCase<'_>) -> Option<Result<Timestamp, NoRedrive>> {
    let (pinned, current) = (case.pinned?, case.current?);
    let redrive = RedriveCase {
        pinned,
        current,
        scope: case.scope,
        uncertain: case.operation.state.uncertain(),
        disproved: &case.operation.history.disproved,
        last_attempt: AttemptNumber(case.operation.history.attempts),
        now: case.now,
    };
    Some(may_redrive(&redrive).map(|permit| permit.valid_until()))
}

/// The nearest moment after which a way out is closed for good: the end of the time in which the destination recognises the
/// key. `None` where there is no such moment, or it has passed.
#[must_use]
pub fn irreversible_at(case: &DecisionCase<'_>) -> Option<Timestamp> {
    recognised_until(&RedriveCase {
        pinned: case.pinned?,
        current: case.current?,
        scope: case.scope,
        uncertain: case.operation.state.uncertain(),
        disproved: &case.operation.history.disproved,
        last_attempt: AttemptNumber(case.operation.history.attempts),
        now: case.now,
    })
}

/// Why the destination's word does not cover another dispatch under the same key.
fn unprotected(why: &NoRedrive) -> String {
    match why {
        NoRedrive::NothingUncertain => "no attempt is uncertain now".to_owned(),
        NoRedrive::KeyNotPlaced => "an earlier attempt went out without a key".to_owned(),
        NoRedrive::NotRecognised => "the destination does not promise to recognise a key".to_owned(),
        NoRedrive::OnlySuccessesStored => {
            "the destination stores successes only, and does not say that the effect is one with the key".to_owned()
        }
        NoRedrive::HorizonUnsaid => "nobody says how long the destination recognises a key".to_owned(),
        NoRedrive::HorizonPassed { since } => {
            format!("the time in which the destination surely recognises the key ended at {since}")
        }
        NoRedrive::ClockWentBack { first_claimed_at } => {
            format!("the clock stands before the first attempt, which was claimed at {first_claimed_at}")
        }
        NoRedrive::InFlightUnsaid => {
            "nobody says what happens to a key that is still being executed, nor for how long that can be".to_owned()
        }
        NoRedrive::InFlight { until } => format!("an earlier attempt may still be executed until {until}"),
        NoRedrive::OtherScope => "it would go to another account, mode or region than before".to_owned(),
        NoRedrive::ScopeUnprovable => {
            "it cannot be proved that it would go to the same account, mode and region".to_owned()
        }
        NoRedrive::GenerationsMixed => "the uncertain attempts went out under different keys".to_owned(),
        NoRedrive::Hearsay => "what is known of the destination is not known well enough".to_owned(),
        NoRedrive::KeyMismatch => "the destination holds other arguments under the key".to_owned(),
        NoRedrive::Accepted => "the destination has accepted it and may still do it".to_owned(),
        NoRedrive::AlreadyExists => "the destination says that it exists".to_owned(),
    }
}

/// Why a choice cannot be taken where the operation stands.
fn because(choice: ChoiceKind, operation: &Operation, refusal: &Refusal) -> String {
    if let (ChoiceKind::Acknowledge, State::Unknown(_), false) =
        (choice, &operation.state, operation.history.in_disagreement())
    {
        return Refusal::NothingToAcknowledge.to_string();
    }
    match (&operation.state, refusal) {
        (State::Pending(_), _) => {
            "an attempt is running; wait until it has ended, or until recovery has found its owner gone".to_owned()
        }
        (State::Unknown(_), Refusal::Uncertain) => {
            "an attempt is uncertain: what the contradiction means is decided with what became of that attempt"
                .to_owned()
        }
        (State::Proposed(_), _) => "nothing was sent; it waits for approval, and is approved or declined".to_owned(),
        (State::Approved(_), _) => "no attempt is uncertain; its caller sends it again or withdraws it".to_owned(),
        (State::Succeeded(_) | State::Rejected(_) | State::Closed(_), Refusal::Settled) => format!(
            "it is settled ({}), and a settled operation is moved by nothing; evidence against it is recorded as a disagreement",
            operation.state.name()
        ),
        (State::Unknown(_) | State::Succeeded(_) | State::Rejected(_) | State::Closed(_), other) => other.to_string(),
    }
}
