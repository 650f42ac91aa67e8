//! The MCP conformance suite against a fixture server alone, and against the gateway in front of it.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use super::mcp_peers::{Before, Script, program};

/// Tools that only put content together are called as writes, through the ledger; the rest talk with their client while they work, or
/// are called again with its answers, and read.
const READS: &str = r#"["test_sampling", "test_elicitation*", "test_input_required_*", "test_missing_capability", "test_streaming_*",
    "test_trigger_*", "test_logging_tool", "test_tool_with_logging"]"#;

/// Checks that a server need not pass, and that say so themselves (`INFO`) before the gateway, by scenario and check.
const NOT_APPLICABLE: [(&str, &str); 2] = [
    // The gateway keeps no sessions; whom nothing can be asked gets no id at all.
    ("server-initialize", "server-session-id-visible-ascii"),
    // An answer before which there is nothing to tell is one JSON document, and no stream.
    ("server-sse-multiple-streams", "server-sse-streams-functional"),
];

/// Not counted towards conformance: what becomes of a session that its client ends. There is none.
const UNSCORED: &str = "server-session-lifecycle";

/// Status of each check of each scenario.
type Results = BTreeMap<(String, String), Vec<String>>;

fn run(url: &str, revision: &str, folder: &Path) -> Results {
    let expected =
        Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../tests/conformance/expected-failures-{revision}.yml"));
    let output = program("conformance")
        .args(["server", "--url", url, "--requirements", revision, "--expected-failures"])
        .arg(expected)
        .arg("-o")
        .arg(folder)
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{revision} at {url}: {said}\n{}", String::from_utf8_lossy(&output.stderr));
    let mut results = Results::new();
    for entry in std::fs::read_dir(folder).expect("its results") {
        let path = entry.expect("an entry").path();
        let scenario = scenario_of(&path);
        let checks = std::fs::read_to_string(path.join("checks.json")).expect("its checks");
        let checks: Value = serde_json::from_str(&checks).expect("JSON");
        for check in checks.as_array().expect("a list") {
            let text = |name: &str| check[name].as_str().unwrap_or_default().to_owned();
            results.entry((scenario.clone(), text("id"))).or_default().push(text("status"));
        }
    }
    results
}

/// `server-tools-list-2026-11-29T17-41-22-123Z` is of `tools-list`.
fn scenario_of(folder: &Path) -> String {
    let name = folder.file_name().expect("a name").to_string_lossy().into_owned();
    let name = name.strip_prefix("server-").expect("of a server");
    let end = name.len() - "-2026-11-29T17-41-22-123Z".len();
    name[..end].to_owned()
}

fn passing(results: &Results) -> usize {
    let mut passes: BTreeMap<&str, bool> = BTreeMap::new();
    for ((scenario, _), statuses) in results {
        *passes.entry(scenario).or_insert(true) &= !statuses.iter().any(|status| status == "FAILURE");
    }
    passes.into_values().filter(|passes| *passes).count()
}

#[test]
fn a_gateway_before_a_server_passes_what_the_server_passes_alone_in_both_revisions() {
    let fixture = Script::start("fixture.cjs", &[]);
    let refused = r#"refused_if = { text_contains = ["intentionally returns an error"] }"#;
    let servers = format!(
        "[mcp.fixture]\nurl = \"{}\"\nreads = {READS}\n\n[mcp.fixture.tool.test_error_handling]\n{refused}\n",
        fixture.url
    );
    let before = Before::start(tempfile::tempdir().expect("a folder"), &servers);
    let way = Script::start("with-token.cjs", &[("GATEWAY", &before.gateway.url), ("TOKEN", &before.agent)]);

    for (revision, required) in [("2025-11-25", 30), ("2026-07-28", 37)] {
        let folder = tempfile::tempdir().expect("a folder");
        let alone = run(&fixture.url, revision, &folder.path().join("alone"));
        let through = run(&way.url, revision, &folder.path().join("through"));
        println!("{revision}: {} scenarios pass alone, {} through the gateway", passing(&alone), passing(&through));
        assert!(passing(&alone) >= required, "the fixture has what {revision} requires: {alone:#?}");
        assert!(passing(&through) >= passing(&alone), "{through:#?}");
        for ((scenario, check), statuses) in &alone {
            let key = (scenario.clone(), check.clone());
            let excused = NOT_APPLICABLE.contains(&(scenario, check)) || scenario == UNSCORED;
            if statuses.iter().all(|status| status == "SUCCESS") && !excused {
                let now = through.get(&key).cloned().unwrap_or_default();
                assert!(!now.is_empty() && now.iter().all(|status| status == "SUCCESS"), "{revision} {key:?}: {now:?}");
            }
        }
    }
}
