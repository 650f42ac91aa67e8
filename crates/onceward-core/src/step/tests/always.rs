//! Everything that can happen to an operation in every state, in one loop, and what must hold each time.

use crate::event::{About, Basis, Event, Source, Verdict};
use crate::operation::Operation;
use crate::samples::{events, now, observations, operations};
use crate::state::State;

/// Checks every move of every sample that is not refused. Says how many there were, so that a loop over nothing fails.
fn for_every_move(check: impl Fn(&Operation, &Event, &Operation) -> bool) {
    let mut moves = 0;
    for (name, before) in operations() {
        for event in events(&before) {
            if let Ok(after) = before.clone().step(&event, now()) {
                moves += 1;
                assert!(check(&before, &event, &after), "{name}: {event:#?}\nled from {before:#?}\nto {after:#?}");
            }
        }
    }
    assert!(moves > 1_000, "only {moves} moves were looked at");
}

fn operator_spoke(event: &Event) -> bool {
    match event {
        Event::Observe(seen) => matches!(seen.source, Source::Operator { .. }),
        Event::Close(_) | Event::Supersede { .. } | Event::Wait { .. } | Event::Acknowledge { .. } => true,
        Event::Approve { .. } | Event::Claim(_) | Event::Begin { .. } | Event::Extend { .. } | Event::Purge(_) => false,
    }
}

fn verdict(event: &Event) -> Option<&Verdict> {
    match event {
        Event::Observe(seen) => Some(&seen.verdict),
        Event::Approve { .. }
        | Event::Claim(_)
        | Event::Begin { .. }
        | Event::Extend { .. }
        | Event::Close(_)
        | Event::Supersede { .. }
        | Event::Wait { .. }
        | Event::Acknowledge { .. }
        | Event::Purge(_) => None,
    }
}

fn is_disproof(event: &Event) -> bool {
    matches!(verdict(event), Some(Verdict::Refusal(_) | Verdict::NotSent(_) | Verdict::NoEffect(_)))
}

fn running(operation: &Operation) -> Option<u32> {
    match &operation.state {
        State::Pending(pending) => Some(pending.attempt.number.0),
        State::Proposed(_)
        | State::Approved(_)
        | State::Unknown(_)
        | State::Succeeded(_)
        | State::Rejected(_)
        | State::Closed(_) => None,
    }
}

fn uncertain(operation: &Operation) -> Vec<u32> {
    operation.state.uncertain().iter().map(|one| one.attempt.0).collect()
}

fn disproved(operation: &Operation) -> Vec<u32> {
    operation.history.disproved.iter().map(|one| one.attempt.0).collect()
}

#[test]
fn a_final_state_is_left_by_nothing() {
    for_every_move(|before, _, after| {
        !before.is_settled() || (before.state.name() == after.state.name() && after.settled_at == before.settled_at)
    });
}

#[test]
fn a_receipt_in_the_row_is_replaced_by_nothing() {
    for_every_move(|before, event, after| match (&before.state, &after.state) {
        (State::Succeeded(had), State::Succeeded(has)) => {
            had.attempt == has.attempt
                && had.effect_id == has.effect_id
                && (had.answer == has.answer || matches!(event, Event::Purge(_)))
        }
        (State::Succeeded(_), _) => false,
        (_, _) => true,
    });
}

#[test]
fn only_a_claim_leads_to_pending() {
    for_every_move(|before, event, after| {
        running(after).is_none() || running(before).is_some() || matches!(event, Event::Claim(_))
    });
}

#[test]
fn unknown_becomes_pending_only_with_a_permit_that_covers_the_attempt() {
    for_every_move(|before, event, after| match (&before.state, event, &after.state) {
        (State::Unknown(_), Event::Claim(claim), State::Pending(pending)) => match &claim.basis {
            Basis::Redrive(permit) => {
                permit.last_attempt().0 == before.history.attempts
                    && pending.attempt.send_before <= permit.valid_until()
                    && pending.earlier == before.state.uncertain()
            }
            Basis::NoEffectSoFar => false,
        },
        (State::Unknown(_), _, State::Pending(_)) => false,
        (_, _, _) => true,
    });
}

