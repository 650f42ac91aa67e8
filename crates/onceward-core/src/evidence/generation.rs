//! R4: under which generation of its outbound key an operation is sent after proof that nothing has happened so far.

use crate::contract::{Contract, Kept, SameInput};
use crate::event::Cause;
use crate::key::Generation;
use crate::operation::History;
use crate::state::{Disproved, Finding};

/// The generation whose key the next attempt sends.
///
/// It stays the one in use as long as that can be: the destination recognises it, should the proof be wrong after all. Where
/// the destination holds something else under that key (a stored error, other arguments), every repetition would be answered
/// with that, so the next attempt sends a new key. Lookups search the keys of all generations.
#[must_use]
pub fn next_generation(history: &History, contract: &Contract) -> Generation {
    match burnt(history, contract) {
        true => Generation(history.generation.0.saturating_add(1)),
        false => history.generation,
    }
}

/// Whether the destination answers the key in use with something that is not this operation's effect.
fn burnt(history: &History, contract: &Contract) -> bool {
    if contract.key.is_none() {
        return false;
    }
    let under_this_key = || history.disproved.iter().filter(|attempt| attempt.generation == history.generation);
    if under_this_key().any(|attempt| sent(attempt) && attempt.cause == Some(Cause::KeyMismatch)) {
        return true;
    }
    let errors = under_this_key().filter(|attempt| sent(attempt) && attempt.cause == Some(Cause::ServerError)).count();
    match (contract.same_input.behaviour, contract.same_input.saved.server_error) {
        (SameInput::ReplaysStored, Kept::Stored) => errors > 0,
        // A repetition runs.
        (_, Kept::NotStored | Kept::Reexecuted) | (SameInput::Continues, _) => false,
        // Nobody says whether it was stored. The same error under the same key, twice, speaks for it.
        (
            SameInput::ReplaysStored
            | SameInput::ReturnsCurrent
            | SameInput::ReturnsExistingResource
            | SameInput::RejectsDuplicateWithPointer
            | SameInput::RejectsDuplicateNoReceipt
            | SameInput::AcceptedNoEffect
            | SameInput::Undocumented,
            Kept::Stored | Kept::Unknown,
        ) => errors > 1,
    }
}

/// Whether the destination may have seen the key from this attempt.
const fn sent(attempt: &Disproved) -> bool {
    match attempt.finding {
        Finding::NotSent(_) => false,
        Finding::NoEffect(_) | Finding::Refused => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{NoEffect, NotSent};
    use crate::key::AttemptNumber;
    use crate::time::Timestamp;

    const KEYED: &str = r#"
id = "keyed"
version = 1
[key]
carriers = [{ in = "header", name = "Idempotency-Key" }]
[same_input]
behaviour = "replays_stored"
saved = { 2xx = "stored", 500 = "SAVED" }
"#;

    fn contract(saved: &str) -> Contract {
        Contract::parse(&KEYED.replace("SAVED", saved)).unwrap_or_else(|error| panic!("{error}"))
    }

    fn attempt(number: u32, cause: Option<Cause>, finding: Finding) -> Disproved {
        Disproved {
            attempt: AttemptNumber(number),
            generation: Generation(1),
            outbound_key: None,
            claimed_at: Timestamp::from_micros(0),
            send_before: Timestamp::from_micros(1),
            owner: None,
            finding,
            cause,
        }
    }

    fn generation_after(disproved: Vec<Disproved>, contract: &Contract) -> u32 {
        next_generation(&History { disproved, ..History::default() }, contract).0
    }

    const DECIDED: Finding = Finding::NoEffect(NoEffect::Decided);

    #[test]
    fn a_stored_error_burns_the_key_and_a_lost_reply_does_not() {
        let stores = contract("stored");
        let error = || attempt(1, Some(Cause::ServerError), DECIDED);
        assert_eq!(generation_after(Vec::new(), &stores), 1);
        assert_eq!(generation_after(vec![attempt(1, Some(Cause::ReplyLost), DECIDED)], &stores), 1);
        assert_eq!(generation_after(vec![error()], &stores), 2);
        // By proof of absence as by a decision.
        let absent = attempt(1, Some(Cause::ServerError), Finding::NoEffect(NoEffect::ProvedAbsent));
        assert_eq!(generation_after(vec![absent], &stores), 2);
        // The key of another generation burns only itself.
        let history = History { generation: Generation(2), disproved: vec![error()], ..History::default() };
        assert_eq!(next_generation(&history, &stores), Generation(2));
    }

    #[test]
    fn an_error_that_is_not_stored_burns_nothing_and_one_that_nobody_speaks_of_only_when_it_comes_again() {
        let error = |number| attempt(number, Some(Cause::ServerError), DECIDED);
        for saved in ["not_stored", "reexecuted"] {
            assert_eq!(generation_after(vec![error(1), error(2)], &contract(saved)), 1, "{saved}");
        }
        assert_eq!(generation_after(vec![error(1)], &contract("unknown")), 1);
        assert_eq!(generation_after(vec![error(1), error(2)], &contract("unknown")), 2);
    }

    #[test]
    fn other_arguments_under_our_key_burn_it_and_a_destination_without_keys_has_none_to_burn() {
        let mismatch = || attempt(1, Some(Cause::KeyMismatch), DECIDED);
        assert_eq!(generation_after(vec![mismatch()], &contract("not_stored")), 2);
        assert_eq!(generation_after(vec![mismatch()], &Contract::promising_nothing("none")), 1);
        let unsent = attempt(1, Some(Cause::ServerError), Finding::NotSent(NotSent::NeverBegun));
        assert_eq!(generation_after(vec![unsent], &contract("stored")), 1);
    }
}
