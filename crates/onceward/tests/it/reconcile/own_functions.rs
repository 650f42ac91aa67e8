//! Applications that look for the effects of their own functions.

use super::*;
use onceward::application::{ClaimAnswer, ClaimRef, ClaimTerms, Granted, OwnLookup};
use onceward::core::classify::FunctionEnd;
use onceward::core::evidence::{Candidate, Compared, Completeness, RecognisedBy};
use onceward::core::receipt::Receipt;
use onceward::lookup::Report;

fn terms(works_for: Option<Duration>) -> ClaimTerms {
    ClaimTerms {
        lookup: Some(OwnLookup {
            visible_after: Duration::from_secs(5),
            works_for,
            absences_required: works_for.map(|_| 2),
        }),
        ..ClaimTerms::from(Duration::from_secs(60))
    }
}

async fn failed(ledger: &Ledger, works_for: Option<Duration>) -> Box<Granted> {
    let ClaimAnswer::Granted(granted) =
        ledger.claim(&allowed(), call("op-1", "printer"), terms(works_for)).await.unwrap()
    else {
        panic!("not granted")
    };
    let held = ClaimRef { id: crate::stage::id("op-1"), attempt: granted.attempt, secret: granted.secret.clone() };
    ledger.begin_claim(&allowed(), &held).await.unwrap();
    let told = ledger.settle_claim(&allowed(), &held, FunctionEnd::Failed).await.unwrap();
    assert_eq!(told.outcome, Outcome::Unknown);
    granted
}

fn application() -> onceward::authorize::Grant {
    grant("acme", "agent", &Scope::APPLICATION)
}

async fn report(ledger: &Ledger, found: Vec<Candidate>, asked_ago: Duration) -> Said {
    let key = onceward::core::key::OperationKey {
        tenant: onceward::core::key::TenantId::parse("acme").unwrap(),
        id: crate::stage::id("op-1"),
    };
    let operation = ledger.store().get(&key).await.unwrap().unwrap();
    let may = application().to_report(&operation).unwrap();
    let report = Report { asked_ago, found, completeness: Completeness::Whole, note: None };
    ledger.report_lookup(&may, &operation, report).await.unwrap().said
}

