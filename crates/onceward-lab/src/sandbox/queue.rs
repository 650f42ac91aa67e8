//! Faults programmed ahead: a caller behind a gateway cannot set a header on the request that the gateway sends.

use std::sync::Mutex;

use axum::http::Method;
use serde::{Deserialize, Serialize};

use super::fault::Fault;
use super::limits::FAULT_RULES_MAX;
use super::sync::locked;

/// The faults a sandbox starts with.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(transparent)]
pub struct Faults {
    /// Tried in this order.
    pub rules: Vec<FaultRule>,
}

impl Faults {
    /// No fault.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }
}

/// A fault, and the request it waits for.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct FaultRule {
    /// Which requests count.
    #[serde(rename = "match", default)]
    pub matches: FaultMatch,
    /// What happens to the request it waited for.
    pub fault: Fault,
}

/// Which requests a rule counts, and at which of them it fires. What is left out matches everything.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct FaultMatch {
    /// The method; `POST` unless named, since faults are about writes. `*` is any.
    pub method: String,
    /// The path, exactly (`/tickets`), or up to a final `*` (`/tickets/*`).
    pub path: Option<String>,
    /// The idempotency key, exactly.
    pub key: Option<String>,
    /// The account, exactly.
    pub account: Option<String>,
    /// The first matching request that the fault meets, counted from 1 since the rule was programmed.
    pub nth: u64,
    /// How many matching requests in a row it meets from there. Then the rule is spent.
    pub times: u64,
}

impl Default for FaultMatch {
    fn default() -> Self {
        Self { method: "POST".to_owned(), path: None, key: None, account: None, nth: 1, times: 1 }
    }
}

/// What a rule is compared with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seen<'a> {
    pub(crate) method: &'a Method,
    pub(crate) path: &'a str,
    pub(crate) key: Option<&'a str>,
    pub(crate) account: Option<&'a str>,
}

impl FaultMatch {
    fn matches(&self, seen: Seen<'_>) -> bool {
        let path = self.path.as_deref().is_none_or(|wanted| {
            wanted.strip_suffix('*').map_or(wanted == seen.path, |prefix| seen.path.starts_with(prefix))
        });
        let method = self.method == "*" || self.method.eq_ignore_ascii_case(seen.method.as_str());
        let same = |wanted: &Option<String>, got: Option<&str>| wanted.is_none() || wanted.as_deref() == got;
        method && path && same(&self.key, seen.key) && same(&self.account, seen.account)
    }
}

/// Why rules were not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum QueueError {
    /// More than [`FAULT_RULES_MAX`] would wait.
    #[error("at most {FAULT_RULES_MAX} fault rules wait at once")]
    Full,
    /// A rule that counts from 0, or meets no request, could never fire.
    #[error("nth and times begin at 1")]
    NeverFires,
}

/// A rule with what it has counted, as the auditor sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct WaitingRule {
    #[serde(flatten)]
    pub(crate) rule: FaultRule,
    /// Matching requests so far.
    pub(crate) seen: u64,
}

/// The rules that wait.
#[derive(Debug, Default)]
pub(crate) struct FaultQueue {
    waiting: Mutex<Vec<WaitingRule>>,
}

impl FaultQueue {
    /// Adds rules behind the waiting ones: all of them, or none.
    pub(crate) fn program(&self, rules: Vec<FaultRule>) -> Result<(), QueueError> {
        if rules.iter().any(|rule| rule.matches.nth == 0 || rule.matches.times == 0) {
            return Err(QueueError::NeverFires);
        }
        let mut waiting = locked(&self.waiting);
        if waiting.len() + rules.len() > FAULT_RULES_MAX {
            return Err(QueueError::Full);
        }
        waiting.extend(rules.into_iter().map(|rule| WaitingRule { rule, seen: 0 }));
        Ok(())
    }

