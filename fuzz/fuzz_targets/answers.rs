//! Any bytes as answers of people; the first byte says in which form, and about which pool.
//! Whatever comes out can be kept, and is kept once.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nextpair_data::Side;
use nextpair_data::queue::{Answers, Taken, read_answers};

fuzz_target!(|bytes: &[u8]| {
    let Some((kind, content)) = bytes.split_first() else { return };
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let path = folder.path().join(["a.jsonl", "a.csv", "a.json"][usize::from(kind % 3)]);
    std::fs::write(&path, content).expect("room for a small file");
    let pool = if kind & 8 == 0 { Side::Image } else { Side::Text };
    let Ok(answers) = read_answers(&path, pool) else { return };
    let book = folder.path().join("book.jsonl");
    Answers::open(&book).expect("a new book").take(&answers).expect("what was read can be kept");
    let mut book = Answers::open(&book).expect("what was kept can be read");
    let again = book.take(&answers).expect("and be taken again");
    assert_eq!(again, Taken { new: 0, known: answers.len() });
});
