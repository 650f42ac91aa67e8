//! Secrets: named by reference in the configuration, read once at start, never printed, stored or logged.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use secrecy::{ExposeSecret, SecretString};

use crate::limits::SECRET_BYTES_MAX;

/// Where a secret is. Only this stands in a configuration file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretReference {
    /// An environment variable.
    Variable(String),
    /// A file; a relative path is taken from the configuration's folder.
    File(PathBuf),
}

/// Why a text is no reference. The text is not repeated: it may be the secret itself.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a secret does not stand in the configuration; write \"env:NAME\" or \"file:PATH\"")]
pub struct InvalidReference;

impl FromStr for SecretReference {
    type Err = InvalidReference;

    fn from_str(text: &str) -> Result<Self, InvalidReference> {
        match text.split_once(':') {
            Some(("env", name)) if is_variable_name(name) => Ok(Self::Variable(name.to_owned())),
            Some(("file", path)) if !path.is_empty() => Ok(Self::File(PathBuf::from(path))),
            Some(_) | None => Err(InvalidReference),
        }
    }
}

impl fmt::Display for SecretReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Variable(name) => write!(f, "env:{name}"),
            Self::File(path) => write!(f, "file:{}", path.display()),
        }
    }
}

fn is_variable_name(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|first: char| first.is_ascii_digit())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// A secret that was read. It has no `Display` and no `Serialize`, and its `Debug` names the reference.
#[derive(Clone)]
pub struct Secret {
    reference: SecretReference,
    text: SecretString,
}

impl Secret {
    /// The secret itself, for what carries it and for nothing else.
    #[must_use]
    pub fn expose(&self) -> &str {
        self.text.expose_secret()
    }

    /// Where it came from.
    #[must_use]
    pub const fn reference(&self) -> &SecretReference {
        &self.reference
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret({})", self.reference)
    }
}

/// Why a secret could not be read. The reference is named, the value never.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// The variable is not set.
    #[error("the environment variable {name} is not set; set it before the start")]
    NotSet {
        /// Its name.
        name: String,
    },
    /// The file cannot be read.
    #[error("the file {path} cannot be read ({kind}); check the path and its permissions")]
    File {
        /// Its path.
        path: PathBuf,
        /// What the system says.
        kind: std::io::ErrorKind,
    },
    /// It has nothing in it, or nothing but white space.
    #[error("{reference} is empty")]
    Empty {
        /// Where it is.
        reference: SecretReference,
    },
    /// It is larger than any secret.
    #[error("{reference} has more than {SECRET_BYTES_MAX} bytes; is it the right file?")]
    TooLarge {
        /// Where it is.
        reference: SecretReference,
    },
    /// It is not text, or has a line break or another control character inside, which no header can carry.
    #[error("{reference} has a character that no header can carry; write it as one line of visible ASCII")]
    NotOneLine {
        /// Where it is.
        reference: SecretReference,
    },
}

/// Where secrets are read from.
pub trait SecretSource {
    /// The value of an environment variable, if it is set to text.
    fn variable(&self, name: &str) -> Option<String>;

    /// The content of a file.
    ///
    /// # Errors
    /// What the system says.
    fn file(&self, path: &Path) -> std::io::Result<Vec<u8>>;
}

/// The environment and the files of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct MachineSecrets;

impl SecretSource for MachineSecrets {
    fn variable(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }

    fn file(&self, path: &Path) -> std::io::Result<Vec<u8>> {
        use std::io::Read as _;
        let mut content = Vec::new();
        // One byte past the limit tells a file that is too large from one that just fits.
        std::fs::File::open(path)?.take(SECRET_BYTES_MAX as u64 + 1).read_to_end(&mut content)?;
        Ok(content)
    }
}

/// Reads a secret. White space around it, such as the line end that editors add, is no part of it.
///
/// # Errors
/// [`SecretError`] names the reference. The destination cannot be used without it.
pub fn read(reference: &SecretReference, base_dir: &Path, source: &dyn SecretSource) -> Result<Secret, SecretError> {
    let bytes = match reference {
        SecretReference::Variable(name) => {
            source.variable(name).ok_or_else(|| SecretError::NotSet { name: name.clone() })?.into_bytes()
        }
        SecretReference::File(path) => {
            let path = base_dir.join(path);
            source.file(&path).map_err(|error| SecretError::File { path, kind: error.kind() })?
        }
    };
    if bytes.len() > SECRET_BYTES_MAX {
        return Err(SecretError::TooLarge { reference: reference.clone() });
    }
    let text = bytes.trim_ascii();
    if text.is_empty() {
        return Err(SecretError::Empty { reference: reference.clone() });
    }
    match std::str::from_utf8(text) {
        Ok(text) if text.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic()) => {
            Ok(Secret { reference: reference.clone(), text: SecretString::from(text) })
        }
        Ok(_) | Err(_) => Err(SecretError::NotOneLine { reference: reference.clone() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Given(&'static [u8]);

    impl SecretSource for Given {
        fn variable(&self, name: &str) -> Option<String> {
            (name == "TOKEN").then(|| String::from_utf8_lossy(self.0).into_owned())
        }
        fn file(&self, path: &Path) -> std::io::Result<Vec<u8>> {
            match path == Path::new("/etc/onceward/token") {
                true => Ok(self.0.to_vec()),
                false => Err(std::io::ErrorKind::NotFound.into()),
            }
        }
    }

    fn read_from(reference: &str, content: &'static [u8]) -> Result<Secret, SecretError> {
        read(&reference.parse().unwrap(), Path::new("/etc/onceward"), &Given(content))
    }

    #[test]
    fn a_secret_is_read_without_the_line_end_that_an_editor_added() {
        assert_eq!(read_from("file:token", b"s3cret\n").unwrap().expose(), "s3cret");
        assert_eq!(read_from("env:TOKEN", b" s3cret ").unwrap().expose(), "s3cret");
    }

    #[test]
    fn what_is_printed_of_a_secret_is_its_reference() {
        let secret = read_from("env:TOKEN", b"s3cret").unwrap();
        assert_eq!(format!("{secret:?}"), "Secret(env:TOKEN)");
    }

    #[test]
    fn an_error_names_the_reference_and_never_the_value() {
        for (reference, content) in [
            ("env:OTHER", &b"s3cret"[..]),
            ("file:nowhere", b"s3cret"),
            ("env:TOKEN", b"s3cret\r\nX-Evil: s3cret"),
            ("file:token", b"s3cret\xff"),
            ("file:token", b" \n"),
        ] {
            let error = read_from(reference, content).unwrap_err();
            let text = format!("{error} {error:?}");
            assert!(!text.contains("s3cret"), "{text}");
            assert!(text.contains(reference.split_once(':').unwrap().1), "{text}");
        }
    }

    #[test]
    fn a_secret_in_the_configuration_itself_is_refused_without_repeating_it() {
        for text in ["sk_live_1", "env:", "env:A B", "file:", "vault:x", "ENV:A", "env:1A"] {
            let error = text.parse::<SecretReference>().unwrap_err();
            assert!(!format!("{error} {error:?}").contains("sk_live"), "{text}");
        }
    }
}
