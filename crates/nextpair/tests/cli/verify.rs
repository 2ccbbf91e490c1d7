//! `nextpair verify` on reference cases that pass, fail, or are unknown.

use std::path::Path;

use safetensors::Dtype;
use serde_json::{Value, json};

use crate::world::files::{Numbers, safetensors_raw};
use crate::world::{World, nextpair};

/// A case under construction: its configuration and its tensors.
struct Case {
    config: Value,
    tensors: Vec<(String, Dtype, Vec<usize>, Vec<u8>)>,
}

impl Case {
    fn new(config: Value) -> Self {
        Case { config, tensors: Vec::new() }
    }

    fn floats(mut self, name: &str, shape: &[usize], values: &[f64]) -> Self {
        let bytes = Numbers::F64.encode(values);
        self.tensors.push((name.into(), Dtype::F64, shape.to_vec(), bytes));
        self
    }

    fn integers(mut self, name: &str, values: &[i64]) -> Self {
        let bytes = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        self.tensors.push((name.into(), Dtype::I64, vec![values.len()], bytes));
        self
    }

    fn write(&self, world: &World, name: &str) {
        world.write(name, &safetensors_raw(&self.tensors, Some(&self.config)));
    }
}

/// Three pairs and two items. Every similarity is a multiple of 1/16. The third anchor's threshold
/// is 4, so the 4 of the first item there is a tie and no hit.
fn selection(second_score: f64) -> Case {
    let sixteenths = |values: &[f64]| values.iter().map(|v| v / 16.0).collect::<Vec<_>>();
    let setting = json!({
        "key": "full_top1_surplus", "condition": "full", "k": 1, "weight": "surplus",
        "percent_hard_negative": 100.0, "b": [1, 2],
    });
    let own = [14.0, 3.0, 2.0, 5.0, 13.0, 4.0, 2.0, 6.0, 11.0];
    Case::new(json!({"family": "selection", "pool": "image", "settings": [setting]}))
        .floats("in.own", &[3, 3], &sixteenths(&own))
        .floats("in.cross", &[2, 3], &sixteenths(&[3.0, 8.0, 4.0, 8.0, 10.0, 2.0]))
        .floats("out.full_top1.xi", &[3], &sixteenths(&[5.0, 6.0, 4.0]))
        .integers("out.full_top1.hits", &[1, 2])
        .floats("out.full_top1_surplus.h", &[2], &sixteenths(&[2.0, second_score]))
        .integers("out.full_top1_surplus.order", &[1, 0])
        .integers("out.full_top1_surplus.selected_b1", &[1])
        .integers("out.full_top1_surplus.selected_b2", &[1, 0])
}

/// Writes a case that this program fails.
pub fn wrong_case(world: &World, name: &str) {
    selection(8.0).write(world, name);
}

const SIMS: [f64; 8] = [0.9, 0.1, 0.8, 0.2, 0.3, 0.7, 0.6, 0.5];

/// Two images with two captions each.
fn eval() -> Case {
    let recall = [50.0, 100.0, 100.0, 1.0, 1.5];
    Case::new(json!({"family": "eval"}))
        .floats("in.sims", &[2, 4], &SIMS)
        .integers("out.i2t_ranks", &[0, 1])
        .integers("out.i2t_top1", &[0, 1])
        .integers("out.t2i_ranks", &[0, 1, 1, 0])
        .integers("out.t2i_top1", &[0, 1, 0, 1])
        .floats("out.i2t", &[5], &recall)
        .floats("out.t2i", &[5], &recall)
        .floats("out.rsum", &[1], &[500.0])
}

/// The same images in folds of one, where every rank is the first.
fn folds() -> Case {
    let direction = [100.0, 100.0, 100.0, 1.0, 1.0];
    let row = [&direction[..], &direction, &[100.0, 100.0, 600.0]].concat();
    Case::new(json!({"family": "eval", "folds": 2, "images_per_fold": 1}))
        .floats("in.sims", &[2, 4], &SIMS)
        .floats("out.per_fold", &[2, 13], &row.repeat(2))
        .floats("out.mean", &[13], &row)
}

