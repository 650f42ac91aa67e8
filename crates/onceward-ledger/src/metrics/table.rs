//! Every metric: its name, its kind, its unit, its labels. docs/metrics.md is printed from this table.

use std::fmt::Write as _;

/// One metric.
#[derive(Debug, PartialEq, Eq)]
pub struct Metric {
    /// Its name, which ends in its unit, and in `_total` for a counter.
    pub name: &'static str,
    /// How it moves.
    pub kind: Kind,
    /// Its labels; at most two.
    pub labels: &'static [Label],
    /// What it says, in one sentence.
    pub help: &'static str,
}

/// How a metric moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It only grows, and begins at zero with the process.
    Counter,
    /// It goes up and down.
    Gauge,
    /// A distribution of times, in seconds.
    Times,
    /// A distribution of counts.
    Counts,
}

impl Kind {
    /// The word in the exposition format.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Times | Self::Counts => "histogram",
        }
    }
}

/// A label, whose values are a closed set. No label is an id, a tenant, a principal or a text of a caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label {
    /// Its name.
    pub name: &'static str,
    /// Its values, in words.
    pub values: &'static str,
}

const TOOL: Label = Label { name: "tool", values: "tools of the configuration; `other` for every other one" };
const CAUSE: Label =
    Label { name: "cause", values: "why the latest attempt is uncertain: the words of `cause` in answers" };
const SOURCE: Label =
    Label { name: "source", values: "`owner`, `recovery`, `late_answer`, `lookup`, `webhook`, `operator`, `restore`" };

