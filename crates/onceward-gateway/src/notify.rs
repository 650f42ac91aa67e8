//! Notices: the operator's own systems are told that a person is needed.
//!
//! Nothing rests on a notice, and none holds anything up: a task looks at the ledger as any reader does, and what it finds there
//! *is* the durable list of what is still to be told. A notice that did not arrive is sent again for as long as its operation
//! waits; after a restart each is sent once more, under the id that it had, so that its receiver takes it once.

mod found;

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use onceward_core::time::Timestamp;
use onceward_destinations::notice::{Delivery, InvalidTarget, Notice, NoticeTarget};
use onceward_destinations::secrets::SecretSource;
use onceward_ledger::store::StoreError;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use self::found::Found;
use crate::app::App;
use crate::limits::{NOTICE_AGAIN_FIRST, NOTICE_AGAIN_MAX, NOTICE_LOOK_EVERY, NOTICE_SETTLING};

/// What a person is told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
pub enum Event {
    /// An operation waits for approval.
    #[serde(rename = "approval.requested")]
    ApprovalRequested,
    /// An operation is unknown, and no check is scheduled that could settle it.
    #[serde(rename = "operation.unknown")]
    OperationUnknown,
    /// Evidence contradicts what is recorded, and nobody has looked at it.
    #[serde(rename = "operation.disagreement")]
    OperationDisagreement,
}

impl Event {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::ApprovalRequested, Self::OperationUnknown, Self::OperationDisagreement];

    /// The word for it in a notice.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ApprovalRequested => "approval.requested",
            Self::OperationUnknown => "operation.unknown",
            Self::OperationDisagreement => "operation.disagreement",
        }
    }
}

/// `[notify]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NotifyText {
    url: String,
    secret: String,
    events: Option<Vec<Event>>,
}

/// Where notices go, and of what.
#[derive(Debug)]
pub struct Notify {
    /// Where to.
    pub target: NoticeTarget,
    /// Of what.
    pub events: Vec<Event>,
    /// How fast.
    pub pace: Pace,
}

/// How fast notices are found and sent. The default is right for people; tests shorten it.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Between two looks at the ledger.
    pub every: Duration,
    /// How long an operation must have been unknown without a scheduled check.
    pub settling: Duration,
    /// The pause before a notice that did not arrive is sent again; it doubles.
    pub again: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self { every: NOTICE_LOOK_EVERY, settling: NOTICE_SETTLING, again: NOTICE_AGAIN_FIRST }
    }
}

impl NotifyText {
    pub(crate) fn read(self, base_dir: &Path, secrets: &dyn SecretSource) -> Result<Notify, InvalidTarget> {
        Ok(Notify {
            target: NoticeTarget::new(&self.url, &self.secret, base_dir, secrets)?,
            events: self.events.unwrap_or_else(|| Event::ALL.to_vec()),
            pace: Pace::default(),
        })
    }
}

/// A notice and what became of it.
struct Told {
    notice: Notice,
    standing: Standing,
}

enum Standing {
    Taken,
    Again { at: Timestamp, tries: u32 },
}

/// Looks and tells until it is stopped.
pub(crate) async fn run(app: App, notify: Notify, stop: CancellationToken) {
    let mut told: HashMap<String, Told> = HashMap::new();
    let mut down_until = None;
    while stop.run_until_cancelled(tokio::time::sleep(notify.pace.every)).await.is_some() {
        match found::look(&app, &notify.events, notify.pace.settling).await {
            Ok(found) => note(&mut told, found, app.ledger().clock().now()),
            Err(error) => warn(&error),
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = tell(&app, &notify, &mut told, &mut down_until) => {}
        }
    }
}

fn warn(error: &StoreError) {
    tracing::warn!(%error, "the ledger could not be looked at for notices; it is looked at again");
}

/// What is found waits to be told; what is not found any more needs nobody.
fn note(told: &mut HashMap<String, Told>, found: Vec<Found>, now: Timestamp) {
    let mut current: HashMap<String, Told> = HashMap::with_capacity(found.len());
    for one in found {
        let known = told.remove(&one.id);
        current.entry(one.id.clone()).or_insert_with(|| {
            known.unwrap_or_else(|| Told { notice: one.notice(), standing: Standing::Again { at: now, tries: 0 } })
        });
    }
    *told = current;
}

/// Sends what is due. A receiver that does not answer, or has no time, ends the round: the others would fare no better.
async fn tell(app: &App, notify: &Notify, told: &mut HashMap<String, Told>, down_until: &mut Option<Timestamp>) {
    for one in told.values_mut() {
        let now = app.ledger().clock().now();
        if down_until.is_some_and(|until| now < until) {
            return;
        }
        let Standing::Again { at, tries } = one.standing else { continue };
        if at > now {
            continue;
        }
        let delivery = notify.target.send(&one.notice, now).await;
        let again = now.plus(pause(notify.pace.again, tries));
        one.standing = match &delivery {
            Delivery::Taken => Standing::Taken,
            Delivery::Refused(_) | Delivery::NoAnswer(_) => {
                Standing::Again { at: again, tries: tries.saturating_add(1) }
            }
        };
        match delivery {
            Delivery::Taken => *down_until = None,
            Delivery::Refused(status) if status < 500 && status != 429 => {
                tracing::warn!(status, notice = %one.notice.id, "a notice was refused; it is sent again later");
            }
            Delivery::Refused(status) => {
                tracing::warn!(status, "the receiver of notices has no time; they are sent again later");
                *down_until = Some(again);
            }
            Delivery::NoAnswer(why) => {
                tracing::warn!(why, "the receiver of notices does not answer; they are sent again later");
                *down_until = Some(again);
            }
        }
    }
}

fn pause(first: Duration, tries: u32) -> Duration {
    first.saturating_mul(2_u32.saturating_pow(tries)).min(NOTICE_AGAIN_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_bound_and_never_overflow() {
        let after = |tries| pause(NOTICE_AGAIN_FIRST, tries);
        assert_eq!((after(0), after(1)), (NOTICE_AGAIN_FIRST, NOTICE_AGAIN_FIRST * 2));
        assert_eq!((after(30), after(u32::MAX)), (NOTICE_AGAIN_MAX, NOTICE_AGAIN_MAX));
    }

    #[test]
    fn an_event_is_configured_by_the_name_that_it_is_told_by() {
        for event in Event::ALL {
            assert_eq!(serde_json::from_value::<Event>(event.name().into()).unwrap(), event);
        }
    }
}
