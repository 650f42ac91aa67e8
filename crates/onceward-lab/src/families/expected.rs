//! What must come out, written by hand from the table of classification, row by row.
//!
//! `first>last n`: what the first call is told, what a repetition is told in the end, and how many effects there are. `-` is
//! no answer at all; `unknown(checked)` an unknown that the gateway looks into by itself, and `unknown` one that waits for a
//! person; `!` a disagreement that an operator sees.

use super::situation::Situation;

/// What must come out of a family, in the order of [`Situation::ALL`]; the empty text where a situation does not exist.
type Line = [&'static str; 11];

// A repetition is recognised: whatever was lost is fetched by sending the same key again.
const FETCHED: &str = "recovered>replayed 1";
const FETCHED_AFTER_A_CRASH: &str = "->replayed 1";
// Nothing is recognised and nothing can be asked.
const A_PERSON_1: &str = "unknown>unknown 1";
const A_PERSON_0: &str = "unknown>unknown 0";
const A_PERSON_AFTER_A_CRASH: &str = "->unknown 1";
// A lookup finds the effect, or finds nothing, which proves nothing.
const FOUND: &str = "unknown(checked)>replayed 1";
const NOT_FOUND: &str = "unknown(checked)>unknown(checked) 0";
const PROVED_ABSENT: &str = "unknown(checked)>executed 1";
const REFUSED: &str = "rejected>rejected 0";
// Other arguments under our key, although nobody else has it: never sent again, under no key.
const MISMATCH: &str = "unknown>unknown 0!";
const LATE: &str = "in_progress>replayed 1";
const NONE: &str = "";

/// A destination that recognises the key, and shows what it was asked for twice.
const RECOGNISES: Line =
    [FETCHED, FETCHED, FETCHED_AFTER_A_CRASH, FETCHED, FETCHED, FETCHED, NONE, REFUSED, FETCHED, MISMATCH, LATE];

/// A destination of which too little is known, and that cannot be asked.
const NOTHING: Line = [
    A_PERSON_1,
    A_PERSON_0,
    A_PERSON_AFTER_A_CRASH,
    A_PERSON_1,
    A_PERSON_0,
    A_PERSON_1,
    NONE,
    REFUSED,
    A_PERSON_0,
    NONE,
    LATE,
];

/// A destination of which too little is known, and that can be asked.
const ASKED: Line =
    [FOUND, NOT_FOUND, FETCHED_AFTER_A_CRASH, FOUND, NOT_FOUND, FOUND, NONE, REFUSED, NOT_FOUND, NONE, LATE];

/// The line with other cells in some situations.
const fn with(mut line: Line, cells: &[(Situation, &'static str)]) -> Line {
    let mut at = 0;
    while at < cells.len() {
        line[cells[at].0 as usize] = cells[at].1;
        at += 1;
    }
    line
}

use Situation::{
    AlreadyExists, ErrorAfterCommit, ErrorRolledBack, InFlight, LostReply, LostRequest, Mismatch, Unacceptable,
};

const EXPECTED: &[(&str, Line)] = &[
    (
        "stripe.v1",
        with(
            RECOGNISES,
            &[
                // R8: what is not marked as a replay may be a second payment, and the vendor is not asked again by itself.
                (LostRequest, "unknown>unknown 1!"),
                // Row 22: the stored 500 would be given again for ever, so the list is asked.
                (ErrorAfterCommit, FOUND),
                (ErrorRolledBack, NOT_FOUND),
                // A status that the contract does not list is as good as a server error, and as surely stored.
                (Unacceptable, NOT_FOUND),
            ],
        ),
    ),
    // In flight is unsaid, and nothing can be asked.
    ("stripe.v2", NOTHING),
    ("stripe.v2 + in flight", with(RECOGNISES, &[(Mismatch, NONE)])),
    ("paypal.orders.v2", with(RECOGNISES, &[(AlreadyExists, REFUSED), (Unacceptable, REFUSED)])),
    // The horizon is unsaid.
    ("square.payments", with(NOTHING, &[(Mismatch, MISMATCH)])),
    // In flight is unsaid; the lookup needs the pointer that only a repetition would give.
    ("gocardless", with(NOTHING, &[(AlreadyExists, REFUSED), (Unacceptable, REFUSED)])),
    (
        "gocardless + in flight",
        with(
            RECOGNISES,
            &[
                // Row 17: the repetition is refused with a pointer, which is read and compared.
                (LostReply, FOUND),
                (ErrorAfterCommit, FOUND),
                (InFlight, FOUND),
                (AlreadyExists, REFUSED),
                (Unacceptable, REFUSED),
                (Mismatch, NONE),
            ],
        ),
    ),
    ("increase", with(ASKED, &[(Mismatch, MISMATCH)])),
    ("zendesk", with(ASKED, &[(Unacceptable, REFUSED), (Mismatch, MISMATCH)])),
    ("resend", with(RECOGNISES, &[(Unacceptable, REFUSED)])),
    ("github", with(ASKED, &[(Unacceptable, REFUSED)])),
    ("jira", with(ASKED, &[(Unacceptable, REFUSED)])),
    ("svix", with(ASKED, &[(AlreadyExists, REFUSED), (Unacceptable, REFUSED)])),
    // R7: only successes are stored, and the effect is not one with its key.
    ("acp.checkout", with(NOTHING, &[(Unacceptable, REFUSED), (Mismatch, MISMATCH)])),
    ("acp.checkout + atomic", with(RECOGNISES, &[(Unacceptable, REFUSED)])),
    ("oasis.repeatable", with(NOTHING, &[(Mismatch, MISMATCH)])),
    ("oasis.repeatable + atomic", RECOGNISES),
    // The horizon is unsaid. A bare 422 speaks of other arguments only in a repetition.
    ("ietf.idempotency_key", with(NOTHING, &[(Mismatch, A_PERSON_0)])),
    // From hearsay.
    ("generic.success_only", NOTHING),
    ("generic.lookup_only", ASKED),
    (
        "generic.lookup_only + bound",
        with(ASKED, &[(LostRequest, PROVED_ABSENT), (ErrorRolledBack, PROVED_ABSENT), (Unacceptable, PROVED_ABSENT)]),
    ),
    ("none", NOTHING),
    (
        "none + precondition",
        with(
            RECOGNISES,
            &[
                // Row 20: our own write has moved the version, or somebody else's has.
                (LostReply, A_PERSON_1),
                (Situation::Crash, A_PERSON_AFTER_A_CRASH),
                (ErrorAfterCommit, A_PERSON_1),
                (Mismatch, NONE),
            ],
        ),
    ),
];

/// What must come out of a family in a situation; nothing where the situation does not exist for it.
pub(super) fn expected(family: &str, situation: Situation) -> Option<&'static str> {
    let (_, line) = EXPECTED.iter().find(|(name, _)| *name == family)?;
    Some(line[situation as usize]).filter(|cell| !cell.is_empty())
}

#[cfg(test)]
mod tests {
    use super::super::family::FAMILIES;
    use super::*;

    #[test]
    fn every_family_has_a_line_and_every_line_a_family() {
        for (name, _) in EXPECTED {
            assert!(FAMILIES.iter().any(|family| family.name == *name), "{name}");
        }
        for family in FAMILIES {
            assert!(Situation::ALL.iter().any(|one| expected(family.name, *one).is_some()), "{}", family.name);
        }
    }

    #[test]
    fn a_line_is_in_the_order_of_the_situations() {
        for (at, situation) in Situation::ALL.into_iter().enumerate() {
            assert_eq!(situation as usize, at, "{}", situation.name());
        }
    }
}
