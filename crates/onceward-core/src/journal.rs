//! The journal: what happened to an operation, append only, chained by hashes.
//!
//! Each entry hashes the one before it together with a *commitment* to its detail, which is a hash over a random salt and
//! the text. Erasing salt and text keeps the commitment, so that the chain stays whole when words about people go.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::event::{Event, Observation, Verdict};
use crate::hex;
use crate::time::Timestamp;

const COMMITMENT: &[u8] = b"onceward journal detail v1\0";
const CHAIN: &[u8] = b"onceward journal entry v1\0";

/// The last entry of an operation's journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// Its number; 0 before the first entry.
    pub seq: u32,
    /// Its hash.
    #[serde(with = "hash_text")]
    pub hash: [u8; 32],
}

impl Head {
    /// Before the first entry.
    pub const START: Self = Self { seq: 0, hash: [0; 32] };
}

/// Random bytes that hide a short detail from guessing once it is erased.
pub type Salt = [u8; 16];

/// One line of the journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Its number within the operation, from 1.
    pub seq: u32,
    /// When it was written.
    pub at: Timestamp,
    /// Who caused it.
    pub actor: String,
    /// What happened, in one word.
    pub event: String,
    /// What was learned, asked or decided, as JSON; `None` once erased.
    pub detail: Option<String>,
    /// Goes with the detail.
    pub salt: Option<Salt>,
    /// Hash over salt and detail.
    #[serde(with = "hash_text")]
    pub commitment: [u8; 32],
    /// Hash over the entry before and this one.
    #[serde(with = "hash_text")]
    pub hash: [u8; 32],
}

/// The entry that follows `head`.
#[must_use]
pub fn append(head: Head, at: Timestamp, actor: &str, event: &str, detail: String, salt: Salt) -> Entry {
    let seq = head.seq.saturating_add(1);
    let commitment = commit(&salt, &detail);
    let hash = link(&head.hash, seq, at, actor, event, &commitment);
    Entry {
        seq,
        at,
        actor: actor.to_owned(),
        event: event.to_owned(),
        detail: Some(detail),
        salt: Some(salt),
        commitment,
        hash,
    }
}

impl Entry {
    /// This entry as the head that the next one follows.
    #[must_use]
    pub const fn head(&self) -> Head {
        Head { seq: self.seq, hash: self.hash }
    }
}

/// Where a chain is broken. An altered, missing or reordered entry, or a detail that is not the one committed to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the journal is broken at entry {seq}")]
pub struct Broken {
    /// The first entry that does not follow.
    pub seq: u32,
}

/// Checks that `entries` are the whole chain up to `head`.
///
/// # Errors
/// [`Broken`] names the first entry that does not follow from the one before it.
pub fn verify(entries: &[Entry], head: Head) -> Result<(), Broken> {
    let mut last = Head::START;
    for entry in entries {
        let follows = entry.seq == last.seq + 1
            && entry.hash == link(&last.hash, entry.seq, entry.at, &entry.actor, &entry.event, &entry.commitment);
        let committed = match (&entry.salt, &entry.detail) {
            (Some(salt), Some(detail)) => commit(salt, detail) == entry.commitment,
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        if !follows || !committed {
            return Err(Broken { seq: entry.seq });
        }
        last = entry.head();
    }
    if last == head { Ok(()) } else { Err(Broken { seq: last.seq.saturating_add(1) }) }
}

fn commit(salt: &Salt, detail: &str) -> [u8; 32] {
    let mut hash = Sha256::new();
    hash.update(COMMITMENT);
    hash.update(salt);
    hash.update(detail.as_bytes());
    hash.finalize().into()
}

fn link(previous: &[u8; 32], seq: u32, at: Timestamp, actor: &str, event: &str, commitment: &[u8; 32]) -> [u8; 32] {
    let mut hash = Sha256::new();
    hash.update(CHAIN);
    hash.update(previous);
    hash.update(seq.to_be_bytes());
    hash.update(at.as_micros().to_be_bytes());
    for text in [actor, event] {
        hash.update((text.len() as u64).to_be_bytes());
        hash.update(text.as_bytes());
    }
    hash.update(commitment);
    hash.finalize().into()
}

/// What the journal keeps of an event. A receipt that the row stores is kept there once and named here by its digest; one
/// that the row does not take is kept here whole, so that no answer is ever dropped (R1).
#[must_use]
pub fn detail(event: &Event, row_took_it: Receipts) -> String {
    match (event, row_took_it) {
        (Event::Observe(seen), Receipts::InRow) => serde_json::to_string(&digested(seen)),
        (Event::Observe(seen), Receipts::InJournal) => serde_json::to_string(seen),
        (Event::Observe(seen), Receipts::Nowhere) => serde_json::to_string(&without_words(seen)),
        (
            Event::Approve { .. }
            | Event::Claim(_)
            | Event::Begin { .. }
            | Event::Extend { .. }
            | Event::Close(_)
            | Event::Supersede { .. }
            | Event::Wait { .. }
            | Event::Acknowledge { .. }
            | Event::Purge(_),
            Receipts::InRow | Receipts::InJournal | Receipts::Nowhere,
        ) => serde_json::to_string(event),
    }
    .unwrap_or_else(|error| format!("{{\"unprintable\":{:?}}}", error.to_string()))
}

/// Where the answer that an observation carries is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Receipts {
    /// The operation's row stores it.
    InRow,
    /// Only the journal does.
    InJournal,
    /// Somebody had everything of the operation erased: what comes after that leaves its digest.
    Nowhere,
}

