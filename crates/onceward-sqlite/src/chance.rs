//! The one place that asks the system for random bytes: ledger ids, the secret, salts of journal entries.

use onceward_core::journal::Salt;

/// Random bytes. The system's source does not fail once it is seeded, and there is nothing to fall back to.
pub(crate) fn bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    fill(&mut bytes);
    bytes
}

fn fill(bytes: &mut [u8]) {
    let mut filled = 0;
    while filled < bytes.len() {
        match rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty()) {
            Ok(count) => filled += count,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => panic!("the system gives no random bytes: {error}"),
        }
    }
}

/// Salts for journal entries, drawn from the system a page at a time: one system call for 256 entries.
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
            fill(&mut self.page[..]);
            self.used = 0;
        }
        let mut salt = Salt::default();
        let end = self.used + salt.len();
        salt.copy_from_slice(&self.page[self.used..end]);
        self.used = end;
        salt
    }
}
