//! The machine of the rules under a model checker, and what a checker finds in hand-made mutants of it.
//!
//! The model is the world around one operation: owners that crash, are taken for dead or give up; a network that delays and
//! loses requests and holds answers back for as long as it likes; a destination that executes; a reconciler; a person. Every
//! move of the operation is [`Operation::step`](onceward_core::operation::Operation::step), every answer to a call is
//! [`decide`](onceward_core::decide::decide), every redrive and every lookup is judged by
//! [`evidence`](onceward_core::evidence): the model has no rules of its own. It has clocks, messages and effects, and counts
//! them.
//!
//! Where to start reading: [`world`] is what there is, [`model`] what can happen (the actors' part of it in `act`),
//! [`property`] what must hold, [`mutant`] which mistakes are planted.

mod act;
pub mod bounds;
pub mod destination;
pub mod grant;
pub mod ledger;
pub mod model;
pub mod mutant;
pub mod property;
pub mod world;
