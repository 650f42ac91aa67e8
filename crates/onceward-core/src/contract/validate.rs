//! What is checked when a contract is read: a mistake is found here and not when a reply is lost.

use super::{
    AbsenceIsProof, Contract, HorizonKind, KeyRules, Locator, Lookup, LookupKind, LookupRequest, Place, Predicate,
    Recognised, SameInput,
};
use crate::limits::{NAME_BYTES_MAX, OUTBOUND_KEY_BYTES};
use crate::pointer::Pointer;

/// The names of the parts of a contract, which are those of its tables.
pub(super) const PARTS: [&str; 19] = [
    "refused_if",
    "min_retry_delay",
    "key",
    "scope",
    "same_input",
    "other_input",
    "in_flight",
    "horizon",
    "execution",
    "replay_marker",
    "retry_hint",
    "indeterminate",
    "proxy",
    "effect",
    "marker",
    "lookup",
    "responses",
    "precondition",
    "live_credential",
];

/// Why a contract cannot be used. Nothing is sent under it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ContractError {
    /// The text is not TOML, or has a field that no contract has.
    #[error("line {line}: {message}")]
    Text {
        /// The line, from 1; 0 when it is not known.
        line: usize,
        /// What is wrong.
        message: String,
    },
    /// A field has a value that cannot be meant.
    #[error("contract {contract:?}, {place}: {message}")]
    Field {
        /// The contract's id.
        contract: String,
        /// The field, as a dotted path.
        place: String,
        /// What is wrong and what would be right.
        message: String,
    },
}

impl ContractError {
    pub(super) fn from_toml(text: &str, error: &toml::de::Error) -> Self {
        let line =
            error.span().map_or(0, |span| text.get(..span.start).map_or(0, |before| before.matches('\n').count() + 1));
        Self::Text { line, message: error.message().to_owned() }
    }
}

impl Contract {
    /// Checks what types cannot say. Called by [`Contract::parse`], and by whoever changes a contract afterwards.
    ///
    /// # Errors
    /// [`ContractError::Field`] names the first field that cannot be meant.
    pub fn validate(&self) -> Result<(), ContractError> {
        let check = Check { contract: &self.id };
        check.that("id", is_name(&self.id), "write a name of letters, digits, '.', '_' and '-'")?;
        check.that("version", self.version >= 1, "versions count from 1")?;
        if let Some(key) = &self.key {
            check.key(key)?;
        }
        check.that(
            "same_input.behaviour",
            self.key.is_some() || self.same_input.behaviour == SameInput::Undocumented,
            "it promises something about a key, but there is no [key]",
        )?;
        self.check_horizon(&check)?;
        self.check_statuses(&check)?;
        self.check_predicates(&check)?;
        self.check_places(&check)?;
        if let Some(lookup) = &self.lookup {
            check.lookup(lookup, self)?;
        }
        if let Some(live) = &self.live_credential {
            let usable = !live.prefixes.is_empty() && live.prefixes.iter().all(|prefix| !prefix.is_empty());
            check.that("live_credential.prefixes", usable, "name at least one text, none of them empty")?;
        }
        for part in self.provenance.parts.keys() {
            // A misspelt part would be known as well as the whole, which is what its line was to prevent.
            check.that(
                &format!("provenance.parts.{part}"),
                PARTS.contains(&part.as_str()),
                "no part of a contract has that name",
            )?;
        }
        for (place, date) in
            [("provenance.read", &self.provenance.read), ("provenance.verified", &self.provenance.verified)]
        {
            check.that(place, date.as_deref().is_none_or(is_date), "write the date as YYYY-MM-DD")?;
        }
        Ok(())
    }

    fn check_horizon(&self, check: &Check<'_>) -> Result<(), ContractError> {
        let horizon = &self.horizon;
        if let (Some(min), Some(max)) = (horizon.min, horizon.max) {
            check.that("horizon.max", min <= max, "it is shorter than min")?;
        }
        let said = horizon.min.is_some();
        check.that(
            "horizon.kind",
            !(said && horizon.kind == HorizonKind::Undocumented),
            "there is a min, so say what kind of promise it is",
        )?;
        let needs_min = match horizon.kind {
            HorizonKind::Fixed
            | HorizonKind::AtLeast
            | HorizonKind::Range
            | HorizonKind::Configurable
            | HorizonKind::ClientChosen => true,
            HorizonKind::Indefinite
            | HorizonKind::ResourceLifetime
            | HorizonKind::ServerDefined
            | HorizonKind::Undocumented => false,
        };
        check.that("horizon.min", said || !needs_min, "this kind of horizon has a length; say it")?;
        let leaves_time = match horizon.recognised() {
            Recognised::For(time) => !time.is_zero(),
            Recognised::Always | Recognised::Never => true,
        };
        check.that("horizon.margin", leaves_time, "the margin leaves nothing of the horizon")
    }

