//! Operations in every state, each brought there by the rules themselves, and everything that can happen to them. The
//! documents are printed from them, and the tests of the machine enumerate them.

use std::sync::Arc;

use onceward_core::canonical::Canonical;
use onceward_core::contract::Contract;
use onceward_core::event::{
    About, Basis, Cause, Claim, CloseReason, DispatchMark, Event, NoEffect, NotSent, Observation, OtherEffect,
    PurgeScope, Source, Verdict,
};
use onceward_core::evidence::{RedriveCase, RedrivePermit, ScopeEquality, may_redrive};
use onceward_core::fingerprint::{Comparison, FingerprintKeyId, FingerprintKeys};
use onceward_core::journal::Head;
use onceward_core::key::{
    AttemptNumber, EffectId, OperationId, OperationKey, OutboundKey, OwnerId, Principal, TenantId, ToolName,
    ToolVersion,
};
use onceward_core::operation::{Binding, Dispatcher, History, Operation, Terms};
use onceward_core::receipt::{Answer, Kept, Receipt, Rejection};
use onceward_core::state::{Proposal, ProposalReason, Ready, State};
use onceward_core::step::Refusal;
use onceward_core::time::Timestamp;

/// A destination that recognises keys for a day.
const KEYED: &str = r#"
id = "sample"
version = 1
[key]
carriers = [{ in = "header", name = "Idempotency-Key" }]
[same_input]
behaviour = "replays_stored"
saved = { 2xx = "stored", 500 = "stored" }
[in_flight]
behaviour = "rejects"
statuses = [409]
[horizon]
kind = "at_least"
min = "24h"
margin = "1h"
[provenance]
confidence = "operated"
"#;

/// That many seconds into the story.
pub(crate) fn second(number: i64) -> Timestamp {
    Timestamp::from_micros((1_000_000 + number) * 1_000_000)
}

/// When the events of the enumeration happen: after everything in the samples' past.
pub(crate) fn now() -> Timestamp {
    second(50)
}

/// The arguments that the samples were made with.
pub(crate) fn arguments() -> Canonical {
    Canonical::from_value(serde_json::json!({ "summary": "Printer on fire", "amount": 3 })).expect("plain JSON")
}

/// The person who decides.
pub(crate) fn person() -> Principal {
    Principal::parse("operator").expect("a name")
}

/// The owner of an attempt.
pub(crate) fn owner(attempt: u32) -> OwnerId {
    OwnerId::parse(&format!("owner-{attempt}")).expect("a name")
}

/// A receipt that names an effect.
pub(crate) fn receipt(effect: &str) -> Receipt {
    Receipt {
        effect_id: Some(EffectId::parse(effect).expect("a name")),
        answer: Answer::json(&serde_json::json!({ "id": effect })),
        received_at: now(),
    }
}

/// A refusal.
pub(crate) fn rejection() -> Rejection {
    Rejection { answer: Answer { status: 422, headers: Vec::new(), body: b"no".to_vec() }, received_at: now() }
}

/// A new operation in a state.
pub(crate) fn created(state: State) -> Operation {
    let (tool, version) = (ToolName::parse("create_ticket").expect("a name"), ToolVersion::parse("1").expect("a name"));
    let comparison = Comparison::default();
    let fingerprint = FingerprintKeys::unkeyed()
        .fingerprint(FingerprintKeyId::UNKEYED, tool.as_str(), version.as_str(), &arguments(), &comparison)
        .expect("no key is needed");
    Operation {
        key: OperationKey {
            tenant: TenantId::parse("tenant").expect("a name"),
            id: OperationId::parse("operation").expect("a name"),
        },
        binding: Binding {
            tool,
            tool_version: version,
            comparison,
            fingerprint,
            fingerprint_key: FingerprintKeyId::UNKEYED,
            arguments: Kept::Present(Arc::new(arguments())),
        },
        terms: Terms {
            principal: Principal::parse("agent").expect("a name"),
            dispatch: Dispatcher::Caller,
            lane: None,
            deadline: None,
            corrects: None,
            second_of: None,
            sighting: None,
            title: None,
            suspicion: None,
            pin: None,
        },
        history: History::default(),
        state,
        journal: Head::START,
        created_at: second(0),
        updated_at: second(0),
        settled_at: None,
    }
}

/// A new operation that waits for approval.
pub(crate) fn proposed() -> Operation {
    created(State::Proposed(Proposal { reason: ProposalReason::ToolPolicy }))
}

/// A new operation that may be dispatched.
pub(crate) fn approved() -> Operation {
    created(State::Approved(Ready::default()))
}

