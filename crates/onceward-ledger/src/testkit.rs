//! What every store must do, as one suite: [`exercise`] runs it on a store that a test gives.
//!
//! It speaks to the store as the engine does, and looks at answers *and* at what is read back.

mod lists;
mod marks;
mod moves;
mod openings;
pub mod outbox;
mod restores;
mod sample;

use std::future::Future;
use std::sync::Arc;

use crate::store::Store;

pub use self::sample::{Sample, claim, effect, key, lost, now, observed, receipt, step};

/// Runs the whole suite; `make` gives a new, empty ledger each time, on the machine's clock.
///
/// # Panics
/// When the store breaks a promise; the message says which.
pub async fn exercise<F, M>(make: M)
where
    M: Fn() -> F,
    F: Future<Output = Arc<dyn Store>>,
{
    openings::a_key_is_opened_once_and_read_back_whole(make().await).await;
    openings::callers_of_one_key_at_once_open_it_once(make().await).await;
    openings::tenants_never_see_each_other(make().await).await;
    openings::a_refused_event_leaves_nothing_behind(make().await).await;
    openings::a_call_without_identity_is_held_while_an_equal_one_is_near(make().await).await;
    openings::what_a_call_may_repeat_is_found_by_a_read(make().await).await;
    openings::equal_calls_without_identity_at_once_are_one_operation(make().await).await;
    openings::of_two_approved_ones_that_may_be_one_intention_one_is_claimed(make().await).await;
    moves::a_settle_is_stored_replayed_and_chained(make().await).await;
    moves::a_claim_that_was_lost_settles_nothing(make().await).await;
    moves::events_of_one_step_are_applied_all_or_none(make().await).await;
    moves::a_step_that_was_decided_on_an_older_version_changes_nothing(make().await).await;
    moves::every_state_is_read_back_as_it_was_answered(make().await).await;
    moves::two_operations_with_one_effect_are_a_disagreement(make().await).await;
    moves::an_erased_operation_keeps_its_identity(make().await).await;
    moves::opposite_settles_at_once_leave_one_answer(make().await).await;
    lists::sweeps_find_what_is_theirs(make().await).await;
    lists::lists_are_by_tenant_newest_first_and_paged(make().await).await;
    lists::owners_beat_and_are_forgotten_only_without_attempts(make().await).await;
    lists::an_owner_without_a_sign_of_life_is_found_by_what_it_holds(make().await).await;
    lists::credentials_are_found_by_hash_and_stay_when_revoked(make().await).await;
    lists::pins_are_stored_once(make().await).await;
    marks::an_operation_is_found_by_its_key_from_its_first_uncertain_attempt_on(make().await).await;
    marks::unknown_operations_are_counted_by_tool_and_cause_with_their_age(make().await).await;
    restores::the_high_water_mark_rises_with_the_beats_of_gateways(make().await).await;
    restores::a_restore_makes_everything_unsettled_unknown(make().await).await;
    restores::while_a_restore_is_open_an_older_identity_opens_as_unknown(make().await).await;
}
