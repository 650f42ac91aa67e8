//! The one place that asks the system for random bytes.

use onceward_core::journal::Salt;

/// Random bytes. The system's source does not fail once it is seeded, and there is nothing to fall back to.
pub(crate) fn bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    if let Err(error) = getrandom::fill(&mut bytes) {
        panic!("the system gives no random bytes: {error}");
    }
    bytes
}

/// Salts for journal entries, drawn a page at a time.
pub(crate) struct Salts {
    page: Box<[u8; 4096]>,
    used: usize,
}

impl Salts {
    pub(crate) fn new() -> Self {
        Self { page: Box::new([0; 4096]), used: 4096 }
    }

    pub(crate) fn next(&mut self) -> Salt {
        if self.used == self.page.len() {
            *self.page = bytes();
            self.used = 0;
        }
        let mut salt = Salt::default();
        let end = self.used + salt.len();
        salt.copy_from_slice(&self.page[self.used..end]);
        self.used = end;
        salt
    }
}
