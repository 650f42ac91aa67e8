//! Real MCP servers behind the gateway, by clients that people use. What a client sees is compared, field by field, with what it sees
//! of the server itself.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::ask;
use super::mcp_peers::{Before, program, server, toml_list};

mod killed;
mod reach;
mod same;
mod writes;

/// Where the gateway puts its own words into a result.
const OURS: &str = "dev.onceward/operation";

/// The tool that is the gateway's own.
const STATUS_TOOL: &str = "check_operation_status";

/// The tools of the reference servers that only read; every other one is a write.
const READS: &str = r#"["echo", "get-*", "trigger-*", "read_*", "list_*", "directory_tree", "search_*", "open_nodes", "get_file_info"]"#;

/// The three reference servers over pipes, in one folder of files that they work in.
struct Servers {
    files: String,
    memory: String,
}

impl Servers {
    fn in_folder(folder: &Path) -> Self {
        let files = folder.join("files");
        std::fs::create_dir_all(&files).expect("a folder");
        std::fs::write(files.join("note.txt"), "first\nsecond\n").expect("written");
        let files = files.canonicalize().expect("a path").display().to_string();
        Self { files, memory: folder.join("memory.jsonl").display().to_string() }
    }

    /// Each with the variables that it is started with.
    fn all(&self) -> [(&'static str, Vec<String>, Value); 3] {
        [
            ("everything", server("server-everything", &["stdio"]), json!({})),
            ("files", server("server-filesystem", &[&self.files]), json!({})),
            ("memory", server("server-memory", &[]), json!({ "MEMORY_FILE_PATH": self.memory })),
        ]
    }

    /// Their sections of the gateway's configuration.
    fn sections(&self) -> String {
        let section = |(name, command, variables): &(&str, Vec<String>, Value)| {
            let variables =
                variables.as_object().expect("variables").iter().map(|(name, value)| format!("{name} = {value}"));
            let variables = variables.collect::<Vec<_>>().join(", ");
            format!("[mcp.{name}]\ncommand = {}\nenv = {{ {variables} }}\nreads = {READS}\n\n", toml_list(command))
        };
        self.all().iter().map(section).collect()
    }
}

/// Runs a plan with an official Python client, against a server itself or through the gateway.
fn python(environment: &str, reach: &[(&str, String)], plan: &Value) -> Value {
    use std::io::Write as _;
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let venv = std::env::var_os(format!("ONCEWARD_VENV_{}", environment.to_uppercase()))
        .map_or_else(|| root.join("target/venv").join(environment), std::path::PathBuf::from);
    let mut child = Command::new(venv.join("bin/python"))
        .arg(root.join("tests/python").join(format!("{environment}.py")))
        .env("TOKEN", "")
        .envs(reach.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("`cargo xtask test` makes the environment");
    child.stdin.take().expect("its input").write_all(plan.to_string().as_bytes()).expect("written");
    let output = child.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stdout);
    let last = said.lines().last().unwrap_or_default();
    serde_json::from_str(last)
        .unwrap_or_else(|error| panic!("{environment}: {error}: {last}\n{}", String::from_utf8_lossy(&output.stderr)))
}

/// What the inspector prints for a request.
fn inspector(target: &[String], request: &[&str]) -> Value {
    let output = program("mcp-inspector").arg("--cli").args(target).args(request).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stdout);
    // Some servers greet on the way; the answer is what is JSON.
    let start = said.find('{').unwrap_or_else(|| panic!("{request:?}: {output:?}"));
    serde_json::from_str(&said[start..]).unwrap_or_else(|error| panic!("{error}: {said}"))
}

/// Takes out what the gateway may add, and nothing else: its tool, the handle of a write, its words beside a result.
fn without_ours(seen: &mut Value) {
    if let Some(tools) = seen.get_mut("tools").and_then(Value::as_array_mut) {
        tools.retain(|tool| tool["name"] != STATUS_TOOL);
        for tool in tools {
            let properties = tool.pointer_mut("/inputSchema/properties").and_then(Value::as_object_mut);
            let handle = properties.and_then(|properties| properties.remove("operation_id"));
            assert!(handle.is_none_or(|handle| handle["type"] == "string" && handle["description"].is_string()));
        }
    }
    let Some(result) = seen.as_object_mut() else { return };
    if let Some(meta) = result.get_mut("_meta").and_then(Value::as_object_mut) {
        meta.remove(OURS);
        if meta.is_empty() {
            result.remove("_meta");
        }
    }
}

/// An operator decides.
fn decide(before: &Before, arguments: &[&str]) {
    let decided = ask(before.folder.path(), &before.gateway, &before.operator, arguments);
    assert_eq!(decided.code, 0, "{decided:?}");
}
