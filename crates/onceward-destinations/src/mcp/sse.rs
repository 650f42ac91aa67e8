//! Server-sent events, cut out of the bytes of an answer as they arrive.

/// One event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Event {
    /// Its id, by which a stream that broke can be taken up again.
    pub(crate) id: Option<String>,
    /// Its data; empty for one that only carries an id.
    pub(crate) data: Vec<u8>,
}

/// The stream grew past what may wait in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooLarge;

/// Bytes that are not a whole event yet.
#[derive(Debug)]
pub(crate) struct Events {
    waiting: Vec<u8>,
    event: Event,
    any: bool,
    bytes_max: usize,
}

impl Events {
    /// A stream whose events have at most that many bytes.
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self { waiting: Vec::new(), event: Event::default(), any: false, bytes_max }
    }

    /// Takes more bytes, and gives the events that they complete.
    pub(crate) fn take(&mut self, bytes: &[u8]) -> Result<Vec<Event>, TooLarge> {
        self.waiting.extend_from_slice(bytes);
        let mut events = Vec::new();
        while let Some((line, used)) = first_line(&self.waiting) {
            let line = line.to_vec();
            self.waiting.drain(..used);
            if line.is_empty() {
                let event = std::mem::take(&mut self.event);
                if std::mem::take(&mut self.any) {
                    events.push(event);
                }
                continue;
            }
            self.field(&line);
            if self.event.data.len() > self.bytes_max {
                return Err(TooLarge);
            }
        }
        match self.waiting.len() > self.bytes_max {
            true => Err(TooLarge),
            false => Ok(events),
        }
    }

    fn field(&mut self, line: &[u8]) {
        let (name, value) = match line.iter().position(|byte| *byte == b':') {
            Some(at) => (&line[..at], line[at + 1..].strip_prefix(b" ").unwrap_or(&line[at + 1..])),
            None => (line, &line[line.len()..]),
        };
        match name {
            b"data" => {
                if !self.event.data.is_empty() {
                    self.event.data.push(b'\n');
                }
                self.event.data.extend_from_slice(value);
                self.any = true;
            }
            b"id" => {
                self.event.id = std::str::from_utf8(value).ok().map(ToOwned::to_owned);
                self.any = true;
            }
            // `event`, `retry`, a comment: nothing that a reply is made of.
            _ => {}
        }
    }
}

/// The first line that has its end, and how many bytes it takes with it. A carriage return at the very end may be half of
/// one end of a line, so it waits.
fn first_line(bytes: &[u8]) -> Option<(&[u8], usize)> {
    let at = bytes.iter().position(|byte| *byte == b'\n' || *byte == b'\r')?;
    match (bytes[at], bytes.get(at + 1)) {
        (b'\r', None) => None,
        (b'\r', Some(b'\n')) => Some((&bytes[..at], at + 2)),
        (_, _) => Some((&bytes[..at], at + 1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(chunks: &[&str]) -> Vec<(Option<String>, String)> {
        let mut events = Events::new(1000);
        chunks
            .iter()
            .flat_map(|chunk| events.take(chunk.as_bytes()).unwrap())
            .map(|event| (event.id, String::from_utf8(event.data).unwrap()))
            .collect()
    }

    #[test]
    fn events_come_out_whole_however_the_bytes_are_cut() {
        let text = "event: message\r\nid: 1\r\ndata: {\"a\":\r\ndata:  1}\r\n\r\n: a comment\n\ndata:x\n\nid: 2\n\n";
        let expected = vec![
            (Some("1".to_owned()), "{\"a\":\n 1}".to_owned()),
            (None, "x".to_owned()),
            (Some("2".to_owned()), String::new()),
        ];
        assert_eq!(all(&[text]), expected);
        for cut in 1..text.len() {
            assert_eq!(all(&[&text[..cut], &text[cut..]]), expected, "{cut}");
        }
    }

    #[test]
    fn an_event_that_is_not_ended_is_no_event() {
        assert_eq!(all(&["data: {}\n"]), []);
    }

    #[test]
    fn an_event_without_end_is_refused_and_not_kept() {
        let mut events = Events::new(10);
        assert_eq!(events.take(b"data: 12345678901"), Err(TooLarge));
        let mut events = Events::new(10);
        assert_eq!(events.take(b"data: 123456\ndata: 123456\n"), Err(TooLarge));
    }
}
