//! What can go wrong with one request, by name.

use std::fmt;
use std::str::FromStr;

use axum::http::StatusCode;
use serde::{Deserialize, Serialize};

use super::limits::FAULT_DELAY_MS_MAX;

/// One thing that goes wrong with one request.
///
/// Written as its name and, where it has one, its number: `lose_reply_after_commit`, `delay_before_commit;ms=8000`,
/// `fail_before_commit;status=503`. The text is the same in the header `Sandbox-Fault`, in a fault rule and in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub enum Fault {
    /// The effect is committed, then the connection is closed without one byte of an answer.
    LoseReplyAfterCommit,
    /// The effect is committed; the answer breaks off inside its headers.
    CutMidHeaders,
    /// The effect is committed; the headers arrive whole and the body breaks off half-way.
    CutMidBody,
    /// Nothing is done, and the answer says so with this status.
    FailBeforeCommit {
        /// 500 unless named; 503 is a server that sheds load, 400 or 422 one that does not like what it is asked.
        status: StatusCode,
    },
    /// Nothing is done, and the connection is closed without one byte: to the caller the same as a lost reply.
    CutBeforeCommit,
    /// The work began and was rolled back. A destination that stores all answers stores this 500, and the key is burnt.
    Error500RolledBack,
    /// The effect is committed and the application itself answers 500.
    Error500AfterCommit,
    /// The effect is committed and something between the application and the caller answers 502, 503 or 504.
    GatewayErrorAfterCommit(GatewayError),
    /// The work waits before it is committed; the key counts as in flight meanwhile.
    DelayBeforeCommit {
        /// Milliseconds.
        ms: u64,
    },
    /// The effect is committed at once, the answer waits.
    DelayAfterCommit {
        /// Milliseconds.
        ms: u64,
    },
    /// The effect is committed and the headers are sent at once; the second half of the body waits.
    SlowLateAnswer {
        /// Milliseconds between the halves.
        ms: u64,
    },
    /// Answers 409 as if somebody else were executing this key. Nothing is done.
    InFlight409,
    /// A key that was used with other arguments gets the first answer, whatever the contract says.
    SilentMismatch,
    /// The effect is committed; the answer is complete HTTP around JSON that breaks off half-way.
    TruncatedJson,
    /// The effect is committed, the answer is 202 with a place to ask, and the thing is `processing` for a while.
    Accepted202 {
        /// Milliseconds until it is done.
        ms: u64,
    },
    /// Answers as if this key had been used with other arguments. Nothing is done.
    KeyMismatch,
    /// Answers as if the thing existed already, made by somebody else. Nothing is done.
    AlreadyExists,
    /// Answers 429. Nothing is done.
    Throttle429 {
        /// What `Retry-After` says, in milliseconds; the header carries whole seconds, rounded up.
        ms: u64,
    },
    /// Answers 307 to the same address. Nothing is done; a client that follows it sends the write again.
    Redirect307,
    /// Answers 401 as if the credential had been refused. Nothing is done.
    Unauthorized401,
    /// The effect is committed and answered with 200, and a body that says it failed.
    Partial200,
}

/// What a proxy in front of an application answers when it has lost it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GatewayError {
    /// 502 Bad Gateway.
    BadGateway,
    /// 503 Service Unavailable.
    Unavailable,
    /// 504 Gateway Timeout.
    Timeout,
}

impl GatewayError {
    /// The status it is answered with.
    #[must_use]
    pub fn status(self) -> StatusCode {
        match self {
            Self::BadGateway => StatusCode::BAD_GATEWAY,
            Self::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            Self::Timeout => StatusCode::GATEWAY_TIMEOUT,
        }
    }
}

