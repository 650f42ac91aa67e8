//! Places for what a process does in the background: so many at once, so many for one tenant at one destination, and one for an
//! operation.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use onceward_core::key::{OperationKey, TenantId};

/// The places of one kind of work. At most a few hundred are taken, so what is where is counted and not kept.
pub(crate) struct Places {
    /// The operations that have one, with the destination's scope.
    taken: Mutex<HashMap<OperationKey, String>>,
    most: usize,
    most_there: usize,
}

/// A place; given back when it is dropped.
pub(crate) struct Place {
    places: Arc<Places>,
    key: OperationKey,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.taken.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.key);
    }
}

/// Where there is no place.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NoPlace {
    /// For this tenant at this destination, or this operation has one already.
    There,
    /// For anything.
    Anywhere,
}

impl Places {
    pub(crate) fn new(most: usize, most_there: usize) -> Arc<Self> {
        Arc::new(Self { taken: Mutex::default(), most, most_there })
    }

    /// A place for this operation at a destination's scope, where there is one.
    pub(crate) fn take(self: &Arc<Self>, key: &OperationKey, scope: &str) -> Result<Place, NoPlace> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if taken.len() >= self.most {
            return Err(NoPlace::Anywhere);
        }
        let there = taken.iter().filter(|(other, at)| other.tenant == key.tenant && at.as_str() == scope).count();
        if there >= self.most_there || taken.contains_key(key) {
            return Err(NoPlace::There);
        }
        taken.insert(key.clone(), scope.to_owned());
        Ok(Place { places: Arc::clone(self), key: key.clone() })
    }
}

/// In turns by tenant, each turn taking `each` of a tenant's in the order in which they came; within one turn by `rank`.
pub(crate) fn in_turns<T>(
    waiting: Vec<T>,
    each: usize,
    key: impl Fn(&T) -> &OperationKey,
    rank: impl Fn(&OperationKey) -> u64,
) -> Vec<T> {
    let mut seen: HashMap<TenantId, usize> = HashMap::new();
    let mut ranked: Vec<((usize, u64), T)> = waiting
        .into_iter()
        .map(|item| {
            let key = key(&item);
            let before = seen.entry(key.tenant.clone()).or_insert(0);
            let place = (*before / each, rank(key));
            *before += 1;
            (place, item)
        })
        .collect();
    ranked.sort_by_key(|(place, _)| *place);
    ranked.into_iter().map(|(_, item)| item).collect()
}

#[cfg(test)]
mod tests {
    use super::{NoPlace, Places, in_turns};
    use onceward_core::key::{OperationId, OperationKey, TenantId};

    fn key(tenant: &str, id: &str) -> OperationKey {
        OperationKey { tenant: TenantId::parse(tenant).unwrap(), id: OperationId::parse(id).unwrap() }
    }

    fn why_not(places: &std::sync::Arc<Places>, key: &OperationKey, scope: &str) -> Option<NoPlace> {
        places.take(key, scope).err()
    }

    #[test]
    fn one_tenants_slow_destination_does_not_take_every_place() {
        let places = Places::new(3, 2);
        let first = places.take(&key("a", "1"), "slow").ok().unwrap();
        let _second = places.take(&key("a", "2"), "slow").ok().unwrap();
        assert_eq!(why_not(&places, &key("a", "3"), "slow"), Some(NoPlace::There));
        assert_eq!(why_not(&places, &key("a", "3"), "other"), None, "another destination has places");
        assert_eq!(why_not(&places, &key("b", "3"), "slow"), None, "another tenant has places");

        let _third = places.take(&key("b", "1"), "slow").ok().unwrap();
        assert_eq!(why_not(&places, &key("b", "2"), "other"), Some(NoPlace::Anywhere));
        drop(first);
        assert_eq!(why_not(&places, &key("a", "3"), "slow"), None, "a place that was given back is free");
    }

    #[test]
    fn an_operation_has_one_place() {
        let places = Places::new(8, 8);
        let place = places.take(&key("a", "1"), "here").ok().unwrap();
        assert_eq!(why_not(&places, &key("a", "1"), "here"), Some(NoPlace::There));
        drop(place);
        assert_eq!(why_not(&places, &key("a", "1"), "here"), None);
    }

    #[test]
    fn tenants_take_turns_and_the_oldest_go_first() {
        let waiting = vec![key("a", "1"), key("a", "2"), key("a", "3"), key("b", "1"), key("b", "2")];
        let ids = |each, rank: fn(&OperationKey) -> u64| {
            let ordered = in_turns(waiting.clone(), each, |key| key, rank);
            ordered.iter().map(|key| format!("{}{}", key.tenant.as_str(), key.id.as_str())).collect::<Vec<_>>()
        };
        assert_eq!(ids(1, |_| 0), ["a1", "b1", "a2", "b2", "a3"]);
        assert_eq!(ids(2, |_| 0), ["a1", "a2", "b1", "b2", "a3"], "two of each in a turn");
        let youngest_first = |key: &OperationKey| 9 - key.id.as_str().parse::<u64>().unwrap_or(0);
        assert_eq!(ids(2, youngest_first), ["a2", "b2", "a1", "b1", "a3"], "a rank mixes one turn, and no more");
    }
}