/// The claim of the next attempt.
pub(crate) fn claim(operation: &Operation, basis: Basis, dispatch: DispatchMark) -> Claim {
    let attempt = operation.history.attempts + 1;
    Claim {
        attempt: AttemptNumber(attempt),
        owner: owner(attempt),
        basis,
        generation: operation.history.generation,
        outbound_key: Some(OutboundKey::parse("key-of-generation-1").expect("a name")),
        send_before: second(100),
        settle_by: Some(second(200)),
        dispatch,
    }
}

/// The permit that the rules give for the operation now, if they give one.
pub(crate) fn permit(operation: &Operation, at: Timestamp) -> Option<RedrivePermit> {
    let contract = Contract::parse(KEYED).expect("a contract");
    may_redrive(&RedriveCase {
        pinned: &contract,
        current: &contract,
        scope: ScopeEquality::Same,
        uncertain: operation.state.uncertain(),
        disproved: &operation.history.disproved,
        last_attempt: AttemptNumber(operation.history.attempts),
        now: at,
    })
    .ok()
}

/// An observation without words.
pub(crate) fn observe(about: About, verdict: Verdict, source: Source) -> Event {
    Event::Observe(Observation { about, verdict, source, next_check: None, note: None })
}

/// What an owner learned about its attempt.
pub(crate) fn owner_saw(attempt: u32, verdict: Verdict) -> Event {
    observe(About::Attempt(AttemptNumber(attempt)), verdict, Source::Owner(owner(attempt)))
}

/// The operation after these events.
pub(crate) fn after(operation: Operation, events: &[Event]) -> Result<Operation, Refusal> {
    events.iter().try_fold(operation, |operation, event| operation.step(event, second(10)))
}

fn moved(operation: &Operation, events: &[Event]) -> Operation {
    after(operation.clone(), events).expect("the story of a sample is lawful")
}

/// The operation with its next attempt claimed.
pub(crate) fn claimed(operation: &Operation, dispatch: DispatchMark) -> Operation {
    let basis = permit(operation, second(10)).map_or(Basis::NoEffectSoFar, Basis::Redrive);
    moved(operation, &[Event::Claim(claim(operation, basis, dispatch))])
}

/// The operation after its next attempt ended so.
pub(crate) fn attempted(operation: &Operation, verdict: Verdict) -> Operation {
    let running = claimed(operation, DispatchMark::WithClaim);
    moved(&running, &[owner_saw(running.history.attempts, verdict)])
}

/// Operations in every state, each with the words that tell it from others in that state.
pub(crate) fn operations() -> Vec<(&'static str, Operation)> {
    let lost = Verdict::Lost(Cause::ReplyLost);
    let unsent = attempted(&approved(), Verdict::NotSent(NotSent::NoConnection));
    let one_lost = attempted(&approved(), lost.clone());
    let two_lost = attempted(&one_lost, lost.clone());
    let done = attempted(&approved(), Verdict::Effect(receipt("T-1")));
    let refused = attempted(&approved(), Verdict::Refusal(rejection()));
    let contradicted = moved(
        &one_lost,
        &[observe(About::EveryUncertain, Verdict::OtherEffect(OtherEffect::MoreThanOne), Source::Lookup)],
    );
    let restored =
        moved(&proposed(), &[observe(About::EveryUncertain, Verdict::Lost(Cause::Restored), Source::Restore)]);
    let checked = Event::Observe(Observation {
        about: About::Attempt(AttemptNumber(1)),
        verdict: Verdict::Lost(Cause::ReplyLost),
        source: Source::Owner(owner(1)),
        next_check: Some(second(60)),
        note: None,
    });
    let (attempt_1, other) = (About::Attempt(AttemptNumber(1)), Verdict::Effect(receipt("T-2")));
    let successor = Event::Supersede { by: OperationId::parse("another").expect("a name"), note: None };
    vec![
        ("proposed", proposed()),
        ("approved", approved()),
        ("approved, an attempt never left", unsent.clone()),
        ("approved, an attempt had no effect", attempted(&approved(), Verdict::NoEffect(NoEffect::TurnedAway))),
        ("pending, announced", claimed(&approved(), DispatchMark::Announced)),
        ("pending", claimed(&approved(), DispatchMark::WithClaim)),
        ("pending, an attempt never left", claimed(&unsent, DispatchMark::WithClaim)),
        ("pending, one uncertain", claimed(&one_lost, DispatchMark::WithClaim)),
        ("pending, two uncertain", claimed(&two_lost, DispatchMark::Announced)),
        ("unknown", one_lost.clone()),
        ("unknown, a check is scheduled", moved(&claimed(&approved(), DispatchMark::WithClaim), &[checked])),
        ("unknown, an attempt never left", attempted(&unsent, lost)),
        ("unknown, two uncertain", two_lost),
        ("unknown, contradicted", contradicted),
        ("unknown, never approved", restored),
        ("succeeded", done.clone()),
        ("succeeded, an attempt was uncertain", attempted(&one_lost, Verdict::Effect(receipt("T-1")))),
        ("succeeded, contradicted", moved(&done, &[observe(attempt_1, other, Source::Webhook)])),
        ("succeeded, erased", moved(&done, &[Event::Purge(PurgeScope::Everything)])),
        ("rejected", refused.clone()),
        ("rejected, erased", moved(&refused, &[Event::Purge(PurgeScope::Everything)])),
        ("closed", moved(&unsent, &[Event::Close(CloseReason::Withdrawn)])),
        ("closed, one abandoned", moved(&one_lost, &[successor])),
    ]
}

