//! What people install without Rust: each package from its file, in an environment of its own, up to calls that are made once.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use super::http;

/// Where the test command put the packages.
pub(super) fn packages() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    std::env::var_os("ONCEWARD_PACKAGES").map_or_else(|| root.join("target/packages-of-tests"), PathBuf::from)
}

/// The package whose file name begins and ends like this.
fn package(beginning: &str, end: &str) -> PathBuf {
    let found = std::fs::read_dir(packages()).expect("`cargo xtask test` makes the packages").filter_map(|entry| {
        let name = entry.ok()?.file_name().into_string().ok()?;
        (name.starts_with(beginning) && name.ends_with(end) && !name.contains("none-any")).then_some(name)
    });
    let mut found: Vec<String> = found.collect();
    assert_eq!(found.len(), 1, "{beginning}…{end}: {found:?}");
    packages().join(found.remove(0))
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/packages").join(name)
}

fn done(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().expect("it starts");
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {said}");
    said
}

/// A gateway that was started as its package says, in a folder of its own, with the tokens that it printed.
struct Served {
    child: Child,
    url: String,
    operator: String,
    agent: String,
}

impl Served {
    fn start(command: &mut Command) -> Self {
        let mut child = command
            .args(["serve", "--listen", "127.0.0.1:0"])
            .env("ONCEWARD_LOG", "warn")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut said = String::new();
        for line in BufReader::new(child.stdout.take().expect("its output")).lines() {
            said.push_str(&line.expect("text"));
            said.push('\n');
            if said.contains("  operator  ") {
                break;
            }
        }
        let word = |before: &str| {
            let after = said.split_once(before).unwrap_or_else(|| panic!("no {before:?} in {said}")).1;
            after.split_whitespace().next().expect("a word").to_owned()
        };
        let (url, agent, operator) = (word("listens on "), word("  agent     "), word("  operator  "));
        Self { child, url, operator, agent }
    }

    /// A token for an application, which calls and looks up.
    async fn application(&self) -> String {
        let body = json!({ "principal": "app", "role": "application", "tools": ["*"] });
        let request = http().post(format!("{}/v1/credentials", self.url)).bearer_auth(&self.operator).json(&body);
        let made: Value = request.send().await.expect("answered").json().await.expect("JSON");
        made["token"].as_str().unwrap_or_else(|| panic!("{made}")).to_owned()
    }

