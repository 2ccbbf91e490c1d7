//! `-q` and `-v`, before and behind the command.

use super::{lab, run};

#[test]
fn quiet_leaves_results_and_errors() {
    let lab = lab(60);
    let train = "train ds --model vse++ --dim 8 --epochs 2 --rate 2e-3";
    for words in ["-q {} --out a", "{} --out b -q", "{} --quiet --out c"] {
        let done = lab.succeeds(&words.replace("{}", train));
        // A warning that hardly anything was learned may be there; progress is not.
        assert!(done.stderr.lines().all(|line| line.starts_with("warning: ")), "{}", done.stderr);
        assert!(done.stdout.contains("rsum"), "{}", done.stdout);
    }
    lab.succeeds("example world -q");
    let select = "select --paired-images world/paired_images.npy --paired-texts \
                  world/paired_texts.npy --pool world/pool.npy --pool-side image --budget 5";
    let done = lab.succeeds(&format!("{select} --out p.jsonl -q"));
    assert_eq!(done.stderr, "");
    let refused = run(&lab, "-q inspect nope");
    assert_eq!(refused.stderr, "error: nope: not a dataset; make one with `nextpair import`\n");
    // Money: equal embeddings are a warning whatever the volume.
    let done = lab.succeeds(
        "select --paired-images world/paired_images.npy --paired-texts world/paired_texts.npy --pool \
         world/paired_images.npy --pool-side image --budget 5 --out p.jsonl -q",
    );
    assert!(done.stderr.contains("warning "), "{}", done.stderr);
}

#[test]
fn verbose_tells_threads_times_and_memory() {
    let lab = lab(40);
    let done = lab.succeeds("train ds --model vse++ --dim 8 --epochs 1 --out a -v --threads 2");
    for part in ["threads: 2", "device: cpu", "training: ", " s in all, peak memory "] {
        assert!(done.stderr.contains(part), "no '{part}' in {}", done.stderr);
    }
    lab.refused("-q -v inspect ds", "cannot be used with");
}
