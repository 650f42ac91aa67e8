//! Form bodies and queries, pair by pair: decoded for comparing, and changed in place without touching anything else.

use crate::template::percent_encode;

/// The decoded pairs in their order; `None` where an escape is broken or no text.
pub(super) fn pairs(text: &str) -> Option<Vec<(String, String)>> {
    let mut pairs = Vec::new();
    for pair in text.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        pairs.push((decoded(name)?, decoded(value)?));
    }
    Some(pairs)
}

/// The value of the first pair of that name.
pub(super) fn value(text: &str, name: &str) -> Option<String> {
    pairs(text)?.into_iter().find(|(candidate, _)| candidate == name).map(|(_, value)| value)
}

/// The text with that value under that name: in its place where there is such a pair, at the end where there is none. A second
/// pair of the name goes: a destination that reads the last one would see another key.
pub(super) fn with(text: &str, name: &str, value: &str) -> String {
    let written = format!("{}={}", percent_encode(name), percent_encode(value));
    let mut placed = false;
    let mut kept = Vec::new();
    for pair in text.split('&').filter(|pair| !pair.is_empty()) {
        let its_name = decoded(pair.split_once('=').map_or(pair, |(name, _)| name));
        match its_name.as_deref() == Some(name) {
            true if placed => {}
            true => {
                placed = true;
                kept.push(written.clone());
            }
            false => kept.push(pair.to_owned()),
        }
    }
    if !placed {
        kept.push(written);
    }
    kept.join("&")
}

fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'+' => bytes.push(b' '),
            b'%' => bytes.push(nibble(rest.next()?)? << 4 | nibble(rest.next()?)?),
            plain => bytes.push(plain),
        }
    }
    String::from_utf8(bytes).ok()
}

fn nibble(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_decoded_in_their_order_and_what_is_broken_is_no_form() {
        let read = pairs("b=1&a%5Bx%5D=two+words&b=%C3%BC&flag").unwrap();
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(read, [pair("b", "1"), pair("a[x]", "two words"), pair("b", "ü"), pair("flag", "")]);
        assert_eq!(pairs("a=%zz"), None);
        assert_eq!(pairs("a=%ff"), None);
    }

    #[test]
    fn a_value_is_put_in_place_and_nothing_else_is_touched() {
        assert_eq!(with("a=%7e&key=old&b=+", "key", "new/1"), "a=%7e&key=new%2F1&b=+");
        assert_eq!(with("a=1", "key", "k"), "a=1&key=k");
        assert_eq!(with("", "key", "k"), "key=k");
        assert_eq!(with("key=1&a=2&k%65y=3", "key", "k"), "key=k&a=2", "a second one would be another key");
    }
}
