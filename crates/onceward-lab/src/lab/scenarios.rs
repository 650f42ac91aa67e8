//! All scenarios, each with what its findings must be. To add one: write it in a file below, and a row here.

mod borders;
mod claims;
mod contracts;
mod crowds;
mod destinations;
mod failures;
mod records;
mod repetitions;

use super::expectation::{Expectation, Is};
use super::scenario::Scenario;

type E = Expectation;

/// Every scenario, in the order in which a newcomer should read them.
pub(crate) const ALL: &[Scenario] = &[
    Scenario {
        name: "naive_retry",
        sentence: "an agent without Onceward loses the reply and tries again: {attempts} attempts, {tickets} tickets",
        expectations: &[E::number("attempts", 2), E::number("tickets", 2)],
        run: |stage| Box::pin(repetitions::naive_retry(stage)),
    },
    Scenario {
        name: "stable_key_retry",
        sentence: "the same through the gateway with one operation id: {attempts} attempts, {tickets} ticket, and each is \
                   told {replay_ticket_id}",
        expectations: &[
            E::number("attempts", 3),
            E::number("tickets", 1),
            E::is("replay_ticket_id", Is::Ticket),
            E::is("destination_ticket_id", Is::SameAs("replay_ticket_id")),
            E::text("last_outcome", "replayed"),
        ],
        run: |stage| Box::pin(repetitions::stable_key_retry(stage)),
    },
    Scenario {
        name: "changed_payload",
        sentence: "the same operation id with other arguments is a conflict: rejected {rejected} ({status}, naming {differs}), \
                   {tickets} ticket",
        expectations: &[
            E::is("rejected", Is::True),
            E::number("status", 422),
            E::text("differs", "/title"),
            E::number("tickets", 1),
        ],
        run: |stage| Box::pin(repetitions::changed_payload(stage)),
    },
    Scenario {
        name: "failure_before_commit",
        sentence: "the destination turns a call away before any work: {tickets_before_retry} tickets; the repetition is sent, \
                   and there is {tickets_after_retry}",
        expectations: &[
            E::number("tickets_before_retry", 0),
            E::number("tickets_after_retry", 1),
            E::text("first_outcome", "not_dispatched"),
            E::text("second_outcome", "executed"),
        ],
        run: |stage| Box::pin(failures::failure_before_commit(stage)),
    },
    Scenario {
        name: "concurrent_same_key",
        sentence: "{attempts} calls at once with one operation id: {tickets} ticket, and all are told {returned_ticket_ids}",
        expectations: &[
            E::number("attempts", 8),
            E::number("tickets", 1),
            E::is("returned_ticket_ids", Is::OneTicket),
            E::number("answered_with_a_ticket", 8),
        ],
        run: |stage| Box::pin(crowds::concurrent_same_key(stage)),
    },
    Scenario {
        name: "new_key_same_payload",
        sentence: "the same arguments under a new operation id are a new intention: {tickets} tickets",
        expectations: &[E::number("tickets", 2), E::is("different_tickets", Is::True)],
        run: |stage| Box::pin(repetitions::new_key_same_payload(stage)),
    },
    Scenario {
        name: "separate_intents",
        sentence: "{intents} customers want the same thing, and each call is made {calls_each} times: {tickets} tickets, one \
                   for each customer",
        expectations: &[
            E::number("intents", 3),
            E::number("calls_each", 2),
            E::number("tickets", 3),
            E::is("each_repetition_got_its_own", Is::True),
        ],
        run: |stage| Box::pin(repetitions::separate_intents(stage)),
    },
    Scenario {
        name: "deleted_replay_record",
        sentence: "the operation is deleted from the ledger by hand, at a destination without keys: the repetition is a \
                   second execution, {tickets} tickets. Protection lasts as long as the record",
        expectations: &[E::number("deleted_rows", 1), E::number("tickets", 2), E::text("outcome", "executed")],
        run: |stage| Box::pin(records::deleted_replay_record(stage)),
    },
    Scenario {
        name: "purged_record",
        sentence: "the same operation purged instead: its text is gone, its identity stays; the repetition is told {outcome}, \
                   {tickets} ticket",
        expectations: &[E::number("tickets", 1), E::text("outcome", "expired"), E::is("receipt_is_gone", Is::True)],
        run: |stage| Box::pin(records::purged_record(stage)),
    },
    Scenario {
        name: "controlled_interleaving",
        sentence: "two callers both see the key absent, then both act: {tickets_without_constraint} tickets without a unique \
                   constraint, {tickets_with_constraint} with it, {tickets_through_gateway} through the gateway",
        expectations: &[
            E::number("callers", 2),
            E::number("tickets_without_constraint", 2),
            E::number("tickets_with_constraint", 1),
            E::number("tickets_through_gateway", 1),
        ],
        run: |stage| Box::pin(destinations::controlled_interleaving(stage)),
    },
    Scenario {
        name: "receipt_after_change",
        sentence: "somebody closes the ticket before the repetition: the receipt still says {receipt_status}, the ticket says \
                   {current_status}, {tickets} ticket",
        expectations: &[
            E::number("tickets", 1),
            E::text("receipt_status", "open"),
            E::text("current_status", "closed"),
            E::is("replay_ticket_id", Is::SameAs("first_ticket_id")),
            E::is("first_ticket_id", Is::Ticket),
        ],
        run: |stage| Box::pin(destinations::receipt_after_change(stage)),
    },
    Scenario {
        name: "restart_recovery",
        sentence: "the gateway is killed between dispatch and answer: after the restart the operation is {state_after_restart}, \
                   the repetition sends nothing, a person decides, and the caller gets its receipt; {tickets} ticket",
        expectations: &[
            E::number("tickets", 1),
            E::number("requests_at_destination", 1),
            E::text("state_after_restart", "unknown"),
            E::text("repetition_outcome", "unknown"),
            E::text("outcome_after_decision", "replayed"),
            E::is("receipt_ticket_id", Is::SameAs("destination_ticket_id")),
            E::is("destination_ticket_id", Is::Ticket),
        ],
        run: |stage| Box::pin(failures::restart_recovery(stage)),
    },
    Scenario {
        name: "stale_pending",
        sentence: "an application claims, begins and vanishes: past its time the operation is {state_past_its_time}, never free; \
                   {claims_granted} claim granted, {tickets} ticket",
        expectations: &[
            E::text("outcome_while_running", "in_progress"),
            E::text("state_past_its_time", "unknown"),
            E::number("claims_granted", 1),
            E::number("tickets", 1),
            E::text("outcome_past_its_time", "unknown"),
        ],
        run: |stage| Box::pin(claims::stale_pending(stage)),
    },
    Scenario {
        name: "late_answer",
        sentence: "a function answers after its time: alone it settles the operation ({state_alone}); after a decision and \
                   another attempt it is kept as evidence ({disagreement_same_ticket}, and with another ticket \
                   {disagreement_other_ticket}); {recorded_late_answers} of 3 recorded",
        expectations: &[
            E::text("state_alone", "succeeded"),
            E::text("disagreement_alone", "none"),
            E::text("state_same_ticket", "succeeded"),
            E::text("disagreement_same_ticket", "effect_after_disproof"),
            E::text("state_other_ticket", "succeeded"),
            E::text("disagreement_other_ticket", "receipts_differ"),
            E::number("recorded_late_answers", 3),
            E::number("tickets", 4),
        ],
        run: |stage| Box::pin(claims::late_answer(stage)),
    },
    Scenario {
        name: "handoff",
        sentence: "a successor that holds only a note with the operation id asks: {outcome_settled} with the ticket, or {outcome_open} \
                   where nobody knows; {tickets} tickets for two intentions",
        expectations: &[
            E::text("outcome_settled", "replayed"),
            E::is("successor_ticket_id", Is::SameAs("first_ticket_id")),
            E::is("first_ticket_id", Is::Ticket),
            E::text("outcome_open", "unknown"),
            E::number("tickets", 2),
            E::number("requests_at_destination", 2),
        ],
        run: |stage| Box::pin(failures::handoff(stage)),
    },
    Scenario {
        name: "tenant_scope",
        sentence: "two tenants use the same operation id: {tickets} tickets under {outbound_keys} different keys, and neither \
                   sees the other's ({status_of_the_others} for an operation of the other)",
        expectations: &[
            E::number("tickets", 2),
            E::number("outbound_keys", 2),
            E::number("status_of_the_others", 404),
            E::is("different_tickets", Is::True),
        ],
        run: |stage| Box::pin(borders::tenant_scope(stage)),
    },
    Scenario {
        name: "invalid_input",
        sentence: "{refused} of {inputs} malformed inputs are refused before anything is claimed: {tickets} tickets, {operations} \
                   operations",
        expectations: &[
            E::is("refused", Is::SameAs("inputs")),
            E::number("tickets", 0),
            E::number("requests_at_destination", 0),
            E::number("operations", 0),
        ],
        run: |stage| Box::pin(borders::invalid_input(stage)),
    },
    Scenario {
        name: "threads_8_calls_16",
        sentence: "{calls} calls from {threads} threads with one operation id: {tickets} ticket, and all are told \
                   {returned_ticket_ids}",
        expectations: &[
            E::number("calls", 16),
            E::number("threads", 8),
            E::number("tickets", 1),
            E::is("returned_ticket_ids", Is::OneTicket),
            E::number("answered_with_a_ticket", 16),
        ],
        run: |stage| Box::pin(crowds::threads(stage)),
    },
    Scenario {
        name: "processes_8_calls_16",
        sentence: "{calls} calls from {processes} processes with one operation id: {tickets} ticket, and all are told \
                   {returned_ticket_ids}",
        expectations: &[
            E::number("calls", 16),
            E::number("processes", 8),
            E::number("tickets", 1),
            E::is("returned_ticket_ids", Is::OneTicket),
            E::number("answered_with_a_ticket", 16),
        ],
        run: |stage| Box::pin(crowds::processes(stage)),
    },
    Scenario {
        name: "contracts_and_situations",
        sentence: "destinations of four kinds and what goes wrong there: {cells} times played, {state_wrong} times not as the \
                   contract implies",
        expectations: &[E::number("cells", 18), E::number("state_wrong", 0)],
        run: |stage| Box::pin(contracts::matrix(stage)),
    },
    Scenario {
        name: "equal_arguments_lookup",
        sentence: "three orders for the same thing: one is made, of one the request is lost, of one the reply. The lookup settles \
                   the last with its own effect, and the other stays {state_of_lost_request}: {tickets} orders",
        expectations: &[
            E::text("state_of_lost_request", "unknown"),
            E::text("state_of_lost_reply", "succeeded"),
            E::is("own_effect", Is::True),
            E::number("tickets", 2),
        ],
        run: |stage| Box::pin(contracts::equal_arguments(stage)),
    },
    Scenario {
        name: "scope_of_a_key",
        sentence: "a lost reply, and the gateway comes back with another account, another region, a rotated token: \
                   {outcome_other_account}, {outcome_other_region}, and then the same key goes out again; {tickets} order",
        expectations: &[
            E::text("outcome_other_account", "unknown"),
            E::text("outcome_other_region", "unknown"),
            E::number("writes_elsewhere", 0),
            E::number("writes_with_rotated_token", 1),
            E::number("tickets", 1),
        ],
        run: |stage| Box::pin(contracts::scopes(stage)),
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scenario_can_fail_and_has_a_name_of_its_own() {
        for (at, scenario) in ALL.iter().enumerate() {
            assert!(!scenario.expectations.is_empty(), "{}", scenario.name);
            assert!(ALL[at + 1..].iter().all(|other| other.name != scenario.name), "{}", scenario.name);
        }
    }

    #[test]
    fn every_scenario_expects_something_of_the_destination_or_of_the_state() {
        for scenario in ALL {
            let counts = scenario
                .expectations
                .iter()
                .any(|expectation| expectation.field.starts_with("tickets") || expectation.field.starts_with("state"));
            assert!(counts, "{}", scenario.name);
        }
    }
}
