//! Simple patterns: a text in which `*` stands for anything. No expression language, so there is no parser to attack.

use http::Method;

/// A text in which `*` stands for any text, also an empty one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Glob(String);

impl Glob {
    /// Any text is a pattern.
    pub(crate) fn new(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// Whether it matches every text.
    pub(crate) fn matches_everything(&self) -> bool {
        !self.0.is_empty() && self.0.bytes().all(|byte| byte == b'*')
    }

    /// Whether the whole text is meant. Linear in the text for each star: what stands between two stars is taken where it is
    /// found first, which loses no match.
    pub(crate) fn matches(&self, text: &str) -> bool {
        let Some((first, rest)) = self.0.split_once('*') else { return self.0 == text };
        let Some(mut left) = text.strip_prefix(first) else { return false };
        let mut pieces = rest.split('*').peekable();
        while let Some(piece) = pieces.next() {
            if pieces.peek().is_none() {
                return left.ends_with(piece);
            }
            match left.find(piece) {
                Some(at) => left = &left[at + piece.len()..],
                None => return false,
            }
        }
        true
    }
}

/// Requests that only read: a method, and where only some of its paths do, a pattern for them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReadRule {
    method: Method,
    path: Option<Glob>,
}

impl ReadRule {
    /// Reads `GET`, or `POST /v1/search/*`. `None` where it is neither.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (method, path) = match text.split_once(' ') {
            Some((method, path)) => (method, Some(path.trim_start())),
            None => (text, None),
        };
        if method.is_empty() || !method.bytes().all(|byte| byte.is_ascii_uppercase()) {
            return None;
        }
        if path.is_some_and(|path| !path.starts_with(['/', '*'])) {
            return None;
        }
        Some(Self { method: method.parse().ok()?, path: path.map(Glob::new) })
    }

    /// Whether it means such a request.
    pub(crate) fn matches(&self, method: &Method, path: &str) -> bool {
        self.method == *method && self.path.as_ref().is_none_or(|glob| glob.matches(path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_text_and_everything_else_for_itself() {
        let matches = |glob: &str, text: &str| Glob::new(glob).matches(text);
        assert!(matches("order-*", "order-17") && matches("order-*", "order-"));
        assert!(!matches("order-*", "my-order-17") && !matches("order-17", "order-178"));
        assert!(matches("*-v2", "a-v2-v2") && matches("a*b*c", "aXbbc") && !matches("a*b*c", "acb"));
        assert!(!matches("ab*ba", "aba"), "two ends never share a letter");
        assert!(Glob::new("**").matches_everything() && !Glob::new("").matches_everything());
    }

    #[test]
    fn a_read_is_a_method_or_a_method_on_some_paths() {
        let rule = ReadRule::parse("POST /v1/search/*").unwrap();
        assert!(rule.matches(&Method::POST, "/v1/search/charges"));
        assert!(!rule.matches(&Method::POST, "/v1/charges") && !rule.matches(&Method::PUT, "/v1/search/charges"));
        assert!(ReadRule::parse("GET").unwrap().matches(&Method::GET, "/anything"));
        for text in ["", "get", "GET v1", "/v1"] {
            assert_eq!(ReadRule::parse(text), None, "{text}");
        }
    }
}
