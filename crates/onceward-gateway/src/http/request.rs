//! What handlers take out of a request: who calls, a strict body, a wait.

use std::time::Duration;

use axum::body::Bytes;
use axum::extract::rejection::QueryRejection;
use axum::extract::{FromRequest, FromRequestParts, Query, Request};
use http::header::AUTHORIZATION;
use http::request::Parts;
use http::{HeaderMap, HeaderName};
use http_body_util::BodyExt as _;
use onceward_core::canonical;
use onceward_core::code::Code;
use onceward_ledger::authorize::{Grant, Scope};
use serde::de::DeserializeOwned;

use crate::app::App;
use crate::limits::{DISCARD_WITHIN, DISCARDED_BYTES_MAX, READ_WITHIN};
use crate::problem::Problem;

/// Who calls. Taken before the body, so that nobody unknown makes us read one.
pub(super) struct Caller(pub(super) Grant);

impl FromRequestParts<App> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        let mut values = parts.headers.get_all(AUTHORIZATION).iter();
        let header = match (values.next(), values.next()) {
            (Some(header), None) => header.to_str().ok(),
            (Some(_) | None, Some(_) | None) => None,
        };
        app.authenticate(header).await.map(Self)
    }
}

impl Caller {
    /// The grant, if it has this scope at all.
    pub(super) fn with(self, scope: Scope) -> Result<Grant, Problem> {
        if self.0.has(scope) { Ok(self.0) } else { Err(Problem::lacks(scope)) }
    }
}

/// A body of strict JSON, read as a type. Fields that the type does not have are refused.
pub(super) struct Body<T>(pub(super) T);

impl<T: DeserializeOwned> FromRequest<App> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self, Problem> {
        let bytes = read(request, app.limits().body_bytes_max).await?;
        let document = canonical::parse(&bytes)?;
        match serde_json::from_value(document.into_value()) {
            Ok(body) => Ok(Self(body)),
            Err(error) => Err(Problem::invalid_request(format!("the body: {error}"))),
        }
    }
}

/// A body of JSON whose raw parts are kept as they are written. For what has happened already: a receipt in hand must not be
/// lost because a number in it is too large to be compared.
pub(super) struct AsWritten<T>(pub(super) T);

impl<T: DeserializeOwned> FromRequest<App> for AsWritten<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self, Problem> {
        let bytes = read(request, app.limits().body_bytes_max).await?;
        match serde_json::from_slice(&bytes) {
            Ok(body) => Ok(Self(body)),
            Err(error) => {
                Err(Problem::invalid_request(format!("the body: {error}; nothing was recorded, send it again")))
            }
        }
    }
}

/// The body of a request, whole, within a time and a size.
pub(crate) async fn read(request: Request, most: usize) -> Result<Bytes, Problem> {
    let too_large = || {
        Problem::new(
            Code::TooLarge,
            format!("a body has at most {most} bytes; send a reference to the content instead"),
        )
    };
    let announced = http_body::Body::size_hint(request.body()).lower();
    if announced > u64::try_from(most).unwrap_or(u64::MAX) {
        if announced <= DISCARDED_BYTES_MAX {
            discard(request.into_body()).await;
        }
        return Err(too_large());
    }
    let reading = axum::body::to_bytes(request.into_body(), most);
    match tokio::time::timeout(READ_WITHIN, reading).await {
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(error)) if is_over_the_limit(&error) => Err(too_large()),
        Ok(Err(_)) => Err(Problem::invalid_request("the body ended before it was complete")),
        Err(_) => Err(Problem::new(Code::Timeout, "the body did not come in time; nothing was sent")),
    }
}

/// Reads what is refused, and forgets it: who still writes when the connection ends would not hear why.
async fn discard(mut body: axum::body::Body) {
    let reading = async { while let Some(Ok(_)) = body.frame().await {} };
    // Who does not finish by then hears it, or not.
    let _ = tokio::time::timeout(DISCARD_WITHIN, reading).await;
}

fn is_over_the_limit(error: &axum::Error) -> bool {
    std::error::Error::source(error).is_some_and(|source| source.is::<http_body_util::LengthLimitError>())
}

/// Query parameters, read as a type.
pub(super) struct Parameters<T>(pub(super) T);

impl<T: DeserializeOwned + Send> FromRequestParts<App> for Parameters<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        let read: Result<Query<T>, QueryRejection> = Query::from_request_parts(parts, app).await;
        match read {
            Ok(Query(parameters)) => Ok(Self(parameters)),
            Err(rejection) => Err(Problem::invalid_request(format!("the query: {}", rejection.body_text()))),
        }
    }
}

/// `Prefer: wait=N` in seconds (RFC 7240). What else is preferred is passed over, as the standard asks.
pub(super) fn wait(headers: &HeaderMap) -> Result<Option<Duration>, Problem> {
    const PREFER: HeaderName = HeaderName::from_static("prefer");
    for value in headers.get_all(PREFER) {
        for preference in value.to_str().unwrap_or_default().split([',', ';']) {
            let (name, value) = preference.split_once('=').unwrap_or((preference, ""));
            if name.trim().eq_ignore_ascii_case("wait") {
                let seconds: u32 = value.trim().trim_matches('"').parse().map_err(|_| {
                    Problem::invalid_request("the header Prefer: wait is a whole number of seconds, as in wait=10")
                })?;
                return Ok(Some(Duration::from_secs(seconds.into())));
            }
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(value: &str) -> Result<Option<u64>, Code> {
        let mut headers = HeaderMap::new();
        headers.insert("prefer", value.parse().unwrap());
        wait(&headers).map(|wait| wait.map(|wait| wait.as_secs())).map_err(|problem| problem.code)
    }

    #[test]
    fn a_wait_is_read_among_other_preferences() {
        assert_eq!(waits("wait=10"), Ok(Some(10)));
        assert_eq!(waits("respond-async, Wait = 0"), Ok(Some(0)));
        assert_eq!(waits("respond-async"), Ok(None));
        assert_eq!(waits("wait=-1"), Err(Code::InvalidRequest));
        assert_eq!(waits("wait=soon"), Err(Code::InvalidRequest));
    }
}
