//! `cargo xtask test [--fast]`: installs what the tests need, builds the binaries they start, and runs them all.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;

use crate::{setup, shell};

/// How much is run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// Everything that CI runs.
    Whole,
    /// Without foreign clients, process tests, doc tests and the runs under other features: while one edits.
    Fast,
}

/// Tests that start real processes lie in a module of this name; `.config/nextest.toml` bounds how many run at once.
const PROCESS_TESTS: &str = "test(/(^|::)process::/)";

/// The test runner that is built where none is installed; any version that is there already will do.
const NEXTEST_VERSION: &str = "0.9.143";

/// A second run of one package's tests, under a feature that changes what is compiled into it.
struct FeatureRun {
    package: &'static str,
    feature: &'static str,
}

/// The runs beyond the default features. A package that has not got its feature (any more) is skipped with a line.
const FEATURE_RUNS: &[FeatureRun] = &[
    FeatureRun { package: "onceward-ledger", feature: "failpoints" },
    FeatureRun { package: "onceward-sqlite", feature: "failpoints" },
    FeatureRun { package: "onceward", feature: "failpoints" },
];

/// Builds and runs the tests.
///
/// # Errors
/// The first command that failed; its own output says what was wrong.
pub(crate) fn run(extent: Extent) -> Result<()> {
    install_nextest()?;
    let mut environment = vec![("ONCEWARD_BIN".to_owned(), binary())];
    if extent == Extent::Whole {
        environment.extend(setup::foreign_clients()?);
    }
    for (name, value) in &environment {
        println!("{name}={}", value.display());
    }

    // A test that starts `onceward` must not find the binary of an earlier build.
    shell::run(&mut shell::cargo(["build", "--workspace", "--bins"]))?;

    let mut all = nextest(&environment);
    all.arg("--workspace");
    match extent {
        Extent::Whole => shell::run(&mut all)?,
        Extent::Fast => return shell::run(all.args(["-E", &format!("not {PROCESS_TESTS}")])),
    }
    for feature_run in FEATURE_RUNS {
        run_with_feature(feature_run, &environment)?;
    }
    shell::run(shell::cargo(["test", "--doc", "--workspace"]).envs(environment))
}

/// The `onceward` binary that `cargo build` leaves; tests find it by this path.
fn binary() -> PathBuf {
    shell::target_dir().join("debug").join(format!("onceward{}", std::env::consts::EXE_SUFFIX))
}

fn nextest(environment: &[(String, PathBuf)]) -> Command {
    let mut command = shell::cargo(["nextest", "run"]);
    command.envs(environment.iter().map(|(name, value)| (name, value)));
    if std::env::var("CI").is_ok_and(|value| value == "true") {
        command.args(["--profile", "ci"]);
    }
    command
}

fn run_with_feature(feature_run: &FeatureRun, environment: &[(String, PathBuf)]) -> Result<()> {
    let FeatureRun { package, feature } = feature_run;
    let manifest = fs::read_to_string(shell::root().join("crates").join(package).join("Cargo.toml"))?;
    let declared = manifest.lines().any(|line| line.split('=').next().is_some_and(|name| name.trim() == *feature));
    if !declared {
        println!("{package} has no feature {feature}: nothing to run again");
        return Ok(());
    }
    shell::run(nextest(environment).args(["-p", package, "--features", feature]))
}

fn install_nextest() -> Result<()> {
    if shell::succeeds(&mut shell::cargo(["nextest", "--version"])) {
        return Ok(());
    }
    println!("cargo-nextest is not installed; building it (once per machine, some minutes)");
    // Unoptimised: it builds in half the time, and a test run does not notice.
    shell::run(&mut shell::cargo(["install", "cargo-nextest", "--version", NEXTEST_VERSION, "--locked", "--debug"]))
}