macro_rules! metrics {
    ($($(#[$doc:meta])* $id:ident = $name:literal, $kind:ident, [$($label:expr),*], $help:literal;)*) => {
        /// Which metric.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Id {
            $($(#[$doc])* #[doc = $help] $id,)*
        }

        /// All metrics, in the order of [`Id`].
        pub const METRICS: &[Metric] = &[
            $(Metric { name: $name, kind: Kind::$kind, labels: &[$($label),*], help: $help },)*
        ];
    };
}

metrics! {
    Calls = "onceward_calls_total", Counter, [TOOL, Label { name: "outcome", values:
        "the outcomes of docs/outcomes.md; `granted` for a claim that an application got; `no_answer` for an error" }],
        "Calls and claims that were answered; `replayed` are the repetitions that found a receipt.";
    Attempts = "onceward_attempts_total", Counter, [TOOL, Label { name: "basis", values:
        "`no_effect_so_far`; `redrive` where a contract recognises the key" }],
        "Attempts that were claimed; a redrive sends a key again.";
    Dispatch = "onceward_dispatch_seconds", Times, [TOOL],
        "How long a destination took to answer an attempt, or to be given up.";
    Observations = "onceward_observations_total", Counter, [SOURCE, Label { name: "verdict", values:
        "`effect`, `refusal`, `not_sent`, `no_effect`, `lost`, `other_effect`" }],
        "What was learned about attempts and is durable, by who said so.";
    Receipts = "onceward_receipts_total", Counter, [TOOL, SOURCE],
        "Operations that succeeded, by who brought the receipt.";
    Lookups = "onceward_lookups_total", Counter, [TOOL, Label { name: "verdict", values:
        "`found`, `refused`, `other_effect`, `candidates`, `proved_absent`, `absent_so_far`, `says_nothing`, `no_answer`, `no_way`" }],
        "Questions that destinations were asked about uncertain attempts.";
    Decisions = "onceward_decisions_total", Counter, [TOOL, Label { name: "choice", values:
        "`confirmed_done`, `confirmed_not_done`, `dispatch_again`, `refused`, `superseded_by`, `wait`, `acknowledge`" }],
        "Decisions of people on unknown or contradicted operations.";
    Approvals = "onceward_approvals_total", Counter, [TOOL, Label { name: "decision", values: "`approve`, `decline`" }],
        "Decisions of people on proposed operations.";
    Disagreements = "onceward_disagreements_total", Counter, [TOOL, Label { name: "kind", values:
        "the words of `disagreement` in answers" }],
        "Operations that came to be contradicted by evidence, by the first contradiction.";
    Webhooks = "onceward_webhooks_total", Counter, [Label { name: "destination", values:
        "destinations of the configuration that have a webhook" }, Label { name: "result", values:
        "`unauthentic`, `unreadable`, `ignored`, `unmatched`, `running`, `ambiguous`, `known`, `candidate`, `disputed`, `settled`" }],
        "Events that destinations delivered, by what became of them.";
    OwnersRecovered = "onceward_owners_recovered_total", Counter, [],
        "Owners that were gone and all of whose attempts were recovered.";
    Unknown = "onceward_unknown_operations", Gauge, [TOOL, CAUSE],
        "Operations of which an attempt may have had its effect.";
    UnknownAge = "onceward_unknown_oldest_age_seconds", Gauge, [TOOL, CAUSE],
        "How long ago the earliest uncertain attempt of the oldest such operation was claimed.";
    OldestUnknown = "onceward_oldest_unknown_age_seconds", Gauge, [],
        "The same over all tools and causes; 0 where nothing is unknown.";
    NeedsPerson = "onceward_needs_person_operations", Gauge, [Label { name: "reason", values:
        "`unknown` (no check is scheduled), `proposed`, `disagreement`" }],
        "Operations that nothing but a person will move.";
    InFlight = "onceward_dispatches_in_flight", Gauge, [],
        "Dispatches of this process that are not settled yet.";
    Queue = "onceward_ledger_queue_commands", Gauge, [],
        "Commands that wait for the ledger's writer.";
    Writable = "onceward_ledger_writable", Gauge, [],
        "1 while the ledger takes writes; while it is 0 nothing is dispatched.";
    Commit = "onceward_ledger_commit_seconds", Times, [],
        "How long commits of the ledger took.";
    Group = "onceward_ledger_commit_commands", Counts, [],
        "How many commands were committed together.";
}

impl Id {
    /// Its row in the table.
    #[must_use]
    pub const fn metric(self) -> &'static Metric {
        &METRICS[self as usize]
    }
}

/// The table of docs/metrics.md, as Markdown.
#[must_use]
pub fn document() -> String {
    let mut text = String::from("| metric | kind | labels | what it says |\n|---|---|---|---|\n");
    for Metric { name, kind, labels, help } in METRICS {
        let labels: Vec<_> = labels.iter().map(|label| format!("`{}`", label.name)).collect();
        let labels = if labels.is_empty() { "–".to_owned() } else { labels.join(", ") };
        let _ = writeln!(text, "| `{name}` | {} | {labels} | {help} |", kind.name());
    }
    text.push_str("\n| label | of | values |\n|---|---|---|\n");
    let mut told = Vec::new();
    for label in METRICS.iter().flat_map(|metric| metric.labels) {
        if told.contains(label) {
            continue;
        }
        told.push(*label);
        let of: Vec<_> = METRICS.iter().filter(|metric| metric.labels.contains(label)).collect();
        let of: Vec<_> = of.iter().map(|metric| format!("`{}`", metric.name)).collect();
        let of = if of.len() > 2 { "several".to_owned() } else { of.join(", ") };
        let _ = writeln!(text, "| `{}` | {of} | {} |", label.name, label.values);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_its_kind_and_its_unit_and_no_metric_has_more_than_two_labels() {
        for metric in METRICS {
            let Metric { name, kind, labels, help } = metric;
            assert!(
                name.starts_with("onceward_") && name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'),
                "{name}"
            );
            assert_eq!(*kind == Kind::Counter, name.ends_with("_total"), "{name}");
            assert!(*kind != Kind::Times || name.ends_with("_seconds"), "{name}");
            assert!(labels.len() <= 2, "{name}");
            assert!(help.ends_with('.') && !help.contains('\n'), "{name}");
            assert_eq!(METRICS.iter().filter(|other| other.name == *name).count(), 1, "{name}");
        }
        assert_eq!(Id::Group.metric(), METRICS.last().unwrap());
    }

    #[test]
    fn the_document_has_the_table_that_the_code_makes() {
        let text = include_str!("../../../../docs/metrics.md");
        assert!(text.contains(&document()), "docs/metrics.md is stale; its tables should read:\n{}", document());
    }
}