    fn check_statuses(&self, check: &Check<'_>) -> Result<(), ContractError> {
        let lists = [
            ("execution.refused_before_effect", &self.execution.refused_before_effect),
            ("other_input.statuses", &self.other_input.statuses),
            ("in_flight.statuses", &self.in_flight.statuses),
        ];
        for (place, statuses) in lists {
            check.that(place, statuses.iter().all(|status| (100..=599).contains(status)), "a status is 100 to 599")?;
        }
        let refusals = self.execution.refused_before_effect.iter().all(|status| (400..=599).contains(status));
        check.that("execution.refused_before_effect", refusals, "a refusal has a status of 400 to 599")?;
        match &self.indeterminate {
            // A vendor's client takes 2xx and 3xx for done, and many take 5xx and 409 for safe to send again: the stop
            // signal among the headers is what makes those bearable.
            Some(answer) => check.that(
                "indeterminate.status",
                (400..=599).contains(&answer.status),
                "an answer that reads as done would be a lie; use 400 to 599",
            ),
            None => Ok(()),
        }
    }

    fn check_predicates(&self, check: &Check<'_>) -> Result<(), ContractError> {
        let single = [
            ("refused_if", self.refused_if.as_ref()),
            ("same_input.duplicate", self.same_input.duplicate.as_ref()),
            ("other_input.when", self.other_input.when.as_ref()),
            ("in_flight.when", self.in_flight.when.as_ref()),
            ("lookup.whole_if", self.lookup.as_ref().and_then(|lookup| lookup.whole_if.as_ref())),
        ];
        let rules = self.responses.iter().map(|rule| ("responses", Some(&rule.when)));
        for (place, predicate) in single.into_iter().chain(rules) {
            let sound = predicate.is_none_or(|predicate| !Predicate::is_vacuous(predicate));
            check.that(place, sound, "a condition is empty: it would match everything or nothing")?;
        }
        Ok(())
    }

    fn check_places(&self, check: &Check<'_>) -> Result<(), ContractError> {
        let locators = [
            ("effect.id", self.effect.id.as_ref()),
            ("effect.handle", self.effect.handle.as_ref()),
            ("same_input.existing", self.same_input.existing.as_ref()),
            ("replay_marker.at", self.replay_marker.as_ref().map(|marker| &marker.at)),
        ];
        for (place, locator) in locators {
            if let Some(Locator::Header(name)) = locator {
                check.header(place, name)?;
            }
        }
        for name in &self.effect.keep_headers {
            check.header("effect.keep_headers", name)?;
        }
        if let Some(hint) = &self.retry_hint {
            check.header("retry_hint.header", &hint.header)?;
            check.that("retry_hint", hint.again != hint.stop, "'again' and 'stop' are the same text")?;
        }
        if let Some(name) = &self.in_flight.retry_after_header {
            check.header("in_flight.retry_after_header", name)?;
        }
        if let Some(super::Precondition::Header(name)) = &self.precondition {
            check.header("precondition.header", name)?;
        }
        if let Some(answer) = &self.indeterminate {
            for name in answer.headers.keys() {
                check.header("indeterminate.headers", name)?;
            }
        }
        for name in self.proxy.iter().flat_map(|rules| rules.scope.iter().chain(&rules.pinned)) {
            check.header("proxy", name)?;
        }
        match self.marker.as_ref().and_then(|marker| marker.max_length) {
            Some(max) => check.that(
                "marker.max_length",
                max as usize >= OUTBOUND_KEY_BYTES,
                "the field is too short for a marker of 36 characters, and a cut marker finds other things",
            ),
            None => Ok(()),
        }
    }
}

struct Check<'a> {
    contract: &'a str,
}

