//! The less favourable of two contracts (R6): an operation keeps the contract it was made with, and a repetition must be
//! covered by that one *and* by the one that holds now.

use super::{
    AfterExpiry, Confidence, Contract, EffectRules, Execution, Horizon, HorizonClock, HorizonKind, InFlight, IsError,
    Kept, Lookup, Recognised, ResponseRule, Saved, Span,
};

impl Contract {
    /// What both promise. `self` is the one the operation was made with.
    ///
    /// Where the two say different things, the result promises nothing about it; requests are those of `self`, because
    /// that is what was sent.
    #[must_use]
    pub fn narrower(&self, other: &Self) -> Self {
        let mut both = self.clone();
        both.key = self.key.clone().filter(|key| {
            other.key.as_ref().is_some_and(|theirs| {
                key.carrier() == theirs.carrier()
                    && key.encoding == theirs.encoding
                    && key.companions == theirs.companions
            })
        });
        both.scope.dimensions.extend(
            other.scope.dimensions.iter().filter(|dimension| !self.scope.dimensions.contains(dimension)).cloned(),
        );
        both.same_input.behaviour = agreed(self.same_input.behaviour, other.same_input.behaviour);
        both.same_input.saved = saved(self.same_input.saved, other.same_input.saved);
        both.in_flight.behaviour = agreed::<InFlight>(self.in_flight.behaviour, other.in_flight.behaviour);
        both.in_flight.bound = longer(self.in_flight.bound, other.in_flight.bound);
        both.horizon = horizon(&self.horizon, &other.horizon);
        both.execution = execution(&self.execution, &other.execution);
        // A marker that either promises is looked for: missing it stops, and stopping is never too careful.
        both.replay_marker = self.replay_marker.clone().or_else(|| other.replay_marker.clone());
        both.min_retry_delay = self.min_retry_delay.max(other.min_retry_delay);
        both.refused_if = self.refused_if.clone().filter(|mine| Some(mine) == other.refused_if.as_ref());
        both.responses = responses(&self.responses, &other.responses);
        both.precondition = self.precondition.clone().filter(|mine| Some(mine) == other.precondition.as_ref());
        both.effect = effect(&self.effect, &other.effect);
        both.lookup = match (&self.lookup, &other.lookup) {
            (Some(mine), theirs) => Some(lookup(mine, theirs.as_ref())),
            // A question that was written down later can still find the effect. That it finds nothing proves nothing: the
            // attempts were made before anybody saw to it that they could be found.
            (None, Some(theirs)) => Some(Lookup { absence_is_proof: super::AbsenceIsProof::Never, ..theirs.clone() }),
            (None, None) => None,
        };
        both.provenance.confidence = self.provenance.confidence.min(other.provenance.confidence);
        both.provenance.parts = self
            .provenance
            .parts
            .keys()
            .chain(other.provenance.parts.keys())
            .map(|part| (part.clone(), self.confidence_in(part).min(other.confidence_in(part))))
            .collect();
        both
    }

    /// How well a part of the contract is known, by its name in the file. A part is never known better than the whole.
    #[must_use]
    pub fn confidence_in(&self, part: &str) -> Confidence {
        let whole = self.provenance.confidence;
        self.provenance.parts.get(part).map_or(whole, |confidence| whole.min(*confidence))
    }
}

/// The value that both say; the least favourable one when they differ.
fn agreed<T: PartialEq + Default>(mine: T, theirs: T) -> T {
    if mine == theirs { mine } else { T::default() }
}

fn longer(mine: Option<Span>, theirs: Option<Span>) -> Option<Span> {
    Some(mine?.max(theirs?))
}

fn saved(mine: Saved, theirs: Saved) -> Saved {
    Saved {
        success: agreed::<Kept>(mine.success, theirs.success),
        refused_after_execution: agreed(mine.refused_after_execution, theirs.refused_after_execution),
        refused_before_execution: agreed(mine.refused_before_execution, theirs.refused_before_execution),
        throttled: agreed(mine.throttled, theirs.throttled),
        server_error: agreed(mine.server_error, theirs.server_error),
        unavailable: agreed(mine.unavailable, theirs.unavailable),
    }
}

