//! Conversion of published checkpoints.

use std::fs;
use std::path::Path;

use crate::world::nextpair;

#[test]
fn a_checkpoint_becomes_a_run_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../models/tests/fixtures");
    let words = ["<pad>", "<start>", "<end>", "<unk>", "dog"];
    let vocabulary = |count: usize| {
        let pairs: Vec<String> = (0..count).map(|id| format!("\"{}\":{id}", words[id])).collect();
        let back: Vec<String> =
            (0..count).map(|id| format!("\"{id}\":\"{}\"", words[id])).collect();
        let (ids, names) = (pairs.join(","), back.join(","));
        format!("{{\"word2idx\":{{{ids}}},\"idx2word\":{{{names}}},\"idx\":{count}}}")
    };
    fs::write(path.join("four.json"), vocabulary(4)).unwrap();
    fs::write(path.join("five.json"), vocabulary(5)).unwrap();
    fs::write(path.join("pairs.csv"), "caption,filepath\na dog,a.png\n").unwrap();
    for (name, architecture) in [
        ("imram.zip", "text-imram"),
        ("imram.legacy", "text-imram"),
        ("scan.zip", "scan-t2i"),
        ("scan.legacy", "scan-t2i"),
        ("scan.python2", "scan-t2i"),
        ("vse.zip", "vse++"),
        ("vse.legacy", "vse++"),
    ] {
        let checkpoint = fixtures.join(format!("{name}.pth.tar")).display().to_string();
        let convert = |vocabulary: &str, out: &str| {
            nextpair(path, &format!("convert {checkpoint} --vocabulary {vocabulary} --out {out}"))
        };
        let run = convert("four.json", name);
        assert_eq!(run.code, Some(0), "{name}: {}", run.stderr);
        assert!(run.stdout.contains("4 words, rsum 412.5 on dev"), "{}", run.stdout);
        let spec = fs::read_to_string(path.join(name).join("model.json")).unwrap();
        assert!(spec.contains(&format!("\"architecture\": \"{architecture}\"")), "{spec}");
        assert!(spec.contains("\"adopted\": true"), "{spec}");
        let again = convert("four.json", name);
        assert_eq!(again.code, Some(2));
        assert!(
            again.stderr.contains("there is a model already; name another"),
            "{}",
            again.stderr
        );
        let other = convert("five.json", "other");
        assert_eq!(other.code, Some(2));
        assert!(other.stderr.contains("5 words in the vocabulary, but 4"), "{}", other.stderr);
    }
    let run = nextpair(path, "convert pairs.csv --vocabulary four.json --out x");
    assert_eq!(run.code, Some(2));
    assert!(run.stderr.contains("is not a checkpoint of PyTorch"), "{}", run.stderr);
}
