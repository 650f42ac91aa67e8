//! A contract in words: what it says, part by part, and what becomes of an attempt under it. Documents and the command line
//! print these, so that they say the same.

use super::{
    AfterExpiry, Carrier, CompanionValue, Compare, Confidence, Contract, Encoding, Format, HorizonClock, HorizonKind,
    InFlight, Kept, LengthUnit, Locator, LookupRequest, Meaning, MissingMarker, OtherInput, Place, Precondition,
    Predicate, Recognised, Required, Role, SameInput, Span,
};

/// What a contract says about one of its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fact {
    /// The part, by its table's name in the file.
    pub part: &'static str,
    /// What it says.
    pub says: String,
    /// How well that is known.
    pub known: Confidence,
}

impl Contract {
    /// What it says, part by part; parts of which it says nothing are left out.
    #[must_use]
    pub fn facts(&self) -> Vec<Fact> {
        let facts = [
            ("key", self.key_in_words()),
            ("scope", self.scope_in_words()),
            ("same_input", self.same_input_in_words()),
            ("other_input", self.other_input_in_words()),
            ("in_flight", self.in_flight_in_words()),
            ("horizon", self.horizon_in_words()),
            ("execution", self.execution_in_words()),
            ("replay_marker", self.replay_marker_in_words()),
            ("retry_hint", self.retry_hint_in_words()),
            ("effect", self.effect_in_words()),
            ("marker", self.marker_in_words()),
            ("lookup", self.lookup_in_words()),
            ("responses", self.responses_in_words()),
            ("refused_if", self.refused_if.as_ref().map(|when| format!("Refused and nothing done: {}.", words(when)))),
            ("precondition", self.precondition_in_words()),
            ("live_credential", self.live_credential_in_words()),
            ("proxy", self.proxy_in_words()),
            ("indeterminate", self.indeterminate_in_words()),
        ];
        facts
            .into_iter()
            .filter_map(|(part, says)| Some(Fact { part, says: says?, known: self.confidence_in(part) }))
            .collect()
    }

    fn key_in_words(&self) -> Option<String> {
        let key = self.key.as_ref()?;
        let mut says = match key.carriers.as_slice() {
            [] => String::new(),
            [first, others @ ..] => {
                let others: Vec<String> = others.iter().map(|other| format!("; or {}", carrier(other))).collect();
                format!("In {}{}", carrier(first), others.concat())
            }
        };
        let unit = match key.length_unit {
            LengthUnit::Chars => "characters",
            LengthUnit::Bytes => "bytes",
        };
        match (key.min_length, key.max_length) {
            (Some(min), Some(max)) => says.push_str(&format!(", {min} to {max} {unit}")),
            (None, Some(max)) => says.push_str(&format!(", up to {max} {unit}")),
            (Some(min), None) => says.push_str(&format!(", {min} or more {unit}")),
            (None, None) => {}
        }
        says.push_str(match key.format {
            Format::Any | Format::PrintableAscii => "",
            Format::Uuid => ", a UUID",
            Format::AlnumDashUnderscore => ", letters, digits, `-` and `_`",
        });
        says.push_str(match key.encoding {
            Encoding::Raw => "",
            Encoding::SfString => ", in double quotes",
        });
        says.push_str(match key.required {
            Required::Yes => ". Always needed.",
            Required::No => ". May be left out.",
            Required::Conditional => ". Needed on some requests.",
        });
        for companion in &key.companions {
            let value = match &companion.value {
                CompanionValue::FirstSentHttpDate => "the time of the first attempt, the same in each".to_owned(),
                CompanionValue::Text(text) => format!("`{text}`"),
                CompanionValue::Made(how) => how.clone(),
            };
            says.push_str(&format!(" Beside it {} `{}`: {value}.", place(companion.place), companion.name));
        }
        if key.sdk_may_invent_key {
            says.push_str(" The vendor's client may make one up for each call.");
        }
        Some(says)
    }

    fn scope_in_words(&self) -> Option<String> {
        if self.scope.dimensions.is_empty() {
            return None;
        }
        let notes = self.scope.notes.as_ref().map(|notes| format!(" {notes}")).unwrap_or_default();
        Some(format!("Unique within one {}.{notes}", self.scope.dimensions.join(", one ")))
    }