/// Every verdict, in each of its kinds that a rule tells apart.
pub(crate) fn verdicts() -> Vec<Verdict> {
    let causes = [
        Cause::ReplyLost,
        Cause::Accepted { handle: None },
        Cause::OwnerLost,
        Cause::AbsentOnce,
        Cause::KeyMismatch,
        Cause::AlreadyExists { handle: None },
        Cause::Restored,
    ];
    let mut verdicts = vec![
        Verdict::Effect(receipt("T-1")),
        Verdict::Effect(receipt("T-2")),
        Verdict::Refusal(rejection()),
        Verdict::NotSent(NotSent::NeverBegun),
        Verdict::NotSent(NotSent::NoConnection),
        Verdict::NoEffect(NoEffect::TurnedAway),
        Verdict::NoEffect(NoEffect::CredentialRefused),
        Verdict::NoEffect(NoEffect::ProvedAbsent),
        Verdict::NoEffect(NoEffect::Decided),
        Verdict::OtherEffect(OtherEffect::MoreThanOne),
        Verdict::OtherEffect(OtherEffect::KeyMismatch),
    ];
    verdicts.extend(causes.map(Verdict::Lost));
    verdicts
}

/// Every source; an owner is the one of the attempt that is spoken of.
pub(crate) fn sources(attempt: u32) -> [Source; 7] {
    [
        Source::Owner(owner(attempt)),
        Source::Recovery { owner: owner(attempt) },
        Source::LateAnswer,
        Source::Lookup,
        Source::Webhook,
        Source::Operator { by: person() },
        Source::Restore,
    ]
}

/// Every observation about an operation: about each attempt that it has, one that it has not, and all.
pub(crate) fn observations(operation: &Operation) -> Vec<Event> {
    let last = operation.history.attempts;
    let mut events = Vec::new();
    for (about, attempt) in (1..=last + 1)
        .map(|attempt| (About::Attempt(AttemptNumber(attempt)), attempt))
        .chain([(About::EveryUncertain, last)])
    {
        for verdict in verdicts() {
            events.extend(sources(attempt).map(|source| observe(about, verdict.clone(), source)));
        }
    }
    events
}

/// Every event that is not an observation.
pub(crate) fn moves(operation: &Operation) -> Vec<Event> {
    let last = AttemptNumber(operation.history.attempts);
    let running = owner(last.0);
    let mut bases = vec![Basis::NoEffectSoFar];
    bases.extend(permit(operation, now()).map(Basis::Redrive));
    let mut events = vec![
        Event::Approve { by: person() },
        Event::Begin { attempt: last, owner: running.clone() },
        Event::Begin { attempt: last, owner: owner(last.0 + 1) },
        Event::Extend { attempt: last, owner: running, settle_by: second(300) },
        Event::Supersede { by: OperationId::parse("another").expect("a name"), note: None },
        Event::Wait { by: person(), next_check: None, note: None },
        Event::Wait { by: person(), next_check: Some(second(90)), note: None },
        Event::Acknowledge { by: person(), note: None },
        Event::Purge(PurgeScope::Arguments),
        Event::Purge(PurgeScope::Everything),
    ];
    events.extend(bases.into_iter().map(|basis| Event::Claim(claim(operation, basis, DispatchMark::WithClaim))));
    events.extend(
        [CloseReason::Declined, CloseReason::Withdrawn, CloseReason::DeadlinePassed, CloseReason::ConfirmedNotDone]
            .map(Event::Close),
    );
    events
}

/// Everything that can happen to an operation.
pub(crate) fn events(operation: &Operation) -> Vec<Event> {
    let mut events = moves(operation);
    events.extend(observations(operation));
    events
}