/// Why a text is not a fault.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FaultError {
    /// No fault has this name.
    #[error("no fault is called {0:?}; docs/sandbox.md lists them")]
    UnknownName(String),
    /// The part after the semicolon is not `ms=<number>` or `status=<400..599>`.
    #[error("{0:?} is not a setting of a fault: ms=<milliseconds> or status=<400..599>")]
    Setting(String),
    /// The fault has no such setting.
    #[error("the fault {name:?} has no setting {setting:?}")]
    NotASettingOf {
        /// The fault.
        name: String,
        /// The setting it does not have.
        setting: &'static str,
    },
    /// A fault that waits must say for how long.
    #[error("the fault {0:?} needs ;ms=<milliseconds>")]
    NeedsMs(String),
    /// Longer than [`FAULT_DELAY_MS_MAX`].
    #[error("a fault waits {FAULT_DELAY_MS_MAX} ms at most, not {0}")]
    TooLong(u64),
}

/// The settings that stood behind a fault's name.
#[derive(Debug, Default)]
struct Settings {
    ms: Option<u64>,
    status: Option<StatusCode>,
}

impl Settings {
    fn parse(text: &str) -> Result<Self, FaultError> {
        let mut settings = Self::default();
        for setting in text.split(';').map(str::trim).filter(|part| !part.is_empty()) {
            let wrong = || FaultError::Setting(setting.to_owned());
            let (name, value) = setting.split_once('=').ok_or_else(wrong)?;
            match name.trim() {
                "ms" => {
                    let ms = value.trim().parse().map_err(|_| wrong())?;
                    if ms > FAULT_DELAY_MS_MAX {
                        return Err(FaultError::TooLong(ms));
                    }
                    settings.ms = Some(ms);
                }
                "status" => {
                    let status = StatusCode::from_bytes(value.trim().as_bytes()).map_err(|_| wrong())?;
                    if !(status.is_server_error() || status.is_client_error()) {
                        return Err(wrong());
                    }
                    settings.status = Some(status);
                }
                _ => return Err(wrong()),
            }
        }
        Ok(settings)
    }
}

impl FromStr for Fault {
    type Err = FaultError;

    fn from_str(text: &str) -> Result<Self, FaultError> {
        let (name, rest) = text.split_once(';').unwrap_or((text, ""));
        let name = name.trim();
        let Settings { mut ms, mut status } = Settings::parse(rest)?;
        let needed = |ms: Option<u64>| ms.ok_or_else(|| FaultError::NeedsMs(name.to_owned()));
        let fault = match name {
            "lose_reply_after_commit" => Self::LoseReplyAfterCommit,
            "cut_mid_headers" => Self::CutMidHeaders,
            "cut_mid_body" => Self::CutMidBody,
            "fail_before_commit" => {
                Self::FailBeforeCommit { status: status.take().unwrap_or(StatusCode::INTERNAL_SERVER_ERROR) }
            }
            "cut_before_commit" => Self::CutBeforeCommit,
            "error_500_rolled_back" => Self::Error500RolledBack,
            "error_500_after_commit" => Self::Error500AfterCommit,
            "error_502_after_commit" => Self::GatewayErrorAfterCommit(GatewayError::BadGateway),
            "error_503_after_commit" => Self::GatewayErrorAfterCommit(GatewayError::Unavailable),
            "error_504_after_commit" => Self::GatewayErrorAfterCommit(GatewayError::Timeout),
            "delay_before_commit" => Self::DelayBeforeCommit { ms: needed(ms.take())? },
            "delay_after_commit" => Self::DelayAfterCommit { ms: needed(ms.take())? },
            "slow_late_answer" => Self::SlowLateAnswer { ms: needed(ms.take())? },
            "in_flight_409" => Self::InFlight409,
            "silent_mismatch" => Self::SilentMismatch,
            "key_mismatch" => Self::KeyMismatch,
            "already_exists" => Self::AlreadyExists,
            "truncated_json" => Self::TruncatedJson,
            "accepted_202" => Self::Accepted202 { ms: ms.take().unwrap_or(0) },
            "throttle_429" => Self::Throttle429 { ms: ms.take().unwrap_or(1000) },
            "redirect_307" => Self::Redirect307,
            "unauthorized_401" => Self::Unauthorized401,
            "partial_200" => Self::Partial200,
            _ => return Err(FaultError::UnknownName(name.to_owned())),
        };
        // What was not taken above is a setting that this fault does not have; ignoring it would hide a typing error.
        let left = match (ms, status) {
            (Some(_), _) => "ms",
            (None, Some(_)) => "status",
            (None, None) => return Ok(fault),
        };
        Err(FaultError::NotASettingOf { name: name.to_owned(), setting: left })
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LoseReplyAfterCommit => f.write_str("lose_reply_after_commit"),
            Self::CutMidHeaders => f.write_str("cut_mid_headers"),
            Self::CutMidBody => f.write_str("cut_mid_body"),
            Self::FailBeforeCommit { status } => write!(f, "fail_before_commit;status={}", status.as_u16()),
            Self::CutBeforeCommit => f.write_str("cut_before_commit"),
            Self::Error500RolledBack => f.write_str("error_500_rolled_back"),
            Self::Error500AfterCommit => f.write_str("error_500_after_commit"),
            Self::GatewayErrorAfterCommit(error) => {
                write!(f, "error_{}_after_commit", error.status().as_u16())
            }
            Self::DelayBeforeCommit { ms } => write!(f, "delay_before_commit;ms={ms}"),
            Self::DelayAfterCommit { ms } => write!(f, "delay_after_commit;ms={ms}"),
            Self::SlowLateAnswer { ms } => write!(f, "slow_late_answer;ms={ms}"),
            Self::InFlight409 => f.write_str("in_flight_409"),
            Self::SilentMismatch => f.write_str("silent_mismatch"),
            Self::KeyMismatch => f.write_str("key_mismatch"),
            Self::AlreadyExists => f.write_str("already_exists"),
            Self::TruncatedJson => f.write_str("truncated_json"),
            Self::Accepted202 { ms } => write!(f, "accepted_202;ms={ms}"),
            Self::Throttle429 { ms } => write!(f, "throttle_429;ms={ms}"),
            Self::Redirect307 => f.write_str("redirect_307"),
            Self::Unauthorized401 => f.write_str("unauthorized_401"),
            Self::Partial200 => f.write_str("partial_200"),
        }
    }
}