    fn same_input_in_words(&self) -> Option<String> {
        let behaviour = match self.same_input.behaviour {
            SameInput::ReplaysStored => "The stored answer is given again",
            SameInput::Continues => "Unfinished work is finished, finished work is not repeated",
            SameInput::ReturnsCurrent => "Nothing is done again; the answer shows the thing as it is now",
            SameInput::ReturnsExistingResource => "Nothing is done again; the answer is the thing that exists",
            SameInput::RejectsDuplicateWithPointer => "It is refused, with a pointer to what exists",
            SameInput::RejectsDuplicateNoReceipt => "It is refused, without a word about what exists",
            SameInput::AcceptedNoEffect => "It is accepted and dropped",
            SameInput::Undocumented => return None,
        };
        let saved = self.same_input.saved;
        let classes = [
            ("successes", saved.success),
            ("refusals after execution", saved.refused_after_execution),
            ("refusals before execution", saved.refused_before_execution),
            ("429", saved.throttled),
            ("500", saved.server_error),
            ("503", saved.unavailable),
        ];
        let of = |wanted: Kept| -> Vec<&str> {
            classes.iter().filter(|(_, kept)| *kept == wanted).map(|(name, _)| *name).collect()
        };
        let mut says = format!("{behaviour}.");
        for (kept, word) in
            [(Kept::Stored, "Stored"), (Kept::NotStored, "Not stored"), (Kept::Reexecuted, "Executed again")]
        {
            let names = of(kept);
            if !names.is_empty() {
                says.push_str(&format!(" {word}: {}.", names.join(", ")));
            }
        }
        if let Some(duplicate) = &self.same_input.duplicate {
            says.push_str(&format!(" Already exists: {}", words(duplicate)));
            match &self.same_input.existing {
                Some(existing) => says.push_str(&format!("; named at {}.", locator(existing))),
                None => says.push('.'),
            }
        }
        Some(says)
    }

    fn other_input_in_words(&self) -> Option<String> {
        let other = &self.other_input;
        let behaviour = match other.behaviour {
            OtherInput::Rejects => "It is refused",
            OtherInput::ReplaysOriginalSilently => "The first answer is given, and the difference is not noticed",
            OtherInput::ExecutesAsNew => "It is done too",
            OtherInput::AcceptedNoEffect => "It is accepted and dropped",
            OtherInput::Indistinguishable => "It is answered as the same input would be",
            OtherInput::Undocumented if other.statuses.is_empty() => return None,
            OtherInput::Undocumented => "Not said",
        };
        let mut says = behaviour.to_owned();
        says.push_str(&statuses(&other.statuses, other.when.as_ref()));
        says.push('.');
        if let Some(compared) = &other.compared {
            says.push_str(&format!(" Compared: {compared}."));
        }
        Some(says)
    }

    fn in_flight_in_words(&self) -> Option<String> {
        let in_flight = &self.in_flight;
        let mut says = match in_flight.behaviour {
            InFlight::Rejects => "The second request is refused",
            InFlight::SecondMayFail => "The second request may fail; it does not run",
            InFlight::SecondRejectedPresumed => "The second request is believed to be refused",
            InFlight::WaitsThenMayExecute => "The second request waits, and may then run too",
            InFlight::Undocumented if in_flight.bound.is_none() => return None,
            InFlight::Undocumented => "Not said",
        }
        .to_owned();
        says.push_str(&statuses(&in_flight.statuses, in_flight.when.as_ref()));
        says.push('.');
        if let Some(lock) = in_flight.lock_ttl {
            says.push_str(&format!(" A key stays in use for {lock} when its execution dies."));
        }
        if let Some(bound) = in_flight.bound {
            says.push_str(&format!(" An effect happens at most {bound} after its request."));
        }
        Some(says)
    }

