//! `cargo xtask test [--fast]`: installs what the tests need, builds the binaries they start, and runs them all.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;
use onceward_cluster::{Cluster, SERVER_VARIABLE};

use crate::{clients, dist, setup, shell};

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

/// Tests run at once, and each has gateways and stores with some connections of their own.
const SERVER_SETTINGS: &str = "max_connections = 500";

/// The test runner that is built where none is installed; any version that is there already will do.
const NEXTEST_VERSION: &str = "0.9.143";

/// Packages whose tests run once more with features that change what is compiled into them.
const WITH_FEATURES: &[&str] = &["onceward-ledger", "onceward-sqlite", "onceward"];

/// Those features, all in one build: each by itself would be one more.
const FEATURES: &str = "onceward-ledger/failpoints,onceward-sqlite/failpoints,onceward/failpoints,onceward/postgres";

/// The tests of the gateway, once more with every ledger in a database of its own: `ONCEWARD_TEST_LEDGER`, read by their bench.
const ON_POSTGRES: (&str, &str) = ("ONCEWARD_TEST_LEDGER", "postgres");

/// What is true of a file only: that a gateway is alone on it, and how it is locked.
const ABOUT_FILES: &str = "test(=process::a_second_gateway_on_the_same_ledger_does_not_start) + \
     test(=process::while_the_ledger_is_held_by_another_writer_nothing_is_sent_and_the_same_call_goes_on_later) + \
     test(=process::while_the_ledger_is_held_an_observed_call_is_sent_without_a_record)";

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
    // One server for all tests, each with a database of its own. It ends with this function.
    let server = Cluster::start(SERVER_SETTINGS)?;
    environment.push((SERVER_VARIABLE.to_owned(), server.url().into()));
    for (name, value) in &environment {
        println!("{name}={}", value.display());
    }

    // A test that starts `onceward` must not find the binary of an earlier build.
    shell::run(&mut shell::cargo(["build", "--workspace", "--bins"]))?;
    if extent == Extent::Whole {
        environment.push(("ONCEWARD_PACKAGES".to_owned(), packages()?));
        environment.extend(setup::debian_root()?.map(|root| ("ONCEWARD_DEBIAN_ROOT".to_owned(), root)));
    }

    let mut all = nextest(&environment);
    all.arg("--workspace");
    match extent {
        Extent::Whole => shell::run(&mut all)?,
        Extent::Fast => return shell::run(all.args(["-E", &format!("not {PROCESS_TESTS}")])),
    }
    clients::run(&environment)?;
    // Before the features change what everything is linked with: of the build that is there.
    let on_postgres = format!("package(onceward-gateway) and not ({ABOUT_FILES})");
    let (name, value) = ON_POSTGRES;
    shell::run(nextest(&environment).env(name, value).args(["--workspace", "-E", &on_postgres]))?;
    let packages = WITH_FEATURES.iter().flat_map(|package| ["-p", *package]);
    shell::run(nextest(&environment).args(packages).args(["--features", FEATURES]))?;
    shell::run(shell::cargo(["test", "--doc", "--workspace"]).envs(environment))
}

/// The packages that tests install, of the binary that was just built; unless somebody names those that are to be tried.
fn packages() -> Result<PathBuf> {
    match std::env::var_os("ONCEWARD_PACKAGES") {
        Some(packages) => Ok(packages.into()),
        None => dist::run(&dist::Options {
            binary: Some(binary()),
            output: Some(shell::target_dir().join("packages-of-tests")),
        }),
    }
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

fn install_nextest() -> Result<()> {
    if shell::succeeds(&mut shell::cargo(["nextest", "--version"])) {
        return Ok(());
    }
    println!("cargo-nextest is not installed; building it (once per machine, some minutes)");
    // Unoptimised: it builds in half the time, and a test run does not notice.
    shell::run(&mut shell::cargo(["install", "cargo-nextest", "--version", NEXTEST_VERSION, "--locked", "--debug"]))
}
