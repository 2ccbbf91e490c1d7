//! `nextpair quickstart`.

use std::path::Path;

use nextpair_engine::StrategyName;

use crate::world::nextpair;

#[test]
fn quickstart_compares_the_strategies_and_explains_a_pick() {
    let run = nextpair(Path::new("."), "quickstart");
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    for strategy in StrategyName::ALL {
        let line = run.stdout.lines().find(|line| line.starts_with(strategy.as_str()));
        let line = line.unwrap_or_else(|| panic!("no {strategy} in {}", run.stdout));
        assert!(line.contains(" of 500 ") && line.contains(" of 2000 "), "{line}");
    }
    let (_, why) = run.stdout.split_once("\nWhy image ").expect("an explained pick");
    let (_, reasons) = why.split_once("surplus\n").expect("a table of reasons");
    let numbers: Vec<f64> =
        reasons.lines().next().unwrap().split_whitespace().map(|n| n.parse().unwrap()).collect();
    let [_, similarity, threshold, surplus] = numbers[..] else { panic!("{why}") };
    assert!(similarity > threshold && surplus > 0.0, "{why}");
    assert!(why.contains("nextpair select --paired-images"), "{why}");
}
