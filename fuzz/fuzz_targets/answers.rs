//! Any bytes as answers of people; the first byte says in which form, and about which pool.
//! Whatever comes out can be kept, and is kept once.
#![no_main]

use std::fs;
use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use nextpair_data::Side;
use nextpair_data::dataset::Dataset;
use nextpair_data::queue::{AnswerLog, AppendCounts, read_answers};

const MANIFEST: &str =
    "nextpair_dataset = 1\nname = \"f\"\nsource = \"f\"\nitems = 2\ncaptions = 0\n";

/// What images are looked for in: `a`, and `b` with the image `b.jpg`.
static DATASET: OnceLock<Dataset> = OnceLock::new();

fn dataset() -> Dataset {
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let write = |name: &str, text: &str| {
        fs::write(folder.path().join(name), text).expect("room for a small file");
    };
    write("items.jsonl", "{\"id\":\"a\"}\n{\"id\":\"b\",\"image\":\"b.jpg\"}\n");
    write("dataset.toml", MANIFEST);
    // The items stay mapped when their files are gone.
    Dataset::open(folder.path()).expect("a dataset")
}

fuzz_target!(|bytes: &[u8]| {
    let Some((kind, content)) = bytes.split_first() else { return };
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let path = folder.path().join(["a.jsonl", "a.csv", "a.json"][usize::from(kind % 3)]);
    fs::write(&path, content).expect("room for a small file");
    let pool = if kind & 8 == 0 { Side::Image } else { Side::Text };
    let Ok(answers) = read_answers(&path, pool, DATASET.get_or_init(dataset)) else { return };
    let log = folder.path().join("log.jsonl");
    AnswerLog::open(&log).expect("a new log").append(&answers).expect("what was read can be kept");
    let mut log = AnswerLog::open(&log).expect("what was kept can be read");
    let again = log.append(&answers).expect("and be taken again");
    assert_eq!(again, AppendCounts { new: 0, known: answers.len() });
});
