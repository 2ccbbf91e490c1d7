//! Tests that picks of every form are read back, and that what is wrong is named with its place.

use std::fs;

use super::*;
use crate::dataset::sample::{dataset, item};
use crate::queue::same_picks;

fn task(rank: usize, id: &str, why: Vec<Why>) -> Task {
    let (index, score) = (Some(10 + rank as u32), 0.1 + 0.2);
    Task { rank, index, id: id.into(), score, hits: Some(2), why, ..Task::default() }
}

fn why(anchor: u32, anchor_id: &str) -> Why {
    Why {
        anchor: Some(anchor),
        anchor_id: Some(anchor_id.into()),
        similarity: 1.0 / 3.0,
        threshold: -0.25,
        surplus: 1e-9,
        own: Some(0.75),
        ..Why::default()
    }
}

/// Picks with everything that a form must keep, and with nothing.
fn samples() -> Vec<Task> {
    let pair = Why { id: Some("b".into()), caption: Some("=\"B\", ü\n".into()), ..why(1, "b#0") };
    let facts = [("points".to_owned(), 2.5)].into();
    let near = vec![nearest(4, "=b#1", Some(("b", "\"B\", ü"))), learner(7, "@x")];
    vec![
        Task { facts, ..task(1, "=1+1", vec![pair, why(2, "2")]) },
        Task { near, ..task(4, "d", Vec::new()) },
        Task { near: vec![nearest(5, "5", None)], hits: None, ..task(2, "x,\"y\" ü", Vec::new()) },
        Task { index: None, ..task(3, "'@", vec![Why { own: None, anchor: None, ..why(3, "c") }]) },
    ]
}

fn nearest(pair: u32, pair_id: &str, known: Option<(&str, &str)>) -> Near {
    let (id, caption) = known.map(|(id, caption)| (id.to_owned(), caption.to_owned())).unzip();
    Near::Paired { pair, pair_id: pair_id.into(), id, caption, cosine: 1.0 / 3.0 }
}

fn learner(index: u32, id: &str) -> Near {
    Near::Pool { index, id: id.into(), share: 0.1 + 0.2 }
}

fn written(path: &Path, picks: &[Task]) -> Vec<Task> {
    let mut bytes = Vec::new();
    PicksFormat::of(path).unwrap().write(&mut bytes, picks).unwrap();
    fs::write(path, bytes).unwrap();
    PicksFile::read(path).unwrap().tasks().cloned().collect()
}

#[test]
fn every_form_comes_back_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["picks.jsonl", "picks.csv", "picks.parquet"] {
        let path = folder.path().join(name);
        assert_eq!(written(&path, &samples()), samples(), "{name}");
        assert_eq!(written(&path, &samples()[1..]), samples()[1..], "{name}, without facts");
        assert_eq!(written(&path, &samples()[..1]), samples()[..1], "{name}, with nothing near");
    }
}

#[test]
fn neighbours_are_fields_of_a_line() {
    let mut line = Vec::new();
    let near = vec![nearest(4, "b#1", None), learner(7, "a")];
    PicksFormat::Jsonl.write(&mut line, &[Task { near, ..task(1, "x", Vec::new()) }]).unwrap();
    let expected = r#","near":[{"pair":4,"pair_id":"b#1","cosine":0.3333333333333333},{"index":7,"id":"a","share":0.30000000000000004}]}"#;
    let line = String::from_utf8(line).unwrap();
    assert!(line.trim_end().ends_with(expected), "{line}");
}