#[test]
fn an_owner_acts_only_on_the_attempt_that_is_pending_in_its_hands() {
    for (name, before) in operations() {
        for event in observations(&before) {
            let Event::Observe(seen) = &event else { continue };
            let (Source::Owner(owner) | Source::Recovery { owner }) = &seen.source else { continue };
            let holds = match &before.state {
                State::Pending(pending) => {
                    seen.about == About::Attempt(pending.attempt.number) && pending.attempt.owner == *owner
                }
                State::Proposed(_)
                | State::Approved(_)
                | State::Unknown(_)
                | State::Succeeded(_)
                | State::Rejected(_)
                | State::Closed(_) => false,
            };
            let result = before.clone().step(&event, now());
            assert!(holds || result.is_err(), "{name}: {event:?}");
        }
    }
}

#[test]
fn an_uncertain_attempt_leaves_only_by_evidence_about_it_by_success_or_by_a_person() {
    for_every_move(|before, event, after| {
        let success = matches!(after.state, State::Succeeded(_));
        uncertain(before).into_iter().all(|attempt| {
            let speaks_of_it = match event {
                Event::Observe(seen) => match seen.about {
                    About::Attempt(about) => about.0 == attempt,
                    About::EveryUncertain => operator_spoke(event),
                },
                Event::Close(_) | Event::Supersede { .. } => true,
                Event::Approve { .. }
                | Event::Claim(_)
                | Event::Begin { .. }
                | Event::Extend { .. }
                | Event::Wait { .. }
                | Event::Acknowledge { .. }
                | Event::Purge(_) => false,
            };
            let disproved_by_this = speaks_of_it && disproved(after).contains(&attempt);
            success || uncertain(after).contains(&attempt) || disproved_by_this
        })
    });
}

#[test]
fn every_attempt_of_an_unsettled_operation_is_in_exactly_one_place() {
    for_every_move(|_, _, after| {
        if after.is_settled() {
            return true;
        }
        let mut places = uncertain(after);
        places.extend(disproved(after));
        places.extend(running(after));
        places.sort_unstable();
        places == (1..=after.history.attempts).collect::<Vec<_>>()
    });
}

#[test]
fn uncertain_attempts_stand_in_the_order_in_which_they_were_made() {
    for_every_move(|_, _, after| uncertain(after).is_sorted());
}

#[test]
fn nothing_but_approval_leads_from_proposed_to_approved() {
    for_every_move(|before, event, after| {
        let waits = matches!(before.state, State::Proposed(_)) || before.history.unapproved.is_some();
        !waits
            || !matches!(after.state, State::Approved(_) | State::Pending(_))
            || matches!(event, Event::Approve { .. })
    });
}

#[test]
fn an_open_contradiction_blocks_every_claim() {
    let mut refused = 0;
    for (name, before) in operations() {
        for event in events(&before) {
            let Ok(contradicted) = before.clone().step(&event, now()) else { continue };
            if !contradicted.history.in_disagreement() {
                continue;
            }
            for claim in events(&contradicted).into_iter().filter(|event| matches!(event, Event::Claim(_))) {
                assert!(contradicted.clone().step(&claim, now()).is_err(), "{name}: {event:?}");
                refused += 1;
            }
        }
    }
    assert!(refused > 20, "{refused}");
}

#[test]
fn only_a_person_answers_a_contradiction() {
    for_every_move(|before, event, after| {
        !before.history.in_disagreement() || after.history.in_disagreement() || operator_spoke(event)
    });
}

#[test]
fn a_person_can_answer_every_contradiction_wherever_it_stands() {
    for (name, before) in operations() {
        for event in events(&before) {
            let Ok(contradicted) = before.clone().step(&event, now()) else { continue };
            if !contradicted.history.in_disagreement() || running(&contradicted).is_some() {
                continue;
            }
            let answered = observations(&contradicted)
                .iter()
                .filter(|event| operator_spoke(event))
                .filter_map(|event| contradicted.clone().step(event, now()).ok())
                .any(|after| !after.history.in_disagreement());
            assert!(answered, "{name}: {event:#?} led to {contradicted:#?}");
        }
    }
}

#[test]
fn a_running_attempt_is_disproved_by_its_owner_or_before_it_begun_and_by_nobody_else() {
    for_every_move(|before, event, after| match (&before.state, event) {
        (State::Pending(pending), Event::Observe(seen)) if disproved(after).contains(&pending.attempt.number.0) => {
            match &seen.source {
                Source::Owner(_) => true,
                Source::Recovery { .. } => pending.attempt.begun_at.is_none(),
                Source::LateAnswer | Source::Lookup | Source::Webhook | Source::Operator { .. } | Source::Restore => {
                    false
                }
            }
        }
        (_, _) => true,
    });
}