/// Items on a line, at distances 5 and 1 from the only centre.
fn core_set() -> Case {
    Case::new(json!({"family": "coreset"}))
        .floats("in.centers", &[1, 1], &[0.0])
        .floats("in.pool", &[3, 1], &[1.0, 5.0, 2.5])
        .integers("out.selected", &[1, 2])
        .floats("out.min_distance_when_selected", &[2], &[5.0, 2.5])
        .floats("out.final_min_distance", &[3], &[1.0, 0.0, 0.0])
}

#[test]
fn right_cases_pass_and_others_are_listed() {
    let world = World::small();
    selection(7.0).write(&world, "ref/selection_cases/a.safetensors");
    core_set().write(&world, "ref/selection_cases/core.safetensors");
    eval().write(&world, "ref/eval/n2.safetensors");
    folds().write(&world, "ref/eval/folds.safetensors");
    Case::new(json!({"family": "imram"}))
        .floats("in.sims", &[1], &[1.0])
        .write(&world, "ref/models/m.safetensors");
    world.write("ref/MANIFEST.json", b"{}");
    let run = world.run("verify ref");
    assert_eq!(run.code, Some(0), "{}{}", run.stdout, run.stderr);
    let lines: Vec<&str> = run.stdout.lines().collect();
    let starts = [
        "unknown  MANIFEST.json: ",
        "ok       eval/folds.safetensors: 39 values, largest error 0",
        "ok       eval/n2.safetensors: 23 values, largest error 0",
        "unknown  models/m.safetensors: ",
        "ok       selection_cases/a.safetensors: ",
        "ok       selection_cases/core.safetensors: ",
        "4 passed, 0 failed",
    ];
    assert_eq!(lines.len(), starts.len(), "{}", run.stdout);
    for (line, start) in lines.iter().zip(starts) {
        assert!(line.starts_with(start), "'{line}' does not start with '{start}'");
    }
    let one = world.run("verify ref/eval/n2.safetensors");
    assert_eq!((one.code, one.stdout.lines().last()), (Some(0), Some("1 passed, 0 failed")));
}

#[test]
fn wrong_cases_fail_with_what_differs() {
    let world = World::small();
    let changed = |mut case: Case, name: &str, shape: &[usize], values: &[f64]| {
        case.tensors.retain(|(known, ..)| known != name);
        case.floats(name, shape, values)
    };
    let without = |mut case: Case, name: &str| {
        case.tensors.retain(|(known, ..)| known != name);
        case
    };
    let reranked = without(eval(), "out.i2t_ranks").integers("out.i2t_ranks", &[0, 2]);
    for (case, expected) in [
        (selection(8.0), "full_top1_surplus: h[1]: 0.4375, expected 0.5"),
        (without(selection(7.0), "out.full_top1.xi"), "no tensor 'out.full_top1.xi'"),
        (changed(selection(7.0), "in.cross", &[3, 2], &[0.0; 6]), "do not fit"),
        (changed(selection(7.0), "in.own", &[3, 3], &[f64::NAN; 9]), "is NaN"),
        (reranked, "i2t ranks[1]: 1, expected 2"),
        (changed(eval(), "out.rsum", &[1], &[499.0]), "rsum[0]: 500, expected 499"),
        (changed(folds(), "out.mean", &[1], &[0.0]), "mean: 13 values, expected 1"),
        (changed(core_set(), "in.pool", &[2, 2], &[1.0; 4]), "dimensions"),
        (changed(core_set(), "in.pool", &[0, 1], &[]), "selected"),
        (Case::new(json!({"family": "selection"})).floats("x", &[1], &[0.0]), "no tensor"),
    ] {
        case.write(&world, "ref/wrong.safetensors");
        eval().write(&world, "ref/right.safetensors");
        let run = world.run("verify ref");
        assert_eq!(run.code, Some(1), "{expected}: {}{}", run.stdout, run.stderr);
        let [right, wrong, last] = run.stdout.lines().collect::<Vec<_>>()[..] else {
            panic!("{}", run.stdout)
        };
        assert!(right.starts_with("ok       right.safetensors"), "{right}");
        assert!(wrong.starts_with("FAILED   wrong.safetensors: "), "{wrong}");
        assert!(wrong.contains(expected), "no '{expected}' in {wrong}");
        assert_eq!(last, "1 passed, 1 failed");
    }
    world.write("ref/wrong.safetensors", b"cut off");
    let run = world.run("verify ref");
    assert_eq!(run.code, Some(1));
    assert!(run.stdout.contains("FAILED   wrong.safetensors: "), "{}", run.stdout);
}

