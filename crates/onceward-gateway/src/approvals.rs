//! Asking for a deliberate second one: a held call was meant after all, and a person is to say so (R16, R18).

use std::sync::Arc;

use onceward_core::canonical::Canonical;
use onceward_core::key::OperationId;
use onceward_core::retry::RetryPolicy;
use onceward_destinations::tool::Effect;
use onceward_ledger::Ledger;
use onceward_ledger::approvals::{Again, Proposed};
use onceward_ledger::authorize::Grant;
use onceward_ledger::call::{Approval, Call, Identity};
use onceward_ledger::directory::Directory as _;

use crate::app::{App, call_of};
use crate::identity::mint;
use crate::problem::Problem;

impl App {
    /// Proposes a second one of a settled operation, with its tool and its arguments, for the principal that asks; or, where
    /// an approver asks, for the principal whose call it was. Nothing is sent.
    ///
    /// # Errors
    /// `earlier_unresolved` while anything like it may have had its effect; `not_found` also for one that may not be seen.
    pub async fn ask_second(&self, grant: &Grant, id: &OperationId) -> Result<Proposed, Problem> {
        let (app, grant, id) = (self.clone(), grant.clone(), id.clone());
        self.detached(async move { app.ask_second_here(&grant, &id).await }).await?
    }

    async fn ask_second_here(&self, grant: &Grant, id: &OperationId) -> Result<Proposed, Problem> {
        let again = self.ledger().again(grant, id).await?;
        let earlier = again.earlier();
        if earlier.terms.suspicion.is_none() {
            return Err(Problem::invalid_request(
                "this operation was named by its caller and holds no other call back; for a second one call the tool under an \
                 operation id of its own",
            ));
        }
        let arguments = earlier.binding.arguments.present().ok_or_else(|| {
            Problem::invalid_request("the arguments of this operation have been erased; make the call anew")
        })?;
        let second = mint(self.ledger().clock().now())?;
        let call = match self.catalog().tool(&earlier.binding.tool) {
            Some(tool) if tool.effect() == Effect::Read => {
                return Err(Problem::invalid_request("this tool reads by now, and a read is repeated freely"));
            }
            Some(tool) => {
                tool.check(arguments)?;
                let second = Ledger::second(&again, second, tool.business_key().to_vec());
                call_of(&tool, second, Approval::Required, Canonical::clone(arguments))
            }
            None => {
                let proxy = self.catalog().proxy_of_tool(&earlier.binding.tool);
                let business_key = proxy.map(|proxy| proxy.business_key().to_vec()).unwrap_or_default();
                like(&again, Ledger::second(&again, second, business_key), arguments)
            }
        };
        // None where the application runs its own function.
        let destination = self.catalog().known(&earlier.binding.tool).map(|known| known.destination);
        Ok(self.ledger().propose(&again, call, destination.as_ref()).await?)
    }
}

/// The call that the first one was, for a write that came through a proxy and a function that only its application knows.
fn like(again: &Again, identity: Identity, arguments: &Arc<Canonical>) -> Call {
    let earlier = again.earlier();
    Call {
        identity,
        tool_version: earlier.binding.tool_version.clone(),
        comparison: earlier.binding.comparison.clone(),
        arguments: Arc::clone(arguments),
        title: earlier.terms.title.clone(),
        approval: Approval::Required,
        deadline: None,
        answer_within: std::time::Duration::ZERO,
        retry: RetryPolicy::default(),
        corrects: None,
        sighting: None,
        lane: earlier.terms.lane.clone(),
    }
}
