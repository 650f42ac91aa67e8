//! Contracts and situations: the whole matrix, and the borders of what a redrive and a lookup may reach.

use std::path::Path;

use onceward_lab::families::{
    Equals, Horizons, MatrixOptions, Scopes, Subset, equal_arguments, horizons, play, scopes,
};

fn binary() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_onceward"))
}

#[tokio::test(flavor = "multi_thread")]
async fn every_contract_ends_in_every_situation_as_the_table_of_classification_says() {
    let options = MatrixOptions { binary: binary().to_owned(), subset: Subset::Whole };
    let matrix = play(&options).await.expect("it is played");
    println!("{matrix}");
    assert!(matrix.played() > 190, "only {} cells were played", matrix.played());
    let wrong = matrix.wrong();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redrive_stays_in_its_account_and_region_and_a_rotated_token_changes_nothing() {
    let Scopes { other_account, other_region, rotated_token, effects, writes } =
        scopes(binary()).await.expect("it is played");
    let refused = ("unknown".to_owned(), 0);
    assert_eq!((&other_account, &other_region), (&refused, &refused));
    assert!(["recovered", "replayed"].contains(&rotated_token.0.as_str()), "{rotated_token:?}");
    assert_eq!((rotated_token.1, effects, writes), (1, 1, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_after_the_horizon_less_its_margin_nothing_is_sent_any_more() {
    let Horizons { within, past, effects } = horizons(binary()).await.expect("it is played");
    assert!(["recovered", "replayed"].contains(&within.as_str()), "in time the key is sent again: {within}");
    assert_eq!((past, effects), (("unknown".to_owned(), 0), 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lookup_does_not_settle_an_operation_with_the_effect_of_an_equal_one() {
    let found = equal_arguments(binary()).await.expect("it is played");
    let must = Equals {
        request_lost: "unknown".to_owned(),
        effects_of_both: 1,
        reply_lost: "succeeded".to_owned(),
        own_effect: true,
        effects: 2,
    };
    assert_eq!(found, must);
}