#[test]
fn an_effect_that_anybody_saw_is_refused_only_to_whom_the_attempt_does_not_belong() {
    for (name, before) in operations() {
        for event in observations(&before) {
            let Event::Observe(seen) = &event else { continue };
            let known = match seen.about {
                About::Attempt(attempt) => attempt.0 <= before.history.attempts,
                About::EveryUncertain => before.history.attempts > 0,
            };
            let outside = match &seen.source {
                Source::LateAnswer | Source::Lookup | Source::Webhook | Source::Restore => true,
                Source::Owner(_) | Source::Recovery { .. } | Source::Operator { .. } => false,
            };
            if !known || !outside || !matches!(seen.verdict, Verdict::Effect(_)) {
                continue;
            }
            let after = before.clone().step(&event, now());
            let told = after.as_ref().is_ok_and(|after| {
                // The row has it, or it has a mark that makes people look; the journal has it either way.
                matches!(after.state, State::Succeeded(_)) || after.history.in_disagreement()
            });
            assert!(told, "{name}: {event:?} gave {after:?}");
        }
    }
}

#[test]
fn a_success_has_the_receipt_that_was_seen() {
    for_every_move(|before, event, after| match (&before.state, &after.state, verdict(event)) {
        (State::Succeeded(_), _, _) => true,
        (_, State::Succeeded(success), Some(Verdict::Effect(receipt))) => {
            success.effect_id == receipt.effect_id && success.answer.present() == Some(&receipt.answer)
        }
        (_, State::Succeeded(_), _) => false,
        (_, _, _) => true,
    });
}

#[test]
fn rejected_means_that_every_attempt_is_disproved() {
    for_every_move(|before, _, after| match &after.state {
        State::Rejected(_) => before.is_settled() || disproved(after).len() == after.history.attempts as usize,
        State::Proposed(_)
        | State::Approved(_)
        | State::Pending(_)
        | State::Unknown(_)
        | State::Succeeded(_)
        | State::Closed(_) => true,
    });
}

#[test]
fn attempts_are_counted_and_never_uncounted() {
    for_every_move(|before, event, after| {
        let more = after.history.attempts - before.history.attempts;
        more == 0
            || (more == 1
                && (matches!(event, Event::Claim(_))
                    || matches!(event, Event::Observe(seen) if seen.source == Source::Restore)))
    });
}

#[test]
fn an_erasure_never_frees_and_never_takes_what_is_still_needed() {
    for_every_move(|before, event, after| {
        let erases = matches!(event, Event::Purge(_));
        let same_identity = before.key == after.key && before.binding.fingerprint == after.binding.fingerprint;
        let kept = before.binding.arguments == after.binding.arguments || after.is_settled();
        same_identity && kept && (!erases || before.state.name() == after.state.name())
    });
}

#[test]
fn a_deadline_ends_claims_and_is_no_verdict_on_what_was_sent() {
    for (name, mut operation) in operations() {
        operation.terms.deadline = Some(now());
        for event in events(&operation) {
            let after = operation.clone().step(&event, now());
            assert!(!(matches!(event, Event::Claim(_)) && after.is_ok()), "{name}: claimed past its deadline");
            if let (State::Unknown(_), Ok(after)) = (&operation.state, after) {
                let by_age = event == Event::Close(crate::event::CloseReason::DeadlinePassed);
                assert!(!by_age, "{name}: {after:?}");
            }
        }
    }
}

#[test]
fn whatever_says_that_nothing_happened_never_settles_it_as_done() {
    for_every_move(|before, event, after| {
        before.is_settled() || !is_disproof(event) || !matches!(after.state, State::Succeeded(_))
    });
}

#[test]
fn a_refused_move_says_why_in_a_sentence() {
    for (_, before) in operations() {
        for event in events(&before) {
            if let Err(refusal) = before.clone().step(&event, now()) {
                assert!(refusal.to_string().contains(' '), "{refusal}");
            }
        }
    }
}

#[test]
fn every_state_that_the_machine_reaches_survives_storage() {
    for_every_move(|_, event, after| {
        let row = serde_json::to_string(after).expect("a row is written");
        let entry = serde_json::to_string(event).expect("an event is written");
        serde_json::from_str::<Operation>(&row).is_ok_and(|read| read == *after)
            && serde_json::from_str::<Event>(&entry).is_ok_and(|read| read == *event)
    });
}

#[test]
fn an_unknown_without_an_uncertain_attempt_is_a_broken_row() {
    let text = r#"{"unknown":{"attempts":[],"next_check":null}}"#;
    assert!(serde_json::from_str::<State>(text).is_err());
}
