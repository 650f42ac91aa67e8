//! The contracts that come with Onceward: one file for each under `contracts/`, read into the program when it is built.

use super::{Contract, ContractError};

/// The files, in the order in which lists show them: vendors first, then standards, then what to copy from.
const BUILT_IN: &[&str] = &[
    include_str!("../../../../contracts/stripe.v1.toml"),
    include_str!("../../../../contracts/stripe.v2.toml"),
    include_str!("../../../../contracts/paypal.orders.v2.toml"),
    include_str!("../../../../contracts/square.payments.toml"),
    include_str!("../../../../contracts/gocardless.toml"),
    include_str!("../../../../contracts/increase.toml"),
    include_str!("../../../../contracts/zendesk.toml"),
    include_str!("../../../../contracts/resend.toml"),
    include_str!("../../../../contracts/github.toml"),
    include_str!("../../../../contracts/jira.toml"),
    include_str!("../../../../contracts/svix.toml"),
    include_str!("../../../../contracts/acp.checkout.toml"),
    include_str!("../../../../contracts/aws.sqs.fifo.toml"),
    include_str!("../../../../contracts/aws.stepfunctions.toml"),
    include_str!("../../../../contracts/oasis.repeatable.toml"),
    include_str!("../../../../contracts/ietf.idempotency_key.toml"),
    include_str!("../../../../contracts/generic.success_only.toml"),
    include_str!("../../../../contracts/generic.lookup_only.toml"),
    include_str!("../../../../contracts/none.toml"),
];

/// The contracts that come with Onceward.
///
/// # Errors
/// A file under `contracts/` is broken; a test reads them all, so a release has none.
pub fn built_in() -> Result<Vec<Contract>, ContractError> {
    BUILT_IN.iter().map(|text| Contract::parse(text)).collect()
}

#[cfg(test)]
mod tests;
