//! How much of the world is explored, and why that much.

use onceward_core::event::DispatchMark;

use crate::destination::Kind;

/// What bounds the exploration. Whatever is not counted here may happen to every attempt: its owner may die or be taken for
/// dead, its request may be lost, delayed or turned away, its answer may come at any time or never.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Attempts: the first and its repetitions, each with an owner of its own.
    pub attempts: u32,
    /// Ticks of the clock, from the first claim on.
    pub ticks: u8,
}

/// The bounds of this run; `ONCEWARD_MODEL=large` asks for larger ones.
#[must_use]
pub fn of_this_run(kind: Kind, dispatch: DispatchMark) -> Bounds {
    match std::env::var("ONCEWARD_MODEL").as_deref() {
        Ok("large") => large(kind),
        Ok(_) | Err(_) => in_every_run(kind, dispatch),
    }
}

/// Three attempts leave two uncertain ones while a third runs, which is where sets of them are lost; where none is made while
/// another is uncertain, two are enough. The ticks suffice for a key to be
/// forgotten, and for a lookup to prove that an attempt had no effect and the next one to be lost.
#[must_use]
pub const fn in_every_run(kind: Kind, dispatch: DispatchMark) -> Bounds {
    match (kind, dispatch) {
        (Kind::Key, DispatchMark::WithClaim | DispatchMark::Announced) => Bounds { attempts: 3, ticks: 4 },
        (Kind::Lookup, DispatchMark::WithClaim | DispatchMark::Announced) => Bounds { attempts: 2, ticks: 5 },
        (Kind::Nothing, DispatchMark::WithClaim | DispatchMark::Announced) => Bounds { attempts: 3, ticks: 3 },
    }
}

const fn large(kind: Kind) -> Bounds {
    match kind {
        Kind::Key => Bounds { attempts: 4, ticks: 7 },
        Kind::Lookup => Bounds { attempts: 3, ticks: 7 },
        Kind::Nothing => Bounds { attempts: 4, ticks: 5 },
    }
}
