//! Evidence of made-up experiments.

use super::*;
use crate::fixture::Fixture;

#[test]
fn means_sums_and_differences_are_those_of_a_hand() {
    let fixture = Fixture::default().two_arms();
    let analysis = Analysis::of(&[fixture.study()], false, None).unwrap();
    let [evidence] = &analysis.runs[..] else { panic!() };
    assert_eq!(evidence.baseline.to_string(), "random");
    let [random, hard] = &evidence.arms[..] else { panic!() };
    // Text R@1 of random: seed 0 10, 12, 14; seed 1 12, 14, 16. Image is 2 lower.
    let text: Vec<f64> = random.r1().iter().map(|recalls| recalls.text.mean).collect();
    assert_eq!(text, [11.0, 13.0, 15.0]);
    assert_eq!(random.r1()[2].both.mean, 28.0);
    // Seed 0: 2 * 36 - 6 = 66; seed 1: 2 * 42 - 6 = 78.
    assert_eq!(random.recall[0].sum.unwrap().mean, 72.0);
    assert!(random.difference.is_none() && random.saved_captions().is_none());
    // Hard-negative gains 3 or 4 per round, random gains 2.
    let difference = hard.difference.as_ref().unwrap();
    assert_eq!((difference.seeds, difference.rounds[0].both.mean), (2, 0.0));
    assert_eq!(difference.rounds[2].text.mean, 3.0);
    assert_eq!(difference.rounds[2].both.mean, 6.0);
    // (2 + 4) * (1 + 2) / 2 = 9 more over all rounds.
    assert_eq!(difference.sum.mean, 9.0);
    // R@5 and R@10 of these rounds are R@1 plus a constant.
    assert_eq!((difference.r5_sum, difference.r10_sum), (difference.sum, difference.sum));
    // Two seeds are too few for an interval.
    assert_eq!(difference.rounds[2].text.interval(), None);
    let four = Fixture::default().two_arms().seeds(&[0, 1, 2, 3]).study();
    let analysis = Analysis::of(&[four], false, None).unwrap();
    let difference = analysis.runs[0].arms[1].difference.as_ref().unwrap();
    // Differences 2, 4, 2, 4: sd 2 / sqrt(3), and one comparison has Student's interval.
    let half = crate::statistics::student_t_quantile(0.975, 3.0) / 3f64.sqrt();
    assert!((difference.rounds[2].text.high.unwrap() - 3.0 - half).abs() < 1e-9);
    assert_eq!((difference.by_sum.sign_flip, difference.by_sum.new_images), (None, None));
}

#[test]
fn random_arms_are_one_baseline_and_each_others_control() {
    let names = ["random", "hard-negative", "random-2", "random-3"];
    let fixture = Fixture::default().arms(&names).seeds(&[0, 1, 2, 3]);
    let analysis = Analysis::of(&[fixture.study()], false, None).unwrap();
    let run = &analysis.runs[0];
    assert_eq!(run.baseline.to_string(), "random (mean of 3)");
    let sum = |arm: usize| run.arms[arm].recall[0].sum.unwrap().mean;
    let less = |arm: usize| run.arms[arm].difference.as_ref().unwrap();
    let mean = (sum(0) + sum(2) + sum(3)) / 3.0;
    assert!((less(1).sum.mean - (sum(1) - mean)).abs() < 1e-9);
    assert!((less(2).sum.mean - (sum(2) - (sum(0) + sum(3)) / 2.0)).abs() < 1e-9);
    let controls: Vec<bool> = (0..4).map(|arm| less(arm).null_control).collect();
    assert_eq!(controls, [true, false, true, true]);
    let table = run.table();
    assert!(table.contains("random-2, null control |"), "{table}");
    assert!(table.contains("vs random (mean of 3)"), "{table}");
    assert_eq!(less(1).log_rank.len(), 4);
    let last = less(1).log_rank[3].both.mean / 2.0;
    assert!((less(1).last_log_rank.mean - last).abs() < 1e-9);
}

#[test]
fn chosen_captions_have_a_worth() {
    let mut study = Fixture::default().two_arms().seeds(&[0, 1, 2, 3, 4]).study();
    for round in &mut study.rounds {
        // Random captions follow the line; those of the strategy are worth 1.5 of them.
        let bought = round.paired as f64 - 300.0;
        let chosen = round.strategy.is_some_and(|arm| !arm.is_random());
        let worth = if chosen { 1.5 } else { 1.0 };
        let wobble = (round.seed * 7 + round.round as u64 * 3) as f64 * 1e-4;
        let test = &mut round.test[0];
        // The directions differ in their level and in their slope.
        test.image.mean_log_rank = 9.0 - 1.2 * (300.0 + worth * bought).ln() + wobble;
        test.text.mean_log_rank = 8.0 - 0.8 * (300.0 + worth * bought).ln();
    }
    let analysis = Analysis::of(&[study], false, None).unwrap();
    let run = &analysis.runs[0];
    let worth = run.arms[1].difference.as_ref().unwrap().worth.unwrap();
    assert!((worth.captions - 1.5).abs() < 0.01, "{worth:?}");
    assert!(worth.low.unwrap() > 1.4 && worth.high.unwrap() < 1.6, "{worth:?}");
    let table = run.table();
    assert!(table.contains("| 1 by definition") && table.contains("| 1.5"), "{table}");
    let saved = run.arms[1].saved_captions().unwrap().mean;
    assert!((99.0..101.0).contains(&saved), "half of the 200 that were bought: {saved}");
}

#[test]
fn only_seeds_that_both_finished_are_compared() {
    let mut study = Fixture::default().two_arms().study();
    study.rounds.retain(|round| {
        !(round.seed == 1
            && round.round == 2
            && round.batch.as_ref().is_some_and(|b| b.hard_negatives.is_some()))
    });
    let analysis = Analysis::of(&[study], false, None).unwrap();
    let run = &analysis.runs[0];
    let hard = &run.arms[1];
    assert_eq!(hard.finished, [0]);
    let difference = hard.difference.as_ref().unwrap();
    assert_eq!((difference.seeds, difference.rounds[2].text.mean), (1, 2.0));
    assert_eq!(difference.rounds[2].text.interval(), None);
    // Levels are those of seed 0 alone, for both strategies: random is at 14 and 12.
    assert_eq!((difference.own.last, difference.baseline.last), (30.0, 26.0));
    assert_eq!(difference.own.sum - difference.baseline.sum, difference.sum.mean);
    let names: Vec<String> = run.arms.iter().map(|arm| run.name_of(arm)).collect();
    assert_eq!(names, ["random", "hard-negative (1 seed)"]);
    assert!(run.table().contains("(one seed: no interval), 1 seed\n"), "{}", run.table());
    assert!(run.table().contains("too few seeds for a verdict (1, of at least 3)"));
}

#[test]
fn a_run_that_has_just_begun_is_no_error() {
    let mut study = Fixture::default().two_arms().study();
    study.rounds.truncate(1);
    let analysis = Analysis::of(&[study.clone()], false, None).unwrap();
    assert_eq!(analysis.runs[0].arms[1].r1().len(), 1);
    study.rounds.clear();
    let analysis = Analysis::of(&[study], false, None).unwrap();
    assert!(analysis.runs[0].arms[1].r1().is_empty());
    assert!(Analysis::of(&[], false, None).unwrap().runs.is_empty());
}