impl TryFrom<String> for Fault {
    type Error = FaultError;

    fn try_from(text: String) -> Result<Self, FaultError> {
        text.parse()
    }
}

impl From<Fault> for String {
    fn from(fault: Fault) -> Self {
        fault.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_reads_back_from_its_own_text() {
        let written = [
            "lose_reply_after_commit",
            "cut_mid_headers",
            "cut_mid_body",
            "fail_before_commit;status=503",
            "cut_before_commit",
            "error_500_rolled_back",
            "error_500_after_commit",
            "error_502_after_commit",
            "error_503_after_commit",
            "error_504_after_commit",
            "delay_before_commit;ms=8000",
            "delay_after_commit;ms=1",
            "slow_late_answer;ms=20",
            "in_flight_409",
            "silent_mismatch",
            "key_mismatch",
            "already_exists",
            "truncated_json",
            "accepted_202;ms=5",
            "throttle_429;ms=1500",
            "redirect_307",
            "unauthorized_401",
            "partial_200",
        ];
        for text in written {
            assert_eq!(text.parse::<Fault>().expect(text).to_string(), text);
        }
    }

    #[test]
    fn a_mistyped_fault_is_refused_and_not_ignored() {
        let refused = |text: &str| text.parse::<Fault>().expect_err(text);
        assert_eq!(refused("lose_reply"), FaultError::UnknownName("lose_reply".into()));
        assert_eq!(refused("delay_after_commit"), FaultError::NeedsMs("delay_after_commit".into()));
        assert_eq!(refused("delay_after_commit;sec=3"), FaultError::Setting("sec=3".into()));
        assert_eq!(refused("delay_after_commit;ms=600001"), FaultError::TooLong(600_001));
        assert_eq!(refused("fail_before_commit;status=200"), FaultError::Setting("status=200".into()));
        assert_eq!(
            refused("redirect_307;ms=5"),
            FaultError::NotASettingOf { name: "redirect_307".into(), setting: "ms" }
        );
    }
}
