//! Multipart bodies as they are compared: by their parts, without the boundary, which a client makes anew for each repetition.

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::limits::PROXY_PARTS_MAX;

/// The parts with their headers and content hashes; `None` where it is not whole, or has too many parts.
pub(super) fn parts(content_type: &str, body: &[u8]) -> Option<Value> {
    let boundary = boundary(content_type)?;
    let delimiter = [b"--", boundary.as_bytes()].concat();
    let mut left = body.strip_prefix(&delimiter[..])?;
    let between = [b"\r\n", &delimiter[..]].concat();
    let mut parts = Vec::new();
    loop {
        if left.starts_with(b"--") {
            return Some(Value::Array(parts));
        }
        if parts.len() == PROXY_PARTS_MAX {
            return None;
        }
        let part = left.strip_prefix(b"\r\n")?;
        let end = find(part, &between)?;
        parts.push(part_of(&part[..end])?);
        left = &part[end + between.len()..];
    }
}

/// One part: its headers in their order, and what its content is.
fn part_of(part: &[u8]) -> Option<Value> {
    let head_end = match part.starts_with(b"\r\n") {
        true => 0,
        false => find(part, b"\r\n\r\n")? + 2,
    };
    let (head, content) = (&part[..head_end], &part[head_end + 2..]);
    let mut headers = Vec::new();
    for line in std::str::from_utf8(head).ok()?.split("\r\n").filter(|line| !line.is_empty()) {
        let (name, value) = line.split_once(':')?;
        headers.push(json!([name.trim().to_ascii_lowercase(), value.trim()]));
    }
    let digest: [u8; 32] = Sha256::digest(content).into();
    Some(json!({ "headers": headers, "bytes": content.len(), "sha256": onceward_core::hex::encode(&digest) }))
}

fn boundary(content_type: &str) -> Option<String> {
    content_type.split(';').skip(1).find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        let value = value.trim().trim_matches('"');
        // At most 70 characters (RFC 2046 §5.1.1).
        (name.trim().eq_ignore_ascii_case("boundary") && (1..=70).contains(&value.len())).then(|| value.to_owned())
    })
}

fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    text.windows(wanted.len()).position(|window| window == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(boundary: &str, file: &str) -> Vec<u8> {
        format!(
            "--{boundary}\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nlogo\r\n\
             --{boundary}\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.png\"\r\nContent-Type: image/png\r\n\r\n{file}\r\n\
             --{boundary}--\r\n"
        )
        .into_bytes()
    }

    fn read(boundary: &str, file: &str) -> Option<Value> {
        parts(&format!("multipart/form-data; boundary={boundary}"), &body(boundary, file))
    }

    #[test]
    fn a_new_boundary_makes_no_other_parts_and_other_content_does() {
        let first = read("one", "\u{89}PNG").unwrap();
        assert_eq!(first.as_array().unwrap().len(), 2);
        assert_eq!(first[0]["bytes"], 4);
        assert_eq!(read("two", "\u{89}PNG"), Some(first.clone()));
        assert_ne!(read("one", "\u{89}JPG"), Some(first));
    }

    #[test]
    fn what_is_not_whole_has_no_parts() {
        let whole = body("one", "x");
        for cut in [0, 5, 30, whole.len() - 6] {
            assert_eq!(parts("multipart/form-data; boundary=one", &whole[..cut]), None, "{cut}");
        }
        assert_eq!(parts("multipart/form-data", &whole), None);
        assert_eq!(parts("multipart/form-data; boundary=other", &whole), None);
    }
}