    /// SIGTERM, as a person's Ctrl-C or a service manager sends it; the launcher passes it on.
    fn stop(mut self) {
        let sent = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status().expect("kill runs");
        assert!(sent.success());
        self.child.wait().expect("gone");
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The whole life of a write with an installed client: called twice, killed between claim and settle, found by its lookup.
async fn a_client_works(served: &Served, folder: &Path, client: impl Fn(&str) -> Command) {
    let token = served.application().await;
    let effects = folder.join("effects");
    let with = |what: &str| {
        let mut command = client(what);
        command.arg(what).arg(&effects).current_dir(folder);
        command.env("ONCEWARD_URL", &served.url).env("ONCEWARD_TOKEN", &token);
        command
    };
    assert!(done(&mut with("calls")).ends_with("well\n"));
    let died = with("dies").stdin(Stdio::null()).output().expect("it starts");
    assert!(!died.status.success(), "it was killed in its own function");
    assert!(done(&mut with("looks")).ends_with("well\n"));
    let unknown_agent = http().get(format!("{}/v1/operations/dies-1", served.url)).bearer_auth(&served.agent);
    let shown: Value = unknown_agent.send().await.expect("answered").json().await.expect("JSON");
    assert_eq!(shown["operation"]["state"], "succeeded", "{shown}");
}

#[tokio::test]
async fn the_wheel_brings_a_gateway_and_a_client_that_make_one_effect() {
    let folder = tempfile::tempdir().expect("a folder");
    let venv = folder.path().join("venv");
    done(Command::new("python3").args(["-m", "venv"]).arg(&venv));
    let wheel = package("onceward-", ".whl");
    done(Command::new(venv.join("bin/pip")).args(["install", "--quiet", "--disable-pip-version-check"]).arg(wheel));
    let work = folder.path().join("work");
    std::fs::create_dir(&work).expect("a folder");
    let binary = venv.join("bin/onceward");
    let version = done(Command::new(&binary).arg("--version"));
    assert_eq!(version.trim(), format!("onceward {}", env!("CARGO_PKG_VERSION")));
    let served = Served::start(Command::new(&binary).current_dir(&work));
    let python = venv.join("bin/python");
    a_client_works(&served, &work, |_| {
        let mut command = Command::new(&python);
        command.arg(script("installed.py"));
        command
    })
    .await;
    served.stop();
}

#[tokio::test]
async fn the_npm_packages_bring_a_gateway_and_a_client_that_make_one_effect() {
    let folder = tempfile::tempdir().expect("a folder");
    let work = folder.path();
    std::fs::write(work.join("package.json"), r#"{ "private": true, "type": "module" }"#).expect("written");
    let files = [package("onceward-0", ".tgz"), package("onceward-linux-x64", ".tgz")];
    done(Command::new("npm").args(["install", "--no-audit", "--no-fund"]).args(files).current_dir(work));
    std::fs::copy(script("installed.mjs"), work.join("installed.mjs")).expect("copied");
    let version = done(Command::new("npx").args(["--no-install", "onceward", "--version"]).current_dir(work));
    assert_eq!(version.trim(), format!("onceward {}", env!("CARGO_PKG_VERSION")));
    let launcher = work.join("node_modules/.bin/onceward");
    let served = Served::start(Command::new(&launcher).current_dir(work));
    a_client_works(&served, work, |_| {
        let mut command = Command::new("node");
        command.arg("installed.mjs");
        command
    })
    .await;
    served.stop();
    std::fs::remove_dir_all(work.join("node_modules/@onceward")).expect("removed");
    let without = Command::new(&launcher).arg("--version").output().expect("it starts");
    let said = String::from_utf8_lossy(&without.stderr).into_owned();
    assert!(!without.status.success() && said.contains("npm install @onceward/linux-x64"), "{said}");
}

/// A Debian of its own, copied for one test; where nobody may change roots, there is none.
fn debian() -> Option<tempfile::TempDir> {
    let Some(root) = std::env::var_os("ONCEWARD_DEBIAN_ROOT") else {
        println!("no Debian to try this in: it needs root, and `cargo xtask test`");
        return None;
    };
    let folder = tempfile::tempdir().expect("a folder");
    done(Command::new("cp").arg("-a").arg(PathBuf::from(root).join(".")).arg(folder.path()));
    Some(folder)
}

fn inside(root: &Path, words: &[&str]) -> Command {
    let mut command = Command::new("chroot");
    command.arg(root).args(words).env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    command
}

#[test]
fn the_debian_package_installs_and_its_gateway_checks_its_configuration() {
    let package = package("onceward_", ".deb");
    let listed = done(Command::new("dpkg-deb").arg("--contents").arg(&package));
    for part in ["./usr/bin/onceward", "./lib/systemd/system/onceward.service", "./etc/onceward/onceward.toml"] {
        assert!(listed.contains(part), "{part} is not in {listed}");
    }
    let Some(root) = debian() else { return };
    let root = root.path();
    std::fs::copy(&package, root.join("onceward.deb")).expect("copied");
    done(&mut inside(root, &["dpkg", "--install", "/onceward.deb"]));
    let version = done(&mut inside(root, &["onceward", "--version"]));
    assert_eq!(version.trim(), format!("onceward {}", env!("CARGO_PKG_VERSION")));
    done(&mut inside(root, &["onceward", "check", "--config", "/etc/onceward/onceward.toml"]));
    let home = done(&mut inside(root, &["stat", "--format", "%U %a", "/var/lib/onceward"]));
    assert_eq!(home.trim(), "onceward 700");
    // As the commented line of the configuration says.
    let token = ["onceward", "token", "create", "--config", "/etc/onceward/onceward.toml", "--tenant", "main"];
    let as_whom = ["--principal", "agent", "--role", "agent", "--json"];
    let words = [&["runuser", "-u", "onceward", "--"], &token[..], &as_whom].concat();
    assert!(done(&mut inside(root, &words)).contains("ow_agent_"));
    done(&mut inside(root, &["dpkg", "--remove", "onceward"]));
    assert!(root.join("var/lib/onceward/onceward.db").exists(), "the ledger outlives its package");
}

/// The steps of the Containerfile, carried out one by one where there is no engine to build it.
#[test]
fn the_steps_of_the_containerfile_make_a_root_in_which_the_gateway_runs_as_nobody_special() {
    let text = std::fs::read_to_string(packages().join("Containerfile")).expect("it is there");
    let Some(root) = debian() else { return };
    let root = root.path();
    let (mut user, mut folder, mut entry, mut command) = (String::new(), String::new(), Vec::new(), Vec::new());
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (step, rest) = line.split_once(' ').expect("a step and its words");
        let words = || serde_json::from_str::<Vec<String>>(rest).expect("a list");
        match step {
            "FROM" => assert_eq!(rest, "debian:12-slim", "the root is a Debian 12"),
            "RUN" => drop(done(&mut inside(root, &["sh", "-c", rest]))),
            "COPY" => {
                let (from, to) = rest.split_once(' ').expect("from and to");
                std::fs::copy(packages().join(from), root.join(to.trim_start_matches('/'))).expect("copied");
            }
            "USER" => user = rest.to_owned(),
            "WORKDIR" => folder = rest.to_owned(),
            "ENTRYPOINT" => entry = words(),
            "CMD" => command = words(),
            "EXPOSE" | "VOLUME" => {}
            other => panic!("a step that nobody here carries out: {other}"),
        }
    }
    std::fs::write(
        root.join("var/lib/onceward/onceward.toml"),
        "version = 1\nledger = \"sqlite:onceward.db\"\ntenant = \"main\"\n",
    )
    .expect("a configuration in the volume");
    let line = format!("cd {folder} && exec {} {} --listen 127.0.0.1:0", entry.join(" "), command.join(" "));
    // Each word takes the place of the one before, so that the process that is killed is the gateway.
    let (as_user, as_group) = (format!("--reuid={user}"), format!("--regid={user}"));
    let mut running = inside(root, &["setpriv", &as_user, &as_group, "--clear-groups", "sh", "-c", &line])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let lines = BufReader::new(running.stdout.take().expect("its output")).lines();
    let listens = lines.map_while(Result::ok).find(|line| line.contains("listens on"));
    running.kill().expect("killed");
    running.wait().expect("gone");
    assert!(listens.is_some(), "it serves");
}