#[test]
fn csv_holds_no_formulas() {
    for (id, cell) in [
        ("=1+1", "'=1+1"),
        ("+1", "'+1"),
        ("-1", "'-1"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("=HYPERLINK(\"x\",1)", "\"'=HYPERLINK(\"\"x\"\",1)\""),
        ("'=1", "''=1"),
        ("\t=1", "'\t=1"),
        ("cat=1.jpg", "cat=1.jpg"),
        ("'tis", "'tis"),
        ("x,y", "\"x,y\""),
    ] {
        let mut out = Vec::new();
        PicksFormat::Csv.write(&mut out, &[task(1, id, vec![why(3, "a")])]).unwrap();
        let text = String::from_utf8(out).unwrap();
        let row = format!("\n1,11,{cell},0.30000000000000004,2,\"[{{\"\"anchor\"\":3,");
        assert!(text.contains(&row), "{text}");
    }
}

/// A spreadsheet changes separators and order; a person needs ids only.
#[test]
fn tables_of_people_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("first.csv");
    let read = |text: &str| -> Vec<Task> {
        fs::write(&path, text).unwrap();
        PicksFile::read(&path).unwrap().tasks().cloned().collect()
    };
    let ids = read("id\na.jpg\n\nb.jpg\n");
    let expected = |rank, id: &str| Task { rank, id: id.into(), ..Task::default() };
    assert_eq!(ids, [expected(1, "a.jpg"), expected(2, "b.jpg")]);
    let table = read("\u{feff}note;ID;Rank;score\nmine;'=a;7;0.5\n");
    assert_eq!(table, [Task { score: 0.5, ..expected(7, "=a") }]);
}

#[test]
fn what_is_wrong_is_named_with_its_row() {
    let folder = tempfile::tempdir().unwrap();
    for (name, text, expected) in [
        ("p.csv", "", "p.csv"),
        ("p.csv", "rank,score\n1,2\n", ":1: no column id; there are rank, score"),
        ("p.csv", "id,id\na,b\n", ":1: two columns are called id"),
        ("p.csv", "id,score\na,1\nb,many\n", ":3: score is \"many\", not a number"),
        ("p.csv", "id,why\na,\"[\n]\"\nb,[{]\n", ":4: why is \"[{]\", not JSON"),
        ("p.csv", "id,why\na,\"[{\"\"x\"\":1}]\"\n", ":2: not a pick: unknown field `x`"),
        ("p.csv", "id,rank\na,-1\n", ":2: not a pick: invalid value"),
        ("p.csv", "id,facts\na,{\n", ":2: facts is \"{\", not JSON"),
        ("p.csv", "id,near\na,[{}]\n", ":2: not a pick: data did not match any variant"),
        ("p.csv", "id,rank\na,1\n,2\n", ":3: not a pick: missing field `id`"),
        ("p.csv", "id\na\na\n", ":3: \"a\" is pick 1 already"),
        ("p.csv", "id,rank\na\n", ":2: 1 columns, but the first line has 2"),
        ("p.csv", "id\n", "there are no picks in it"),
        ("p.jsonl", "", "there are no picks in it"),
        ("p.jsonl", "{\"rank\":1,\"id\":\"a\",\"score\":1}\n{}\n", ":2: not a pick: missing field"),
        ("p.parquet", "PAR1 and no more PAR1", "p.parquet: "),
        ("p.npy", "", "picks are read from .jsonl, .csv and .parquet"),
    ] {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        let what = PicksFile::read(&path).unwrap_err().to_string();
        assert!(what.contains(expected), "{text:?}: {what}");
    }
    let path = folder.path().join("twice.parquet");
    let mut bytes = Vec::new();
    let picks = [task(1, "a", Vec::new()), task(2, "a", Vec::new())];
    PicksFormat::Parquet.write(&mut bytes, &picks).unwrap();
    fs::write(&path, &bytes).unwrap();
    let what = PicksFile::read(&path).unwrap_err().to_string();
    assert!(what.ends_with("twice.parquet: row 2: \"a\" is pick 1 already"), "{what}");
    // Damage is an error, and never a panic or a wait.
    for at in (0..bytes.len()).step_by(7) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0xff;
        fs::write(&path, damaged).unwrap();
        let _ = PicksFile::read(&path);
    }
}