#[test]
fn nothing_to_verify_is_an_error() {
    let world = World::small();
    world.write("ref/notes.txt", b"");
    for (words, expected) in [
        ("verify ref", "ref: no reference case found"),
        ("verify none", "none: no such file or folder"),
        ("verify out", "out: no reference case found"),
    ] {
        let run = world.run(words);
        assert_eq!(run.code, Some(2), "{words}");
        assert!(run.stderr.contains(expected), "{}", run.stderr);
    }
}

#[test]
fn the_kept_reference_cases_pass() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let run = nextpair(&folder, "verify oracle");
    assert_eq!(run.code, Some(0), "{}{}", run.stdout, run.stderr);
    assert!(run.stdout.contains("unknown  README.md: "), "{}", run.stdout);
    assert_eq!(run.stdout.lines().filter(|line| line.starts_with("ok ")).count(), 12);
    assert_eq!(run.stdout.lines().last(), Some("12 passed, 0 failed"));
}

/// A text case with any change fails, and the error names the place.
#[test]
fn wrong_text_cases_fail_with_what_differs() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/oracle/text");
    let (tokenizer, vocabulary) = ("tokenizer_cases.json", "vocab_and_batch_case.json");
    let world = World::small();
    for (name, place, value, expected) in [
        (
            tokenizer,
            "/cases/3/lower",
            json!("x"),
            "caption \"The dogs' owner can't see them.\": lower",
        ),
        (tokenizer, "/cases/0/word_tokenizer_only/1", json!("dog"), "words[1]: \"dogs\", expected"),
        (
            tokenizer,
            "/cases/107/untrained_punkt_then_word_tokenizer",
            json!(["x", "y", "z", "x", "y", "z"]),
            "tokens[0]: ",
        ),
        (tokenizer, "/cases/5/caption", json!(7), "not laid out like a reference case"),
        (vocabulary, "/counts/dog", json!(5), "(\"dog\", 4), expected (\"dog\", 5)"),
        (vocabulary, "/threshold", json!(4), "words: 7 values, expected 8"),
        (vocabulary, "/word2idx/cat", json!(6), "both have id 6"),
        (vocabulary, "/idx2word/7", json!("dog"), "id 7 is 'dog', but in word2idx 'cat'"),
        (vocabulary, "/idx", json!(9), "idx is 9, but there are 8 words"),
        (vocabulary, "/encoded/1/3", json!(0), "encoded[1][3]: 3, expected 0"),
        (vocabulary, "/batch/order/1", json!(1), "order[1]: 0, expected 1"),
        (vocabulary, "/batch/lengths/0", json!(7), "lengths[0]: 8, expected 7"),
        (vocabulary, "/batch/targets/6/7", json!(2), "targets[6]: "),
    ] {
        let text = std::fs::read(folder.join(name)).unwrap();
        let mut case: Value = serde_json::from_slice(&text).unwrap();
        *case.pointer_mut(place).unwrap_or_else(|| panic!("no {place}")) = value;
        world.write(&format!("ref/{name}"), case.to_string().as_bytes());
        let run = world.run(&format!("verify ref/{name}"));
        assert_eq!(run.code, Some(1), "{place}: {}{}", run.stdout, run.stderr);
        assert!(run.stdout.contains(expected), "no '{expected}' in {}", run.stdout);
    }
    world.write("ref/cut.json", br#"{"cases": [{"caption": "a"#);
    let run = world.run("verify ref/cut.json");
    assert_eq!(run.code, Some(1), "{}", run.stdout);
    assert!(run.stdout.contains("FAILED   ref/cut.json: not JSON"), "{}", run.stdout);
}