impl Check<'_> {
    fn that(&self, place: &str, holds: bool, message: &str) -> Result<(), ContractError> {
        if holds {
            return Ok(());
        }
        Err(ContractError::Field {
            contract: self.contract.to_owned(),
            place: place.to_owned(),
            message: message.to_owned(),
        })
    }

    fn header(&self, place: &str, name: &str) -> Result<(), ContractError> {
        self.that(place, is_header_name(name), &format!("{name:?} is not a header name"))
    }

    fn key(&self, key: &KeyRules) -> Result<(), ContractError> {
        self.that("key.carriers", !key.carriers.is_empty(), "say where the key travels")?;
        let companions = key.companions.iter().map(|companion| (companion.place, &companion.name));
        let carriers = key.carriers.iter().map(|carrier| (carrier.place, &carrier.name));
        for (place, name) in carriers.chain(companions) {
            match place {
                Place::Header => self.header("key", name)?,
                Place::Body => {
                    let sound = Pointer::parse(name).is_ok_and(|pointer| !pointer.is_root());
                    self.that("key", sound, "a place in a body is a JSON Pointer, such as \"/request_id\"")?;
                }
                Place::Form
                | Place::Query
                | Place::Path
                | Place::Param
                | Place::Field
                | Place::McpMeta
                | Place::Argument
                | Place::GraphqlDirective
                | Place::Jwt
                | Place::SmtpHeader => self.that("key", !name.trim().is_empty(), "the place has no name")?,
            }
        }
        if let (Some(min), Some(max)) = (key.min_length, key.max_length) {
            self.that("key.max_length", min <= max, "it is smaller than min_length")?;
        }
        self.that("key.max_length", key.max_length != Some(0), "no key fits")
    }

    fn lookup(&self, lookup: &Lookup, contract: &Contract) -> Result<(), ContractError> {
        if let LookupRequest::Http { method, path, .. } = &lookup.request {
            self.that(
                "lookup.method",
                method == "GET" || method == "POST" || method == "QUERY",
                "a lookup asks and writes nothing: GET, QUERY, or a POST that only reads",
            )?;
            let begins = path.starts_with('/') || path.starts_with("{path}");
            self.that("lookup.path", begins, "a path begins with '/', or with {path} for that of the write itself")?;
        }
        if let LookupRequest::Tool { tool, .. } = &lookup.request {
            self.that("lookup.tool", !tool.is_empty() && tool.len() <= NAME_BYTES_MAX, "the tool has no usable name")?;
        }
        // Cancelling settles the matter by undoing it: a decision, which no question may make.
        self.that(
            "lookup.kind",
            lookup.kind != LookupKind::CancelByKey || lookup.request == LookupRequest::Nothing,
            "cancelling is no question; name the kind without a request, and a person does it",
        )?;
        self.that("lookup.absences_required", lookup.absences_required >= 1, "at least one answer is needed")?;
        let proves = match lookup.absence_is_proof {
            AbsenceIsProof::WithinHorizon | AbsenceIsProof::AfterBound => true,
            AbsenceIsProof::Never | AbsenceIsProof::NotApplicable => false,
        };
        if proves {
            self.that("in_flight.bound", contract.in_flight.bound.is_some(), "absence is never proof without a bound")?;
            self.that(
                "lookup.visibility_delay",
                lookup.shown_after().is_some(),
                "absence is never proof of an answer that may lag for ever; say the delay, or consistency = \"strong\"",
            )?;
            self.that(
                "lookup.list_may_be_cut",
                !lookup.list_may_be_cut || lookup.whole_if.is_some(),
                "absence is never proof of a list that may be cut; say whole_if, or list_may_be_cut = false",
            )?;
            self.that(
                "lookup.recognise",
                lookup.kind == LookupKind::ByKey || !lookup.recognise.is_empty(),
                "absence is never proof when nothing says how the effect would be recognised",
            )?;
        }
        Ok(())
    }
}

/// A token of RFC 9110 §5.6.2.
fn is_header_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= NAME_BYTES_MAX
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}

fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= NAME_BYTES_MAX
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
}

fn is_date(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let number = |part: &str, length: usize| {
        (part.len() == length && part.bytes().all(|byte| byte.is_ascii_digit()))
            .then(|| part.parse::<u32>().ok())
            .flatten()
    };
    match parts.as_slice() {
        [year, month, day] => {
            number(year, 4).is_some()
                && number(month, 2).is_some_and(|month| (1..=12).contains(&month))
                && number(day, 2).is_some_and(|day| (1..=31).contains(&day))
        }
        _ => false,
    }
}
