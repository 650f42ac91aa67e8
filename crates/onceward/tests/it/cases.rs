//! Failures that others have had in public, each as a test that carries its id; docs/cases.md says which test holds which.

mod answered;
mod document;
mod kept;
mod lost;
mod process;
mod raced;
mod repeated;