    fn horizon_in_words(&self) -> Option<String> {
        let horizon = &self.horizon;
        let min = horizon.min.map(|min| min.to_string());
        let max = horizon.max.map(|max| max.to_string());
        let length = match (horizon.kind, min, max) {
            (HorizonKind::Undocumented, _, _) => return None,
            (HorizonKind::Indefinite, _, _) => "For ever".to_owned(),
            (HorizonKind::Fixed, Some(min), _) => min,
            (HorizonKind::AtLeast, Some(min), _) => format!("At least {min}"),
            (HorizonKind::Range | HorizonKind::Configurable, Some(min), Some(max)) => format!("{min} to {max}"),
            (HorizonKind::ClientChosen, Some(min), _) => format!("{min}, as the sender says"),
            (_, Some(min), _) => format!("{min} or more"),
            (HorizonKind::ResourceLifetime, None, _) => "As long as the thing exists".to_owned(),
            (_, None, _) => "Set by the server, and not said".to_owned(),
        };
        let clock = match horizon.clock {
            HorizonClock::FirstRequest => ", from the first request",
            HorizonClock::FirstCompletion => ", from the first answer",
            HorizonClock::ClientFirstSent => ", from the time that the sender names",
            HorizonClock::ObjectEnd => ", from the end of the thing",
            HorizonClock::Unknown => "",
        };
        let counted = match horizon.recognised() {
            Recognised::For(time) => format!(" Counted as {}, from the first claim.", Span::from(time)),
            Recognised::Always | Recognised::Never => String::new(),
        };
        let after = match horizon.after_expiry {
            AfterExpiry::Reexecutes => " Afterwards the key is new, and the effect happens again.",
            AfterExpiry::Rejects => " Afterwards it is refused, which says nothing about the first attempt.",
            AfterExpiry::NotApplicable | AfterExpiry::Unknown => "",
        };
        Some(format!("{length}{clock}.{counted}{after}"))
    }

    fn execution_in_words(&self) -> Option<String> {
        let execution = &self.execution;
        let mut says: Vec<String> = Vec::new();
        if !execution.refused_before_effect.is_empty() {
            says.push(format!("Before any effect: {}.", numbers(&execution.refused_before_effect)));
        }
        let flags = [
            (execution.limiter_before_work, "429 comes before any work."),
            (execution.shed_before_work, "503 comes before any work."),
            (execution.trusts_refused_stream, "A refused stream did nothing."),
            (execution.effect_atomic_with_key, "The effect is recognised under its key also when no answer came."),
            (execution.accept_is_effect, "202 is the effect."),
            (execution.is_error == super::IsError::Refused, "A tool's error means that nothing happened."),
        ];
        says.extend(flags.iter().filter(|(holds, _)| *holds).map(|(_, words)| (*words).to_owned()));
        (!says.is_empty()).then(|| says.join(" "))
    }

    fn replay_marker_in_words(&self) -> Option<String> {
        let marker = self.replay_marker.as_ref()?;
        let values: Vec<String> = marker.values.iter().map(|value| format!("`{value}`")).collect();
        let values = if values.is_empty() { String::new() } else { format!(" = {}", values.join(" or ")) };
        Some(format!(
            "A repetition is marked by {}{values}. {}",
            locator(&marker.at),
            match marker.missing {
                MissingMarker::Disagreement =>
                    "A repeated success without it is a disagreement, and stops repetitions.",
                MissingMarker::SaysNothing => "It is not always given.",
            }
        ))
    }

    fn retry_hint_in_words(&self) -> Option<String> {
        let hint = self.retry_hint.as_ref()?;
        Some(format!("`{}`: `{}` for again, `{}` for stop.", hint.header, hint.again, hint.stop))
    }

    fn effect_in_words(&self) -> Option<String> {
        let effect = &self.effect;
        let mut says: Vec<String> = Vec::new();
        says.extend(effect.id.as_ref().map(|id| format!("Named at {}.", locator(id))));
        says.extend(effect.handle.as_ref().map(|at| format!("Accepted work is named at {}.", locator(at))));
        says.extend(compared(&effect.correlate));
        if !effect.keep_headers.is_empty() {
            let names: Vec<String> = effect.keep_headers.iter().map(|name| format!("`{name}`")).collect();
            says.push(format!("Kept: {}.", names.join(", ")));
        }
        (!says.is_empty()).then(|| says.join(" "))
    }

    fn marker_in_words(&self) -> Option<String> {
        let marker = self.marker.as_ref()?;
        let max = marker.max_length.map(|max| format!(", up to {max} bytes")).unwrap_or_default();
        Some(match marker.how {
            super::Match::Equals => format!("`{}` is our marker{max}.", marker.at),
            super::Match::Contains => format!("Our marker is added to `{}`{max}.", marker.at),
            super::Match::Element => format!("Our marker is one more element of `{}`.", marker.at),
        })
    }

