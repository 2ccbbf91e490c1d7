//! The annotation app in a real browser, beside a run that waits for answers, and the flags it
//! refuses.

pub(crate) mod app;
mod attacks;
mod brought;
mod closed_early;
pub(crate) mod driver;
mod encoded;
pub(crate) mod images;
mod links;
mod near;
mod teams;
mod texts;

use crate::world::{World, nextpair};

#[test]
fn what_cannot_be_served() {
    let world = World::small();
    world.select("");
    std::fs::rename(world.path("out/picks.jsonl"), world.path("picks.jsonl")).unwrap();
    let run = nextpair(&world.path(""), "import scenes ds --images 80");
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    world.write("queue.jsonl", b"{\"rank\":1,\"id\":\"scene-000001\",\"score\":1.0}\n");
    world.write_lines("ids.txt", (0..40).map(|row| format!("nobody {row}")));
    world.write_lines("few.txt", ["nobody"]);
    world.write("odd.csv", b"id,caption\nnobody,A dog .\n");
    world.write("skip.csv", b"id,caption,skip\nscene-000002,,dark\n");
    for (words, expected) in [
        ("annotate nothing", "nothing: No such file"),
        ("annotate ds", "ds: not an experiment: there is no experiment.json in it"),
        ("annotate ds --dataset ds", "--dataset is for picks"),
        ("annotate ds --pool-side text", "--pool-side is for picks"),
        ("annotate picks.jsonl", "--dataset is missing; picks are about the items of one"),
        ("annotate picks.jsonl --dataset out", "out: not a dataset"),
        (
            "annotate picks.jsonl --dataset ds",
            "picks.jsonl: the picks have no ids, only the numbers",
        ),
        (
            "annotate picks.jsonl --dataset ds --ids ids.txt",
            "picks.jsonl:1: ds has no item \"nobody ",
        ),
        ("annotate picks.jsonl --dataset ds --ids few.txt", "there are 1 ids, but none for row"),
        ("annotate odd.csv --dataset ds", "odd.csv:2: ds has no item \"nobody\""),
        (
            "annotate skip.csv --dataset ds --pool-side text --ids ids.txt",
            "skip.csv:2: it has no index",
        ),
        (
            "annotate pool.npy --dataset ds",
            "pool.npy: picks are read from .jsonl, .csv and .parquet",
        ),
        ("annotate queue.jsonl --dataset ds --captions 0", "0 captions for an item"),
        ("annotate queue.jsonl --dataset ds --annotators 0", "0 annotators for an item"),
        ("annotate queue.jsonl --dataset ds --lease 0", "kept for at least 1s"),
        ("annotate queue.jsonl --dataset ds --lease 1e300", ": not a time"),
        ("annotate queue.jsonl --dataset ds --price nan", "the price NaN is not a price"),
        (
            "annotate queue.jsonl --dataset ds --suggestions odd.csv",
            "odd.csv: none of its 1 captions",
        ),
        (
            "annotate queue.jsonl --dataset ds --pool-side text --suggestions odd.csv",
            "--suggestions are captions; texts get images",
        ),
        ("annotate queue.jsonl --dataset ds --review 1.5", "the share 1.5 of answers to review"),
        (
            "annotate queue.jsonl --dataset ds --gold odd.csv",
            "odd.csv:2: ds has no item \"nobody\"",
        ),
        (
            "annotate queue.jsonl --dataset ds --gold skip.csv",
            "skip.csv:2: \"scene-000002\" has no",
        ),
        ("annotate queue.jsonl --dataset ds --gold-share 2", "the share 2 of gold"),
        ("annotate queue.jsonl --dataset ds --grace 5 --manual-close", "cannot be used with"),
    ] {
        world.refused(words, &[expected]);
    }
}
