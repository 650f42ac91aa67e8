//! Blobs with a header: a format version, then how it is sealed. Both are there from the first day, so that sealing and a
//! second format need no rewriting of what exists.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Broken;

/// JSON.
const FORMAT_JSON: u8 = 1;
/// Not sealed. A sealed blob has 1 here, and four bytes of its key's id follow.
const PLAIN: u8 = 0;

/// The value as JSON after its header.
pub(super) fn encode<T: Serialize>(value: &T, expected_bytes: usize) -> Result<Vec<u8>, Broken> {
    let mut bytes = Vec::with_capacity(expected_bytes);
    bytes.extend_from_slice(&[FORMAT_JSON, PLAIN]);
    serde_json::to_writer(&mut bytes, value).map_err(|error| Broken(format!("cannot be written as JSON: {error}")))?;
    Ok(bytes)
}

/// Text after its header.
#[must_use]
pub fn encode_text(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len() + 2);
    bytes.extend_from_slice(&[FORMAT_JSON, PLAIN]);
    bytes.extend_from_slice(text.as_bytes());
    bytes
}

/// The value behind the header.
///
/// # Errors
/// [`Broken`] names the column.
pub fn decode<T: DeserializeOwned>(column: &'static str, bytes: &[u8]) -> Result<T, Broken> {
    serde_json::from_slice(payload(column, bytes)?).map_err(|error| Broken(format!("column {column}: {error}")))
}

/// The text behind the header.
///
/// # Errors
/// [`Broken`] names the column.
pub fn decode_text(column: &'static str, bytes: &[u8]) -> Result<String, Broken> {
    String::from_utf8(payload(column, bytes)?.to_vec()).map_err(|error| Broken(format!("column {column}: {error}")))
}

fn payload<'a>(column: &'static str, bytes: &'a [u8]) -> Result<&'a [u8], Broken> {
    match bytes {
        [FORMAT_JSON, PLAIN, rest @ ..] => Ok(rest),
        [FORMAT_JSON, 1, ..] => Err(Broken(format!("column {column} is sealed, and no sealing key is configured"))),
        [version, ..] => Err(Broken(format!("column {column} has format {version}, which is not known here"))),
        [] => Err(Broken(format!("column {column} is empty"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blob_of_a_later_format_or_a_sealed_one_is_named_and_not_guessed_at() {
        let plain = encode(&7, 8).unwrap();
        assert_eq!(plain, b"\x01\x007");
        assert_eq!(decode::<u8>("body", &plain).unwrap(), 7);
        for bytes in [&b""[..], b"\x02\x007", b"\x01\x01\0\0\0\x017", b"\x01\x00{"] {
            assert!(matches!(decode::<u8>("body", bytes), Err(Broken(_))), "{bytes:?}");
        }
    }
}