    fn lookup_in_words(&self) -> Option<String> {
        let lookup = self.lookup.as_ref()?;
        let kind = word(&lookup.kind);
        let mut says = match &lookup.request {
            LookupRequest::Http { method, path, query, .. } => {
                let pairs: Vec<String> = query.iter().map(|(name, value)| format!("{name}={value}")).collect();
                let query = if pairs.is_empty() { String::new() } else { format!("?{}", pairs.join("&")) };
                format!("`{method} {path}{query}` ({kind}).")
            }
            LookupRequest::Tool { tool, .. } => format!("The tool `{tool}` ({kind})."),
            LookupRequest::Application => format!("The application asks ({kind})."),
            LookupRequest::Nothing => format!("Nothing is asked by itself ({kind})."),
        };
        let recognised: Vec<String> = lookup.recognise.iter().map(|place| format!("`{}`", place.at)).collect();
        if !recognised.is_empty() {
            says.push_str(&format!(" Ours by {}.", recognised.join(" or ")));
        }
        says.extend(compared(&lookup.compare).map(|words| format!(" {words}")));
        says.push_str(match lookup.absence_is_proof {
            super::AbsenceIsProof::Never | super::AbsenceIsProof::NotApplicable => " Finding nothing proves nothing.",
            super::AbsenceIsProof::WithinHorizon => " Finding nothing is proof while the key is remembered.",
            super::AbsenceIsProof::AfterBound => " Finding nothing is proof once the effect can no longer come.",
        });
        if let Some(delay) = lookup.visibility_delay {
            says.push_str(&format!(" Answers may lag by {delay}."));
        }
        Some(says)
    }

    fn responses_in_words(&self) -> Option<String> {
        let rules: Vec<String> =
            self.responses.iter().map(|rule| format!("{}: {}.", words(&rule.when), meaning(rule.is))).collect();
        (!rules.is_empty()).then(|| rules.join(" "))
    }

    fn precondition_in_words(&self) -> Option<String> {
        Some(match self.precondition.as_ref()? {
            Precondition::Header(name) => format!("`{name}` makes a repetition harmless."),
            Precondition::Field(at) => format!("`{at}` makes a repetition harmless."),
        })
    }

    fn live_credential_in_words(&self) -> Option<String> {
        let live = self.live_credential.as_ref()?;
        let prefixes: Vec<String> = live.prefixes.iter().map(|prefix| format!("`{prefix}`")).collect();
        Some(format!("One of the live system begins with {}.", prefixes.join(" or ")))
    }

    fn proxy_in_words(&self) -> Option<String> {
        let rules = self.proxy.as_ref()?;
        let list = |names: &[String]| names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        let mut says = Vec::new();
        if !rules.scope.is_empty() {
            says.push(format!("Part of a key's scope: {}.", list(&rules.scope)));
        }
        if !rules.pinned.is_empty() {
            says.push(format!("Kept from the first attempt on: {}.", list(&rules.pinned)));
        }
        (!says.is_empty()).then(|| says.join(" "))
    }

    fn indeterminate_in_words(&self) -> Option<String> {
        let answer = self.indeterminate.as_ref()?;
        let headers: Vec<String> = answer
            .headers
            .iter()
            .filter(|(name, _)| !name.eq_ignore_ascii_case("content-type"))
            .map(|(name, value)| format!(" with `{name}: {value}`"))
            .collect();
        Some(format!("Through the proxy, a {}{} in the vendor's own shape.", answer.status, headers.concat()))
    }
}

/// What a meaning says, in a few words.
#[must_use]
pub const fn meaning(meaning: Meaning) -> &'static str {
    match meaning {
        Meaning::Confirmed => "done",
        Meaning::Refused => "refused, nothing happened",
        Meaning::TurnedAway => "turned away before any work",
        Meaning::CredentialRefused => "our credential refused before any work",
        Meaning::Accepted => "accepted for later",
        Meaning::InFlight => "the key is being executed",
        Meaning::KeyMismatch => "the key was used with other input",
        Meaning::AlreadyExists => "it exists already",
        Meaning::Partial => "a part of it was done",
        Meaning::Uncertain => "it may have been done",
    }
}