#[tokio::test(flavor = "multi_thread")]
async fn an_application_finds_its_own_effect_and_settles_it_without_a_person() {
    let (stage, clock) = (Stage::new(), Movable::default());
    let ledger = ledger(&stage, &clock).await;
    ledger.reconcile(Arc::new(Only(Arc::new(Helpdesk::new(KEYED, [])))));
    failed(&ledger, None).await;
    assert!(ledger.due_lookups(&application(), &[], 10).await.unwrap().is_empty(), "it does not show yet");
    clock.forward(Duration::from_secs(20));
    let due = ledger.due_lookups(&application(), &[], 10).await.unwrap();
    assert_eq!(due.len(), 1);
    let elsewhere = grant("other", "agent", &Scope::APPLICATION);
    assert!(ledger.due_lookups(&elsewhere, &[], 10).await.unwrap().is_empty());
    assert!(ledger.due_lookups(&crate::stage::agent(), &[], 10).await.unwrap().is_empty(), "an agent cannot look up");
    let receipt = Receipt { effect_id: None, answer: Answer::json(&json!({ "id": "T-1" })), received_at: clock.now() };
    let found = |parameters| vec![Candidate { by: RecognisedBy::OurKey, parameters, receipt: receipt.clone() }];
    assert_eq!(report(&ledger, found(Compared::Not), Duration::ZERO).await, Said::Candidates);
    assert_eq!(report(&ledger, found(Compared::Same), Duration::ZERO).await, Said::Found);
    let ClaimAnswer::Answered(told) =
        ledger.claim(&allowed(), call("op-1", "printer"), Duration::from_secs(60)).await.unwrap()
    else {
        panic!("it is settled")
    };
    assert_eq!(told.outcome, Outcome::Replayed);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_application_does_not_find_frees_its_operation_only_after_its_own_bound() {
    let (stage, clock) = (Stage::new(), Movable::default());
    let ledger = ledger(&stage, &clock).await;
    ledger.reconcile(Arc::new(Only(Arc::new(Helpdesk::new(KEYED, [])))));
    failed(&ledger, Some(Duration::from_secs(30))).await;
    assert_eq!(report(&ledger, Vec::new(), Duration::ZERO).await, Said::SaysNothing);
    clock.forward(Duration::from_secs(200));
    assert_eq!(report(&ledger, Vec::new(), Duration::from_secs(150)).await, Said::SaysNothing, "asked too early");
    assert_eq!(report(&ledger, Vec::new(), Duration::ZERO).await, Said::AbsentSoFar);
    assert_eq!(report(&ledger, Vec::new(), Duration::ZERO).await, Said::SaysNothing, "one look is not two answers");
    clock.forward(Duration::from_secs(6));
    assert_eq!(report(&ledger, Vec::new(), Duration::ZERO).await, Said::ProvedAbsent);
    let again = ledger.claim(&allowed(), call("op-1", "printer"), Duration::from_secs(60)).await.unwrap();
    assert!(matches!(again, ClaimAnswer::Granted(_)));
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_bound_nothing_that_is_not_found_ever_frees_it() {
    let (stage, clock) = (Stage::new(), Movable::default());
    let ledger = ledger(&stage, &clock).await;
    ledger.reconcile(Arc::new(Only(Arc::new(Helpdesk::new(KEYED, [])))));
    failed(&ledger, None).await;
    clock.forward(Duration::from_secs(24 * 3600));
    for _ in 0..3 {
        assert_eq!(report(&ledger, Vec::new(), Duration::ZERO).await, Said::SaysNothing);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_calls_reports_on_its_own_operations_only() {
    let (stage, clock) = (Stage::new(), Movable::default());
    let ledger = ledger(&stage, &clock).await;
    ledger.reconcile(Arc::new(Only(Arc::new(Helpdesk::new(KEYED, [])))));
    failed(&ledger, Some(Duration::ZERO)).await;
    let key = onceward::core::key::OperationKey {
        tenant: onceward::core::key::TenantId::parse("acme").unwrap(),
        id: crate::stage::id("op-1"),
    };
    let operation = ledger.store().get(&key).await.unwrap().unwrap();
    assert!(grant("acme", "somebody-else", &Scope::APPLICATION).to_report(&operation).is_err());
    assert!(application().to_report(&operation).is_ok());
    assert!(grant("acme", "auditor", &[Scope::Read, Scope::Lookup]).to_report(&operation).is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operation_has_one_kind_of_runner() {
    let (stage, clock) = (Stage::new(), Movable::default());
    let ledger = ledger(&stage, &clock).await;
    let helpdesk = Arc::new(Helpdesk::new(KEYED, []));
    ledger.reconcile(Arc::new(Only(helpdesk.clone())));
    let mut proposed = call("gateways", "printer");
    proposed.approval = onceward::call::Approval::Required;
    drop(ledger.execute(&allowed(), proposed.clone(), helpdesk.clone(), PATIENCE).await.unwrap());
    let version = onceward::store::Expects::Anything;
    ledger.approve(&crate::stage::operator(), &crate::stage::id("gateways"), version).await.unwrap();
    let claimed = ledger.claim(&allowed(), proposed.clone(), Duration::from_secs(60)).await;
    assert!(matches!(claimed, Err(onceward::LedgerError::OtherRunner { .. })), "{claimed:?}");
    let told = ledger.execute(&allowed(), proposed, helpdesk.clone(), PATIENCE).await.unwrap();
    assert_eq!((told.outcome, helpdesk.effects()), (Outcome::Executed, 1));
    failed(&ledger, None).await;
    let told = ledger.execute(&allowed(), call("op-1", "printer"), helpdesk.clone(), PATIENCE).await.unwrap();
    assert_eq!((told.outcome, helpdesk.effects()), (Outcome::Unknown, 1), "the gateway sends nothing for it");
}
