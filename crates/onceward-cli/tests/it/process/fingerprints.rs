//! The clients and the core make the same fingerprints: over the published vectors in each client's own suite, and here over arguments
//! that are made up, well formed and not.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use onceward_core::canonical::parse;
use onceward_core::fingerprint::{Comparison, FingerprintKeyId, FingerprintKeys};
use serde_json::json;

/// How many arguments are made up.
const CALLS: usize = 10_000;

/// The seed; a failure names the line, which is the same in every run.
const SEED: u64 = 0x6f6e_6365_7761_7264;

/// Numbers that look like chance and are not (SplitMix64).
struct Chance(u64);

impl Chance {
    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.bits() % bound
    }

    fn one_of<'t>(&mut self, texts: &[&'t str]) -> &'t str {
        texts[usize::try_from(self.below(texts.len() as u64)).expect("small")]
    }
}

/// A document with everything that two readers could spell or sort differently.
fn document(chance: &mut Chance) -> String {
    let mut text = String::new();
    object(chance, &mut text, 0);
    text
}

fn object(chance: &mut Chance, text: &mut String, depth: u64) {
    text.push('{');
    for n in 0..chance.below(5) {
        if n > 0 {
            text.push(',');
        }
        space(chance, text);
        string(chance, text);
        text.push(':');
        value(chance, text, depth + 1);
    }
    space(chance, text);
    text.push('}');
}

fn value(chance: &mut Chance, text: &mut String, depth: u64) {
    space(chance, text);
    match chance.below(if depth > 4 { 8 } else { 10 }) {
        0 => text.push_str(chance.one_of(&["null", "true", "false"])),
        1..=4 => number(chance, text),
        5..=7 => string(chance, text),
        8 => object(chance, text, depth),
        _ => {
            text.push('[');
            for n in 0..chance.below(4) {
                if n > 0 {
                    text.push(',');
                }
                value(chance, text, depth + 1);
            }
            text.push(']');
        }
    }
    space(chance, text);
}

/// Any double that arguments may hold, in one of its spellings; now and then one that they may not.
fn number(chance: &mut Chance, text: &mut String) {
    let _ = match chance.below(8) {
        0 => write!(
            text,
            "{}",
            chance.one_of(&[
                "0",
                "-0",
                "0.0",
                "-0.0e5",
                "1e2",
                "100.00",
                "1E-7",
                "0.000001",
                "9007199254740991",
                "1e20"
            ])
        ),
        1 => write!(text, "{}", i64::try_from(chance.below(1 << 53)).expect("small")),
        2 => write!(text, "-{}.{:03}", chance.below(1_000_000), chance.below(1_000)),
        3 => write!(text, "{}e-{}", chance.below(1 << 53), chance.below(330)),
        _ => {
            let any = f64::from_bits(chance.bits());
            let fits = any.is_finite() && any.abs() <= 9_007_199_254_740_991.0;
            if fits { write!(text, "{any:e}") } else { write!(text, "{}", any.abs().fract()) }
        }
    };
}

fn string(chance: &mut Chance, text: &mut String) {
    text.push('"');
    for _ in 0..chance.below(6) {
        match chance.below(12) {
            0 => text.push_str(chance.one_of(&["\\n", "\\u0000", "\\/", "\\\\", "\\\"", "\\u001f", "\\b", "\\f"])),
            1 => text.push_str(chance.one_of(&["\\ud83d\\ude00", "\\u20ac", "\\u00e9", "\\uFB33", "\\u0061"])),
            // Sorted by code points these two stand the other way round.
            2 => text.push_str(chance.one_of(&["\u{1f600}", "\u{fb33}", "\u{ffff}", "\u{10ffff}"])),
            3 => text.push_str(chance.one_of(&["é", "e\u{301}", "\u{2028}", "\u{7f}", "ß", "ı"])),
            4 if chance.below(200) == 0 => text.push_str("\\ud800"),
            _ => text.push(char::from(b'a' + u8::try_from(chance.below(26)).expect("small"))),
        }
    }
    text.push('"');
}

fn space(chance: &mut Chance, text: &mut String) {
    text.push_str(chance.one_of(&["", "", "", " ", "\t", "\r\n"]));
}

#[test]
fn two_clients_and_the_core_make_byte_equal_fingerprints_of_ten_thousand_arguments() {
    let mut chance = Chance(SEED);
    let keys = FingerprintKeys::unkeyed();
    let (mut lines, mut expected, mut refused) = (String::new(), Vec::new(), 0);
    for n in 0..CALLS {
        let (tool, version) = (format!("tool.{}", n % 7), chance.one_of(&["1", "v2", "2026-11-29"]));
        let arguments = document(&mut chance);
        expected.push(match parse(arguments.as_bytes()) {
            Ok(arguments) => {
                let made = keys.fingerprint(FingerprintKeyId(0), &tool, version, &arguments, &Comparison::default());
                made.expect("a plain hash").to_string()
            }
            Err(refusal) => {
                refused += 1;
                refusal.problem.code().to_owned()
            }
        });
        let _ = writeln!(lines, "{}", json!({ "tool": tool, "version": version, "arguments": arguments }));
    }
    println!("{CALLS} arguments, of which {refused} are refused");
    assert!((1..CALLS / 10).contains(&refused), "most are well formed, and some are not: {refused}");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    // The file alone, as it may be taken: the package around it would need httpx.
    let mut python = Command::new("python3");
    python
        .arg(root.join("tests/fingerprints/fingerprints.py"))
        .arg(root.join("clients/python/src/onceward/fingerprint.py"));
    let mut node = Command::new("node");
    node.arg(root.join("tests/fingerprints/fingerprints.mjs"));
    for (client, command) in [("python", python), ("node", node)] {
        let said = answered(command, &lines);
        assert_eq!(said.len(), CALLS, "{client}");
        for (n, (said, expected)) in said.iter().zip(&expected).enumerate() {
            assert_eq!(said, expected, "{client}, line {n}: {}", lines.lines().nth(n).expect("a line"));
        }
    }
}

fn answered(mut command: Command, lines: &str) -> Vec<String> {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
    let mut input = child.stdin.take().expect("its input");
    let lines = lines.to_owned();
    let writing = std::thread::spawn(move || input.write_all(lines.as_bytes()).expect("written"));
    let output = child.wait_with_output().expect("it ends");
    writing.join().expect("written");
    assert!(output.status.success());
    String::from_utf8(output.stdout).expect("text").lines().map(ToOwned::to_owned).collect()
}
