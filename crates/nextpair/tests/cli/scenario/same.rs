//! Results do not depend on threads, jobs or the list of strategies.

use super::Lab;

#[test]
fn threads_jobs_and_other_strategies_change_nothing() {
    let lab = Lab::new(80);
    let run = |out: &str, words: &str| {
        lab.succeeds(&format!("run e.toml --seeds 0,1 --out {out} {words}"));
        lab.results(out)
    };
    let four = "--strategies random,hard-negative,coverage+count,core-set";
    let expected = run("one", &format!("{four} --threads 1 --jobs 1"));
    for (out, words) in
        [("two", "--threads 2 --jobs 2"), ("three", "--threads 3 --jobs 1"), ("many", "--jobs 9")]
    {
        run(out, &format!("{four} {words}"));
        lab.assert_same(out, &expected);
    }
    // Other strategies in another order: each one has the same results as before.
    let fewer = run("fewer", "--strategies coverage+count,random --jobs 2");
    assert!(fewer.len() > expected.len() / 2);
    for (name, bytes) in fewer {
        assert!(expected[&name] == bytes, "{name} differs");
    }
    // Another seed has other results.
    assert_ne!(expected["0 null 0"], expected["1 null 0"]);
    assert_ne!(expected["seed-0/random/picks-1.jsonl"], expected["seed-1/random/picks-1.jsonl"]);
}

#[test]
fn a_model_with_attention_does_not_depend_on_them_either() {
    let lab = Lab::new(60);
    let run = |out: &str, words: &str| {
        lab.succeeds(&format!("run e.toml --model scan-t2i --rounds 1 --out {out} {words}"));
        lab.results(out)
    };
    let expected = run("one", "--threads 1 --jobs 1");
    run("two", "--threads 2 --jobs 2");
    lab.assert_same("two", &expected);
    run("three", "--threads 3 --jobs 1");
    lab.assert_same("three", &expected);
}
