//! `ledger`, and what belongs to it.

use std::path::{Path, PathBuf};

use onceward_core::outbound::LedgerSecret;
use onceward_destinations::secrets::{self, SecretReference, SecretSource};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};

use super::reader::Reader;
use crate::home::{DatabaseHome, Home};
use crate::mark::{LossyFailover, MarkFile};

/// Where the mark of a ledger on PostgreSQL is kept, if the configuration does not say: beside the configuration.
const MARK: &str = "onceward.mark";

const WAY_OUT: &str = "write ledger = \"sqlite:onceward.db\", or \"postgres://user@host/database\" (one with a password as \
                       \"env:NAME\" or \"file:PATH\")";

/// Where the ledger lies. A mistake is recorded; what is returned then is used for nothing.
pub(super) fn read(reader: &mut Reader<'_>, base_dir: &Path, source: &dyn SecretSource) -> Home {
    let nowhere = Home::File(PathBuf::new());
    let secret = reader.take::<String>("ledger_secret");
    let ca = reader.take::<PathBuf>("ledger_ca");
    let mark = reader.take::<PathBuf>("ledger_mark");
    let lossy = reader.take::<bool>("accept_lossy_failover");
    let Some(text) = reader.take_required::<String>("ledger", WAY_OUT) else { return nowhere };
    let address = match text.split_once(':') {
        Some(("sqlite", path)) if !path.is_empty() && !path.starts_with("//") => {
            if secret.is_some() || ca.is_some() {
                let problem = "it belongs to a ledger on PostgreSQL; a file has its secret beside it".to_owned();
                reader.add(if secret.is_some() { "ledger_secret" } else { "ledger_ca" }, problem, "leave it out");
            }
            if mark.is_some() || lossy.is_some() {
                let problem = "it belongs to a ledger on PostgreSQL; a file has its mark beside it".to_owned();
                reader.add(
                    if mark.is_some() { "ledger_mark" } else { "accept_lossy_failover" },
                    problem,
                    "leave it out",
                );
            }
            return Home::File(base_dir.join(path));
        }
        Some(("postgres" | "postgresql", rest)) if has_password(rest) => {
            let problem = "a password does not stand in the configuration".to_owned();
            reader.add(
                "ledger",
                problem,
                "write ledger = \"env:NAME\" or \"file:PATH\", and put the whole address there",
            );
            return nowhere;
        }
        Some(("postgres" | "postgresql", _)) => text,
        Some(("env" | "file", _)) => match referred(&text, base_dir, source) {
            Ok(address) if address.starts_with("postgres://") || address.starts_with("postgresql://") => address,
            Ok(_) => {
                reader.add("ledger", "what it names is no address of a PostgreSQL database".to_owned(), WAY_OUT);
                return nowhere;
            }
            Err(problem) => {
                reader.add("ledger", problem, WAY_OUT);
                return nowhere;
            }
        },
        Some(_) | None => {
            // The text is not repeated: people put passwords into addresses.
            reader.add("ledger", "this names no ledger".to_owned(), WAY_OUT);
            return nowhere;
        }
    };
    let secret = database_secret(reader, secret.as_deref(), base_dir, source);
    let tls = ca.map(|path| authorities(&base_dir.join(path))).transpose();
    match (secret, tls) {
        (Some(secret), Ok(tls)) => {
            let mark = Some(MarkFile::at(base_dir.join(mark.unwrap_or_else(|| PathBuf::from(MARK)))));
            let failover = if lossy == Some(true) { LossyFailover::Accepted } else { LossyFailover::Refused };
            Home::Database(Box::new(DatabaseHome { address, secret, tls, mark, failover }))
        }
        (_, Err(problem)) => {
            reader.add("ledger_ca", problem, "name a file with the certificate authorities of the database, as PEM");
            nowhere
        }
        (None, Ok(_)) => nowhere,
    }
}

/// Whether the part before the host names a password.
fn has_password(rest: &str) -> bool {
    let authority = rest.trim_start_matches('/').split(['/', '?']).next().unwrap_or_default();
    authority.rsplit_once('@').is_some_and(|(user, _)| user.contains(':')) || rest.contains("password=")
}

fn referred(text: &str, base_dir: &Path, source: &dyn SecretSource) -> Result<String, String> {
    let reference: SecretReference = text.parse().map_err(|error: secrets::InvalidReference| error.to_string())?;
    let secret = secrets::read(&reference, base_dir, source).map_err(|error| error.to_string())?;
    Ok(secret.expose().to_owned())
}

fn database_secret(
    reader: &mut Reader<'_>,
    text: Option<&str>,
    base_dir: &Path,
    source: &dyn SecretSource,
) -> Option<LedgerSecret> {
    let way_out = "make one with `openssl rand -hex 32`, keep it apart from the database's backups, and write \
                   ledger_secret = \"file:PATH\" or \"env:NAME\" for every gateway alike";
    let Some(text) = text else {
        reader.add(
            "ledger_secret",
            "a ledger on PostgreSQL needs it: outbound keys are made with it".to_owned(),
            way_out,
        );
        return None;
    };
    match referred(text, base_dir, source) {
        Ok(hex) => match LedgerSecret::from_hex(&hex) {
            Some(secret) => Some(secret),
            None => {
                reader.add("ledger_secret", "what it names are not 64 hex digits".to_owned(), way_out);
                None
            }
        },
        Err(problem) => {
            reader.add("ledger_secret", problem, way_out);
            None
        }
    }
}

fn authorities(path: &Path) -> Result<ClientConfig, String> {
    let unreadable = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let certificates: Result<Vec<_>, _> =
        CertificateDer::pem_file_iter(path).map_err(|error| unreadable(&error))?.collect();
    let mut roots = RootCertStore::empty();
    // A system's bundle may have some that nobody reads any more. Trusting fewer is safe.
    let (usable, unusable) = roots.add_parsable_certificates(certificates.map_err(|error| unreadable(&error))?);
    if usable == 0 {
        return Err(unreadable(&format!("it has no usable certificate ({unusable} unusable)")));
    }
    onceward_destinations::client::install_tls_provider();
    Ok(ClientConfig::builder().with_root_certificates(roots).with_no_client_auth())
}
