//! Checks an export against the logs of the crowd.

use std::collections::{HashMap, HashSet};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::person::{Fate, Hold, Log, Said};

/// Maximum number of findings to print. The rest is counted.
const TOLD: usize = 10;

/// An answer in the export.
#[derive(Debug, Eq, Hash, PartialEq)]
struct Line {
    item: String,
    person: String,
    /// The caption, or the reason for a skip.
    text: String,
    skip: bool,
}

/// Checks an export (JSON lines) against all logs, with `annotators` captions per item. Every
/// answer that was acknowledged and not undone must be there once, under its author's name, and
/// nothing else. No item may have too many answers or holders.
///
/// Returns the number of answers.
pub(crate) fn check(export: &str, logs: &[Log], annotators: usize) -> Result<usize> {
    let mut findings = Vec::new();
    let mut exported: HashMap<Line, usize> = HashMap::new();
    let mut people_of: HashMap<String, Vec<String>> = HashMap::new();
    // Tasks without an answer follow the answers.
    for text in export.lines().filter(|text| !text.contains("\"status\":\"un")) {
        let line = read(text).with_context(|| format!("the export has {text}"))?;
        people_of.entry(line.item.clone()).or_default().push(line.person.clone());
        *exported.entry(line).or_default() += 1;
    }
    let mut numbers = HashSet::new();
    let mut standing = 0;
    for log in logs {
        for sent in &log.sent {
            let (text, skip) = match &sent.said {
                Said::Caption(text) => (text, false),
                Said::Skip(text) => (text, true),
            };
            let line = Line {
                item: sent.item.clone(),
                person: log.name.clone(),
                text: text.clone(),
                skip,
            };
            let times = exported.remove(&line).unwrap_or(0);
            match sent.fate {
                Fate::Stands(number) => {
                    standing += 1;
                    if times != 1 {
                        findings.push(format!("acknowledged, and there {times} times: {line:?}"));
                    }
                    if !numbers.insert(number) {
                        findings.push(format!("two answers have the number {number}: {line:?}"));
                    }
                }
                Fate::Undone | Fate::Refused if times > 0 => {
                    findings.push(format!("{:?}, and there: {line:?}", sent.fate));
                }
                Fate::Undone | Fate::Refused => {}
            }
        }
    }
    findings.extend(exported.keys().map(|line| format!("nobody sent {line:?}")));
    for (item, people) in people_of {
        let distinct: HashSet<&String> = people.iter().collect();
        if people.len() > annotators || distinct.len() < people.len() {
            findings.push(format!("{item} was answered by {people:?}"));
        }
    }
    findings.extend(crowded(logs, annotators));
    let told = findings.iter().take(TOLD).cloned().collect::<Vec<_>>().join("\n");
    ensure!(findings.is_empty(), "{} findings, such as\n{told}", findings.len());
    Ok(standing)
}

fn read(text: &str) -> Result<Line> {
    let line: Value = serde_json::from_str(text)?;
    let word = |name: &str| line[name].as_str().map(str::to_owned);
    let (caption, reason) = (word("caption"), word("skip"));
    Ok(Line {
        item: word("id").context("no id")?,
        person: word("annotator").context("no annotator")?,
        skip: reason.is_some(),
        text: caption.or(reason).context("neither a caption nor a reason")?,
    })
}

