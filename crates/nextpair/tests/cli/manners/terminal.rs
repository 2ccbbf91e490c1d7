//! Control characters in names, captions, keys and paths: they never reach the terminal.

use std::fs;

use serde_json::Value;

use crate::world::{Run, World, json_lines, nextpair_with};

/// Colours the screen, sets a title, goes back to the start of the line, and the same beyond ASCII.
const EVIL: &str = "e\u{1b}[31m\u{1b}]0;t\u{7}\r\u{9b}2J";

fn is_clean(text: &str) -> bool {
    !text.contains(|c: char| c.is_control() && !matches!(c, '\n' | '\t'))
}

/// A file of one tensor with this name.
fn safetensors(name: &str) -> Vec<u8> {
    let header = serde_json::json!({
        name: {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]},
        format!("{name}2"): {"dtype": "F32", "shape": [2, 2], "data_offsets": [16, 32]},
    });
    let header = header.to_string();
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.resize(bytes.len() + 32, 0);
    bytes
}

#[test]
fn control_characters_of_files_are_escaped() {
    let world = World::small();
    let folder = world.path("");
    let json = Value::from(EVIL).to_string();
    world.write("t.safetensors", &safetensors(EVIL));
    world.write("key.toml", format!("{json} = 1\n").as_bytes());
    world.write("value.toml", format!("strategy = {json}\n").as_bytes());
    world.write(
        "t.csv",
        format!("image,caption,\"{EVIL}\"\na.jpg,\"A {EVIL} cat.\",1\n").as_bytes(),
    );
    world.write("t.jsonl", format!("{{\"image\":\"a.jpg\",{json}:1}}\n").as_bytes());
    world.write("bad.csv", format!("image,caption\n../{EVIL},A cat.\n").as_bytes());
    world.write("k.json", format!("{{\"images\":[{{{json}:1}}]}}").as_bytes());
    let dataset = format!("ds{EVIL}");
    let (missing, flag) = (format!("{EVIL}.npy"), format!("--{EVIL}"));
    let mut said = String::new();
    for words in [
        &["import", "embeddings", "t.safetensors", "new"][..],
        &["select", "--config", "key.toml"],
        &["select", "--config", "value.toml", "--budget", "3"],
        &["run", "key.toml"],
        &["import", "table", "t.csv", &dataset],
        &["inspect", &dataset],
        &["inspect", &dataset, "--json"],
        &["vocab", &dataset, "words.json"],
        &["train", &dataset, "--model", EVIL, "--out", "m"],
        &["import", "table", "t.jsonl", "new"],
        &["import", "table", "bad.csv", "new"],
        &["import", "karpathy", "k.json", "new"],
        &["import", "embeddings", &missing, "new"],
        &["convert", &missing, "--vocabulary", "v.json", "--out", "new"],
        &["select", &flag],
        &[EVIL],
    ] {
        let Run { stdout, stderr, .. } = nextpair_with(&folder, words);
        assert!(is_clean(&stdout) && is_clean(&stderr), "{words:?}: {stdout:?} {stderr:?}");
        assert!(!stderr.contains("panicked"), "{words:?}: {stderr}");
        said += &format!("{stdout}{stderr}");
    }
    assert!(said.matches("\\u001b[31m").count() > 8, "{said}");
}

#[test]
fn json_on_standard_output_stays_the_same_json() {
    let world = World::small();
    world.write_lines("ids.txt", (0..40).map(|at| format!("\u{9b}{at}\u{7f}")));
    world.select("--ids ids.txt --out out/file.jsonl");
    let file = fs::read_to_string(world.path("out/file.jsonl")).unwrap();
    let run = world.select("--ids ids.txt --out -");
    assert!(is_clean(&run.stdout), "{:?}", run.stdout);
    assert_eq!(json_lines(&run.stdout), json_lines(&file));
}