/// An observation with the answer's body replaced by its digest.
fn digested(seen: &Observation) -> Observation {
    let mut seen = seen.clone();
    let answer = match &mut seen.verdict {
        Verdict::Effect(receipt) => &mut receipt.answer,
        Verdict::Refusal(rejection) => &mut rejection.answer,
        Verdict::NotSent(_) | Verdict::NoEffect(_) | Verdict::Lost(_) | Verdict::OtherEffect(_) => return seen,
    };
    answer.body = format!("sha256:{}", hex::encode(&Sha256::digest(&answer.body))).into_bytes();
    answer.headers.clear();
    seen
}

/// What may be kept of an observation where everything was erased.
fn without_words(seen: &Observation) -> Observation {
    let mut seen = Observation { note: None, ..digested(seen) };
    if let Verdict::Effect(receipt) = &mut seen.verdict {
        receipt.effect_id = None;
    }
    seen
}

/// Hashes are hex in JSON.
mod hash_text {
    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(hash: &[u8; 32], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&crate::hex::encode(hash))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<[u8; 32], D::Error> {
        let text = String::deserialize(deserializer)?;
        crate::hex::decode(&text)
            .and_then(|bytes| bytes.try_into().ok())
            .ok_or_else(|| D::Error::custom("a hash is 64 hex digits"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain() -> Vec<Entry> {
        let mut head = Head::START;
        (0..3u8)
            .map(|n| {
                let entry = append(head, Timestamp::from_micros(7), "a", "claim", format!("{{\"n\":{n}}}"), [n; 16]);
                head = entry.head();
                entry
            })
            .collect()
    }

    #[test]
    fn a_whole_chain_verifies_and_erasing_words_keeps_it_whole() {
        let mut entries = chain();
        let head = entries[2].head();
        assert_eq!(verify(&entries, head), Ok(()));
        entries[1].detail = None;
        entries[1].salt = None;
        assert_eq!(verify(&entries, head), Ok(()));
    }

    #[test]
    fn every_alteration_breaks_the_chain_where_it_was_made() {
        let whole = chain();
        let head = whole[2].head();
        type Alteration = fn(&mut Vec<Entry>);
        let alterations: [(u32, Alteration); 6] = [
            (2, |entries| entries[1].detail = Some("{}".to_owned())),
            (2, |entries| entries[1].actor = "b".to_owned()),
            (2, |entries| entries[1].at = Timestamp::from_micros(8)),
            (2, |entries| entries[1].event = "close".to_owned()),
            (3, |entries| drop(entries.remove(1))),
            (3, |entries| drop(entries.pop())),
        ];
        for (seq, alter) in alterations {
            let mut entries = whole.clone();
            alter(&mut entries);
            assert_eq!(verify(&entries, head), Err(Broken { seq }));
        }
    }
}
