//! What destinations of different kinds promise, and what follows from it.

use anyhow::Result;

use crate::families::{self, MatrixOptions, Subset};
use crate::lab::findings::Findings;
use crate::lab::stage::Stage;

/// A part of the matrix: one contract of each kind. The whole of it is a test.
pub(super) async fn matrix(stage: &Stage) -> Result<Findings> {
    let options = MatrixOptions { binary: stage.binary().to_owned(), subset: Subset::OneOfEachKind };
    let matrix = families::play_on(&options, Some(stage.ledger())).await?;
    let wrong = matrix.wrong();
    Ok(Findings::new().with("cells", matrix.played()).with("state_wrong", wrong.len()).with("wrong", wrong))
}

/// Equal arguments are no evidence.
pub(super) async fn equal_arguments(stage: &Stage) -> Result<Findings> {
    let found = families::equal_arguments_on(stage.binary(), Some(stage.ledger())).await?;
    Ok(Findings::new()
        .with("state_of_lost_request", found.request_lost)
        .with("state_of_lost_reply", found.reply_lost)
        .with("own_effect", found.own_effect)
        .with("tickets", found.effects))
}

/// A key means what it means in one account and region only.
pub(super) async fn scopes(stage: &Stage) -> Result<Findings> {
    let found = families::scopes_on(stage.binary(), Some(stage.ledger())).await?;
    Ok(Findings::new()
        .with("writes_elsewhere", found.other_account.1 + found.other_region.1)
        .with("outcome_other_account", found.other_account.0)
        .with("outcome_other_region", found.other_region.0)
        .with("outcome_rotated_token", found.rotated_token.0)
        .with("writes_with_rotated_token", found.rotated_token.1)
        .with("tickets", found.effects))
}
