//! The things of one account as they are now: the newest effect on each name is what the thing looks like.

use std::collections::HashMap;

use serde_json::Value;

use crate::sandbox::limits::ADMIN_ROWS_MAX;
use crate::sandbox::resource::Kind;
use crate::sandbox::state::Shared;
use crate::sandbox::store::{Effect, StoreError, all_effects};

/// Everything that one account has made, oldest first.
#[derive(Debug)]
pub(super) struct Holdings {
    effects: Vec<Effect>,
}

impl Holdings {
    pub(super) fn of(shared: &Shared, world: &str) -> Result<Self, StoreError> {
        let mut effects = shared.store.read(|connection| all_effects(connection, None, Some(world), ADMIN_ROWS_MAX))?;
        effects.retain(|effect| matches!(effect.resource, Kind::Spoken(_)));
        Ok(Self { effects })
    }

    /// The newest effect on the thing of this name, unless it was its end.
    pub(super) fn newest(&self, id: &str) -> Option<&Effect> {
        self.effects.iter().rev().find(|effect| effect.id() == id).filter(|effect| !is_deleted(effect))
    }

    /// How often something was written at exactly this path.
    pub(super) fn writes_at(&self, path: &str) -> usize {
        self.effects.iter().filter(|effect| effect.resource.name() == path).count()
    }

    /// The first effect under each name at this path, newest first, each with the newest on that name. What is deleted is
    /// missing.
    pub(super) fn made_at<'a>(&'a self, path: &'a str) -> Vec<Held<'a>> {
        self.held(|effect| effect.resource.name() == path)
    }

    /// All of it, wherever it was made, newest first.
    pub(super) fn everything(&self) -> Vec<Held<'_>> {
        self.held(|_| true)
    }

    fn held(&self, wanted: impl Fn(&Effect) -> bool) -> Vec<Held<'_>> {
        let mut newest = HashMap::new();
        let mut first: Vec<&Effect> = Vec::new();
        for effect in &self.effects {
            if newest.insert(effect.id(), effect).is_none() {
                first.push(effect);
            }
        }
        first
            .into_iter()
            .rev()
            .filter(|effect| wanted(effect))
            .filter_map(|made| Some(Held { made, now: newest.get(&made.id()).copied()? }))
            .filter(|held| !is_deleted(held.now))
            .collect()
    }
}

/// One thing: the effect that made it, and the last one on it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Held<'a> {
    pub(super) made: &'a Effect,
    pub(super) now: &'a Effect,
}

fn is_deleted(effect: &Effect) -> bool {
    effect.thing().get("deleted") == Some(&Value::Bool(true))
}