/// A condition in words.
#[must_use]
pub fn words(predicate: &Predicate) -> String {
    let quoted = |texts: &[String]| texts.iter().map(|text| format!("`{text}`")).collect::<Vec<_>>().join(" or ");
    match predicate {
        Predicate::Status(statuses) => format!("status {}", numbers(statuses)),
        Predicate::StatusClass(classes) => {
            format!("status {}", classes.iter().map(|class| format!("{class}xx")).collect::<Vec<_>>().join(" or "))
        }
        Predicate::HeaderExists(name) => format!("`{name}` is there"),
        Predicate::HeaderEquals(wanted) => format!("`{}` is `{}`", wanted.name, wanted.value),
        Predicate::HeaderContains(wanted) => format!("`{}` contains {}", wanted.name, quoted(&wanted.texts)),
        Predicate::BodyExists(at) => format!("`{at}` is there"),
        Predicate::BodyEquals(wanted) => format!("`{}` is `{}`", wanted.at, plain(&wanted.value)),
        Predicate::BodyIn(wanted) => {
            let values: Vec<String> = wanted.values.iter().map(plain).collect();
            format!("`{}` is {}", wanted.at, quoted(&values))
        }
        Predicate::BodyTextContains(wanted) => format!("`{}` contains {}", wanted.at, quoted(&wanted.texts)),
        Predicate::AnyElement(wanted) => format!("in `{}` one where {}", wanted.at, words(&wanted.is)),
        Predicate::FewerElements(wanted) => format!("`{}` has fewer than {}", wanted.at, wanted.than),
        Predicate::TextContains(texts) => format!("the answer contains {}", quoted(texts)),
        Predicate::TextStartsWith(texts) => format!("the answer begins with {}", quoted(texts)),
        Predicate::AnyOf(parts) => parts.iter().map(words).collect::<Vec<_>>().join(", or "),
        Predicate::AllOf(parts) => parts.iter().map(words).collect::<Vec<_>>().join(" and "),
        Predicate::NoneOf(parts) => format!("not: {}", parts.iter().map(words).collect::<Vec<_>>().join(", or ")),
    }
}

/// The word by which a value of a dimension is written in a contract.
pub fn word(value: &impl serde::Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word,
        Ok(_) | Err(_) => String::new(),
    }
}

fn plain(value: &serde_json::Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned)
}

fn numbers(statuses: &[u16]) -> String {
    statuses.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn statuses(statuses: &[u16], when: Option<&Predicate>) -> String {
    match (statuses, when) {
        ([], None) => String::new(),
        ([], Some(when)) => format!(" (told by: {})", words(when)),
        (statuses, None) => format!(" (told by: {})", numbers(statuses)),
        (statuses, Some(when)) => format!(" (told by: {}, and {})", numbers(statuses), words(when)),
    }
}

fn compared(pairs: &[Compare]) -> Option<String> {
    let names: Vec<String> = pairs
        .iter()
        .map(|pair| match pair.argument == pair.effect {
            true => format!("`{}`", pair.effect),
            false => format!("`{}` with the argument `{}`", pair.effect, pair.argument),
        })
        .collect();
    (!names.is_empty()).then(|| format!("Compared: {}.", names.join(", ")))
}

fn locator(at: &Locator) -> String {
    match at {
        Locator::Body(at) => format!("`{at}`"),
        Locator::Header(name) => format!("the header `{name}`"),
    }
}

fn carrier(carrier: &Carrier) -> String {
    let role = match carrier.role {
        Role::Key => "",
        Role::NaturalKey => ", which names the thing itself",
    };
    let when = carrier.when.as_ref().map(|when| format!(" ({when})")).unwrap_or_default();
    format!("{} `{}`{role}{when}", place(carrier.place), carrier.name)
}

const fn place(place: Place) -> &'static str {
    match place {
        Place::Header => "the header",
        Place::Body => "the body at",
        Place::Form => "the form field",
        Place::Query => "the query parameter",
        Place::Path => "the path segment",
        Place::Param => "the parameter",
        Place::Field => "the field",
        Place::McpMeta => "the MCP request's `_meta`",
        Place::Argument => "the tool's argument",
        Place::GraphqlDirective => "the GraphQL directive",
        Place::Jwt => "the token's claim",
        Place::SmtpHeader => "the mail's header",
    }
}