/// Returns items that too many people held at once.
fn crowded(logs: &[Log], annotators: usize) -> Vec<String> {
    let mut by_item: HashMap<&str, Vec<(&str, &Hold)>> = HashMap::new();
    for log in logs {
        // A task that comes after the end of its lease, over a server that was killed, was never in hand.
        for hold in log.holds.iter().filter(|hold| hold.from < hold.until) {
            by_item.entry(&hold.item).or_default().push((&log.name, hold));
        }
    }
    let mut findings = Vec::new();
    for (item, holds) in by_item {
        for (person, hold) in &holds {
            // Everyone who held the item when this person got it.
            let at = |other: &Hold| other.from <= hold.from && hold.from < other.until;
            let holders = holds.iter().filter(|(_, other)| at(other)).map(|(name, _)| *name);
            let holders: HashSet<&str> = holders.chain([*person]).collect();
            if holders.len() > annotators {
                let others = holds.iter().filter(|(name, other)| name != person && at(other));
                let shared = others.map(|(_, other)| other.until.min(hold.until) - hold.from);
                let shared = shared.max().unwrap_or(0);
                findings.push(format!(
                    "{item} was in the hands of {holders:?} at once, for {shared} ms"
                ));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::super::person::Sent;
    use super::*;

    fn sent(item: &str, text: &str, fate: Fate) -> Sent {
        Sent { item: item.to_owned(), said: Said::Caption(text.to_owned()), fate }
    }

    fn hold(item: &str, from: u64, until: u64) -> Hold {
        Hold { item: item.to_owned(), from, until }
    }

    fn log(name: &str, sent: Vec<Sent>, holds: Vec<Hold>) -> Log {
        Log { name: name.to_owned(), sent, holds, submits: Vec::new(), retries: 0 }
    }

    fn logs() -> Vec<Log> {
        let skip = Sent {
            item: "c".to_owned(),
            said: Said::Skip("dark".to_owned()),
            fate: Fate::Stands(4),
        };
        let ann = vec![
            sent("a", "one", Fate::Undone),
            sent("a", "two", Fate::Stands(1)),
            sent("b", "late", Fate::Refused),
            skip,
        ];
        let bob = vec![sent("b", "three", Fate::Stands(2))];
        vec![
            log("ann", ann, vec![hold("a", 0, 9), hold("b", 10, 20), hold("c", 30, 31)]),
            log("bob", bob, vec![hold("b", 20, 25)]),
        ]
    }

    const EXPORT: &str = r#"{"id":"a","caption":"two","annotator":"ann"}
{"id":"b","caption":"three","annotator":"bob"}
{"id":"c","skip":"dark","annotator":"ann"}
"#;

    #[test]
    fn what_was_promised_is_found() {
        assert_eq!(check(EXPORT, &logs(), 1).unwrap(), 3);
        let mut logs = logs();
        logs[0].holds.push(hold("b", 22, 15));
        assert_eq!(check(EXPORT, &logs, 1).unwrap(), 3, "its lease ended before it came");
    }

    #[test]
    fn every_kind_of_fault_is_told() {
        let line = |at: usize| EXPORT.lines().nth(at).unwrap().to_owned() + "\n";
        let faults = [
            (EXPORT.replace(&line(0), ""), "there 0 times"),
            (EXPORT.to_owned() + &line(1), "there 2 times"),
            (EXPORT.replace("bob", "ann"), "there 0 times"),
            (EXPORT.replace("three", "four"), "nobody sent"),
            (EXPORT.replace("two", "one"), "Undone, and there"),
            (
                EXPORT.replace("\"b\",\"caption\":\"three\"", "\"b\",\"caption\":\"late\""),
                "there 0",
            ),
            (EXPORT.to_owned() + &line(0).replace("\"ann\"", "\"bob\""), "a was answered by"),
            (EXPORT.replace("\"annotator\":\"bob\"", "\"x\":1"), "no annotator"),
        ];
        for (export, says) in faults {
            let error = format!("{:#}", check(&export, &logs(), 1).unwrap_err());
            assert!(error.contains(says), "no '{says}' in {error}");
        }
        let mut logs = logs();
        logs[1].holds = vec![hold("b", 19, 25)];
        let error = check(EXPORT, &logs, 1).unwrap_err().to_string();
        assert!(error.contains("b was in the hands of"), "{error}");
        assert_eq!(check(EXPORT, &logs, 2).unwrap(), 3, "two people were asked for");
        logs[1].sent[0].fate = Fate::Stands(1);
        assert!(check(EXPORT, &logs, 2).unwrap_err().to_string().contains("the number 1"));
    }
}