/// The shorter of the two as it counts, margins taken off.
fn horizon(mine: &Horizon, theirs: &Horizon) -> Horizon {
    let (kind, min, margin) = match (mine.recognised(), theirs.recognised()) {
        (Recognised::Never, _) | (_, Recognised::Never) => (HorizonKind::Undocumented, None, None),
        (Recognised::Always, Recognised::Always) => (HorizonKind::Indefinite, None, None),
        (Recognised::For(_), Recognised::Always) => (mine.kind, mine.min, mine.margin),
        (Recognised::Always, Recognised::For(_)) => (theirs.kind, theirs.min, theirs.margin),
        (Recognised::For(ours), Recognised::For(other)) if ours <= other => (mine.kind, mine.min, mine.margin),
        (Recognised::For(_), Recognised::For(_)) => (theirs.kind, theirs.min, theirs.margin),
    };
    Horizon {
        kind,
        min,
        max: None,
        clock: agreed::<HorizonClock>(mine.clock, theirs.clock),
        after_expiry: agreed::<AfterExpiry>(mine.after_expiry, theirs.after_expiry),
        margin,
    }
}

fn execution(mine: &Execution, theirs: &Execution) -> Execution {
    Execution {
        refused_before_effect: mine
            .refused_before_effect
            .iter()
            .copied()
            .filter(|status| theirs.refused_before_effect.contains(status))
            .collect(),
        trusts_refused_stream: mine.trusts_refused_stream && theirs.trusts_refused_stream,
        limiter_before_work: mine.limiter_before_work && theirs.limiter_before_work,
        shed_before_work: mine.shed_before_work && theirs.shed_before_work,
        effect_atomic_with_key: mine.effect_atomic_with_key && theirs.effect_atomic_with_key,
        accept_is_effect: mine.accept_is_effect && theirs.accept_is_effect,
        is_error: agreed::<IsError>(mine.is_error, theirs.is_error),
    }
}

fn effect(mine: &EffectRules, theirs: &EffectRules) -> EffectRules {
    let mut both = mine.clone();
    both.correlate.extend(theirs.correlate.iter().filter(|pair| !mine.correlate.contains(pair)).cloned());
    both
}

/// A rule that says less than "possible" must be in both; one that only warns may be in either, and is asked first.
fn responses(mine: &[ResponseRule], theirs: &[ResponseRule]) -> Vec<ResponseRule> {
    let warnings = theirs.iter().filter(|rule| !rule.is.is_favourable() && !mine.contains(rule));
    let kept = mine.iter().filter(|rule| !rule.is.is_favourable() || theirs.contains(rule));
    warnings.chain(kept).cloned().collect()
}

/// The question stays the one that fits what was sent; what its answer proves is what both say.
fn lookup(mine: &Lookup, theirs: Option<&Lookup>) -> Lookup {
    if theirs == Some(mine) {
        return mine.clone();
    }
    let mut both = mine.clone();
    let same_question = theirs.filter(|theirs| theirs.request == mine.request && theirs.recognise == mine.recognise);
    match same_question {
        Some(theirs) => {
            both.consistency = agreed(mine.consistency, theirs.consistency);
            both.absence_is_proof = agreed(mine.absence_is_proof, theirs.absence_is_proof);
            both.visibility_delay = longer(mine.shown_after(), theirs.shown_after());
            both.absences_required = mine.absences_required.max(theirs.absences_required);
            both.list_may_be_cut = mine.list_may_be_cut || theirs.list_may_be_cut;
            both.whole_if = mine.whole_if.clone().filter(|whole| Some(whole) == theirs.whole_if.as_ref());
        }
        None => both.absence_is_proof = super::AbsenceIsProof::Never,
    }
    both
}