    /// Counts this request in every rule that it matches, and returns the fault of the first rule whose turn it is.
    ///
    /// Every matching rule counts, also one whose turn is taken by an earlier rule: `nth` stays the number of the request.
    pub(crate) fn take(&self, seen: Seen<'_>) -> Option<Fault> {
        let mut waiting = locked(&self.waiting);
        let mut taken = None;
        waiting.retain_mut(|waiting| {
            let FaultRule { matches, fault } = &waiting.rule;
            if !matches.matches(seen) {
                return true;
            }
            waiting.seen += 1;
            if waiting.seen >= matches.nth && taken.is_none() {
                taken = Some(*fault);
            }
            waiting.seen + 1 < matches.nth.saturating_add(matches.times)
        });
        taken
    }

    pub(crate) fn waiting(&self) -> Vec<WaitingRule> {
        locked(&self.waiting).clone()
    }

    pub(crate) fn clear(&self) {
        locked(&self.waiting).clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(json: &str) -> FaultRule {
        serde_json::from_str(json).expect(json)
    }

    fn post(path: &str) -> Seen<'_> {
        Seen { method: &Method::POST, path, key: Some("k"), account: None }
    }

    #[test]
    fn a_rule_fires_at_its_request_and_is_spent() {
        let queue = FaultQueue::default();
        queue
            .program(vec![rule(r#"{"match":{"path":"/tickets","nth":2,"times":2},"fault":"cut_mid_body"}"#)])
            .expect("programmed");
        let fired: Vec<_> = ["/tickets", "/orders", "/tickets", "/tickets", "/tickets"]
            .into_iter()
            .map(|path| queue.take(post(path)).is_some())
            .collect();
        assert_eq!(fired, [false, false, true, true, false]);
        assert!(queue.waiting().is_empty(), "a spent rule is gone");
    }

    #[test]
    fn two_rules_for_one_path_count_the_same_requests() {
        let queue = FaultQueue::default();
        queue
            .program(vec![
                rule(r#"{"match":{"path":"/tickets"},"fault":"lose_reply_after_commit"}"#),
                rule(r#"{"match":{"path":"/tickets","nth":2},"fault":"redirect_307"}"#),
            ])
            .expect("programmed");
        assert_eq!(queue.take(post("/tickets")), Some(Fault::LoseReplyAfterCommit));
        assert_eq!(queue.take(post("/tickets")), Some(Fault::Redirect307));
        assert_eq!(queue.take(post("/tickets")), None);
    }

    #[test]
    fn a_rule_without_a_match_is_about_writes() {
        let queue = FaultQueue::default();
        queue.program(vec![rule(r#"{"fault":"redirect_307"}"#)]).expect("programmed");
        let get = Seen { method: &Method::GET, ..post("/tickets") };
        assert_eq!(queue.take(get), None);
        assert_eq!(queue.take(post("/mail")), Some(Fault::Redirect307));
    }

    #[test]
    fn rules_match_by_prefix_key_account_and_any_method() {
        let queue = FaultQueue::default();
        let wanted = r#"{"match":{"method":"*","path":"/tickets/*","key":"k","account":"a"},"fault":"redirect_307"}"#;
        queue.program(vec![rule(wanted)]).expect("programmed");
        let seen = Seen { method: &Method::GET, path: "/tickets/T-1", key: Some("k"), account: Some("a") };
        for other in
            [Seen { path: "/tickets", ..seen }, Seen { key: None, ..seen }, Seen { account: Some("b"), ..seen }]
        {
            assert_eq!(queue.take(other), None);
        }
        assert_eq!(queue.take(seen), Some(Fault::Redirect307));
    }

    #[test]
    fn rules_that_never_fire_and_too_many_rules_are_refused_whole() {
        let queue = FaultQueue::default();
        let never = rule(r#"{"match":{"nth":0},"fault":"redirect_307"}"#);
        assert_eq!(queue.program(vec![never]), Err(QueueError::NeverFires));
        let many = vec![rule(r#"{"fault":"redirect_307"}"#); FAULT_RULES_MAX + 1];
        assert_eq!(queue.program(many), Err(QueueError::Full));
        assert!(queue.waiting().is_empty());
    }
}
