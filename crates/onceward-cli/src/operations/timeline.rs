//! What is known of an operation and from whom, in the order in which it was learned.

use serde_json::Value;

/// A timeline in lines.
pub(super) fn lines(timeline: &Value) -> String {
    let mut told: Vec<(u64, String)> = Vec::new();
    for (field, line) in [
        ("attempts", attempt as fn(&Value) -> String),
        ("evidence", evidence as fn(&Value) -> String),
        ("decisions", decision as fn(&Value) -> String),
    ] {
        let items = timeline[field].as_array().into_iter().flatten();
        told.extend(items.map(|item| (item["seq"].as_u64().unwrap_or_default(), line(item))));
    }
    told.sort_by_key(|(seq, _)| *seq);
    let mut lines: Vec<String> = told.into_iter().map(|(_, line)| line).collect();
    if timeline["whole"] == false {
        lines.push("There is more than is shown: onceward operations journal".to_owned());
    }
    lines.join("\n")
}

fn text<'a>(item: &'a Value, field: &str) -> &'a str {
    item[field].as_str().unwrap_or_default()
}

fn attempt(item: &Value) -> String {
    let end = match (item["ended_at"].as_str(), verdict(item)) {
        (Some(at), Some(verdict)) => format!("{verdict} at {at}"),
        (_, _) => "its owner did not say how it ended".to_owned(),
    };
    let key = match item["outbound_key"].as_str() {
        Some(key) => format!(", key {key} (generation {})", item["generation"]),
        None => String::new(),
    };
    let again = if item["basis"] == "redrive" { ", the same key again" } else { "" };
    format!(
        "{}  attempt {} claimed by {}{again}, to be sent before {}{key}: {end}",
        text(item, "claimed_at"),
        item["attempt"],
        text(item, "by"),
        text(item, "send_before"),
    )
}

fn evidence(item: &Value) -> String {
    if item["erased"] == true {
        return format!("{}  {} (erased)", text(item, "at"), text(item, "event"));
    }
    let about = match item["about"].as_u64() {
        Some(attempt) => format!(" about attempt {attempt}"),
        None => String::new(),
    };
    format!(
        "{}  {}{about}: {}{}",
        text(item, "at"),
        text(item, "source").replace('_', " "),
        verdict(item).unwrap_or_default(),
        words(item),
    )
}

fn decision(item: &Value) -> String {
    let what = if item["event"].is_null() { verdict(item).unwrap_or_default() } else { text(item, "event").to_owned() };
    format!("{}  {}: {what}{}", text(item, "at"), text(item, "by"), words(item))
}

/// What was learned, in a word or two.
fn verdict(item: &Value) -> Option<String> {
    let verdict = item["verdict"].as_str()?.replace('_', " ");
    let more = ["cause", "why", "effect_id"].into_iter().find_map(|field| match &item[field] {
        Value::String(word) => Some(word.clone()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => None,
    });
    Some(match more {
        Some(more) => format!("{verdict} ({more})"),
        None => verdict,
    })
}

/// The words with it: a person's own, or what was asked and answered.
fn words(item: &Value) -> String {
    match &item["words"] {
        Value::Null => String::new(),
        Value::String(words) => format!("; {words}"),
        other => format!("; {other}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_known_is_told_in_the_order_in_which_it_was_learned() {
        let timeline = json!({
            "whole": true,
            "attempts": [{
                "seq": 2, "attempt": 1, "claimed_at": "T1", "by": "owner:a", "send_before": "T2", "outbound_key": "k-1",
                "generation": 1, "basis": "no_effect_so_far", "verdict": "lost", "cause": "reply_lost", "ended_at": "T3",
            }],
            "decisions": [{ "seq": 5, "at": "T5", "by": "principal:ines", "verdict": "effect", "words": "it is there" }],
            "evidence": [{ "seq": 4, "at": "T4", "source": "late_answer", "about": 1, "verdict": "effect", "effect_id": "T-1" }],
        });
        let told = lines(&timeline);
        let told: Vec<&str> = told.lines().collect();
        assert_eq!(told.len(), 3, "{told:?}");
        assert!(
            told[0].contains("attempt 1") && told[0].contains("k-1") && told[0].contains("lost (reply_lost) at T3")
        );
        assert_eq!(told[1], "T4  late answer about attempt 1: effect (T-1)");
        assert_eq!(told[2], "T5  principal:ines: effect; it is there");
    }
}