#[test]
fn reasons_get_the_captions_that_they_name() {
    let folder = tempfile::tempdir().unwrap();
    let items = [
        item("a", Some("a.jpg"), &[]),
        item("b", Some("b.jpg"), &["one", "two"]),
        item("7", Some("c.jpg"), &["seven"]),
        item("b#1", Some("d.jpg"), &[]),
    ];
    let data = dataset(&folder.path().join("d"), &items, |_| {});
    let path = folder.path().join("picks.jsonl");
    let anchors = [(1, "b"), (2, "b#0"), (3, "7"), (7, "7"), (4, "b#9"), (5, "z#0"), (6, "b#x")];
    let known = Why { id: Some("gone".into()), caption: Some("kept".into()), ..why(9, "b") };
    let reasons = anchors.map(|(anchor, id)| why(anchor, id)).into_iter().chain([known]);
    let near = vec![nearest(1, "b#0", None), nearest(7, "7", None), learner(3, "7")];
    let picks = [
        Task { near, ..task(1, "a", reasons.collect()) },
        task(2, "b", vec![why(1, "a"), why(2, "b#1")]),
    ];
    written(&path, &picks);
    let about = |pool| PicksFile::read(&path).unwrap().about(&data, pool);
    let tasks = about(Side::Image).unwrap();
    assert!(same_picks(&tasks, &picks));
    let pairs = |task: &Task| -> Vec<String> {
        let pairs = task.why.iter().filter_map(Why::pair);
        pairs.map(|(id, caption)| format!("{id} {caption}")).collect()
    };
    assert_eq!(pairs(&tasks[0]), ["b one", "b one", "7 seven", "gone kept"]);
    assert!(pairs(&tasks[1]).is_empty(), "they have no caption");
    assert_eq!(tasks[0].why.len(), 8, "reasons stay, known or not");
    let near = [nearest(1, "b#0", Some(("b", "one"))), nearest(7, "7", None), learner(3, "7")];
    assert_eq!(tasks[0].near, near, "a number is not an id");
    let what = about(Side::Text).unwrap_err().to_string();
    assert!(what.contains(":1: the item \"a\" has no text to show; --pool-side is text"), "{what}");
    written(&path, &[task(1, "a", Vec::new()), task(2, "z", Vec::new())]);
    let what = about(Side::Image).unwrap_err().to_string();
    assert!(what.contains("picks.jsonl:2: ") && what.contains("has no item \"z\""), "{what}");
}

#[test]
fn rows_are_no_ids() {
    let folder = tempfile::tempdir().unwrap();
    // Even where some item has the number of a row for its id.
    let items = [item("11", None, &["x"]), item("12", None, &["y"]), item("c", None, &["z"])];
    let data = dataset(&folder.path().join("d"), &items, |_| {});
    let path = folder.path().join("picks.csv");
    let near = vec![learner(12, "12")];
    let picks = [Task { near, ..task(1, "11", vec![why(0, "0")]) }, task(2, "12", Vec::new())];
    written(&path, &picks);
    let what = PicksFile::read(&path).unwrap().about(&data, Side::Image).unwrap_err().to_string();
    assert!(what.contains("picks.csv: the picks have no ids, only the numbers of rows"), "{what}");

    let mut ids: Vec<String> = (0..13).map(|row| format!("row {row}")).collect();
    let named = |ids: &[String]| PicksFile::read(&path).unwrap().with_ids(ids);
    (ids[11], ids[12]) = ("c".into(), "11".into());
    let tasks = named(&ids).unwrap().about(&data, Side::Image).unwrap();
    assert_eq!(tasks.iter().map(|task| task.id.as_str()).collect::<Vec<_>>(), ["c", "11"]);
    assert_eq!(tasks[0].near, [learner(12, "11")]);
    let what = named(&ids[..12]).unwrap_err().to_string();
    assert!(what.contains("picks.csv:3: there are 12 ids, but none for row 12"), "{what}");
    written(&path, &[task(1, "c", Vec::new()), task(2, "x", Vec::new())]);
    let what = named(&ids).unwrap_err().to_string();
    assert!(what.contains("picks.csv:3: the pick is \"x\", but --ids calls it \"11\""), "{what}");
    written(&path, &[Task { index: None, ..task(1, "c", Vec::new()) }]);
    let what = named(&ids).unwrap_err().to_string();
    assert!(what.contains("picks.csv:2: it has no index to find an id by"), "{what}");
}
