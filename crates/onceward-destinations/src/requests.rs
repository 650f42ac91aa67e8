//! Where the requests of an HTTP destination come from: made of a tool's arguments as data says, or sent as they came from a
//! vendor's own client.

use onceward_core::canonical::Canonical;
use onceward_core::key::OutboundKey;
use onceward_ledger::destination::Question;

use crate::carrier::Carried;
use crate::mapping::{Mapping, Rendered, Unmappable};
use crate::proxy::AsTheyCame;

/// How an operation's arguments become a request.
#[derive(Clone, Debug)]
pub(crate) enum Requests {
    /// By a mapping of the configuration.
    Mapped(Mapping),
    /// The arguments hold the request itself.
    AsTheyCame(AsTheyCame),
}

impl Requests {
    /// The request for these arguments, with the key and whatever travels beside it. The same arguments and the same key give
    /// the same bytes.
    pub(crate) fn render(&self, arguments: &Canonical, carried: &Carried<'_>) -> Result<Rendered, Unmappable> {
        match self {
            Self::Mapped(mapping) => mapping.render(arguments, carried),
            Self::AsTheyCame(requests) => requests.render(arguments, carried),
        }
    }

    /// A question with the key that the attempt really carried, which may have been the caller's own.
    pub(crate) fn as_carried(&self, mut question: Question) -> Question {
        let callers = match self {
            Self::Mapped(_) => None,
            Self::AsTheyCame(requests) => requests.callers_key(&question.arguments),
        };
        if let Some(Ok(key)) = callers.map(OutboundKey::parse) {
            question.key = Some(key);
        }
        question
    }
}

impl From<Mapping> for Requests {
    fn from(mapping: Mapping) -> Self {
        Self::Mapped(mapping)
    }
}

impl From<AsTheyCame> for Requests {
    fn from(requests: AsTheyCame) -> Self {
        Self::AsTheyCame(requests)
    }
}
