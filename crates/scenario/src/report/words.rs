//! Numbers and findings in plain words.

use crate::analysis::{ArmEvidence, Evidence, signed};
use crate::statistics::{Estimate, Verdict};

/// Minus signs as they are printed: those of numbers, not the hyphens of names.
pub(super) fn typographic(text: &str) -> String {
    let mut printed = String::with_capacity(text.len());
    for (at, part) in text.split('-').enumerate() {
        let starts = printed.is_empty() || printed.ends_with([' ', '[', '(']);
        let is_minus = starts && part.starts_with(|first: char| first.is_ascii_digit());
        if at > 0 {
            printed.push(if is_minus { '−' } else { '-' });
        }
        printed.push_str(part);
    }
    printed
}

/// 12,345.
pub(super) fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// "1 seed", "3 seeds".
pub(super) fn counted(number: usize, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {what}{plural}", grouped(number))
}

/// "1 batch", "3 batches".
pub(super) fn batches(number: usize) -> String {
    if number == 1 { "1 batch".to_owned() } else { format!("{} batches", grouped(number)) }
}

/// 0.4 s, 47 s, 3 min 05 s, 2 h 07 min.
pub(super) fn duration(seconds: f64) -> String {
    if seconds < 10.0 {
        return format!("{seconds:.1} s");
    }
    let whole = seconds.round() as u64;
    match (whole / 3600, whole / 60 % 60, whole % 60) {
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, seconds) => format!("{minutes} min {seconds:02} s"),
        (hours, minutes, _) => format!("{hours} h {minutes:02} min"),
    }
}

/// 312 MiB, 1.4 GiB.
pub(super) fn memory(bytes: u64) -> String {
    let mib = bytes as f64 / f64::from(1 << 20);
    match mib < 1000.0 {
        true => format!("{mib:.0} MiB"),
        false => format!("{:.1} GiB", mib / 1024.0),
    }
}

/// What the interval of a difference says.
pub(super) fn verdict(difference: &Estimate) -> &'static str {
    match difference.verdict() {
        Verdict::Above => "it is better",
        Verdict::Below => "it is worse",
        Verdict::Unclear => "it cannot be told from chance",
        Verdict::NoInterval => "one seed tells nothing about chance",
    }
}

/// The same for a table.
pub(super) fn in_a_word(difference: &Estimate) -> &'static str {
    match difference.verdict() {
        Verdict::Above => "better",
        Verdict::Below => "worse",
        Verdict::Unclear => "not clear",
        Verdict::NoInterval => "one seed",
    }
}

/// The answer: what each strategy reached, against the baseline; the first in a whole sentence.
pub(super) fn answer(evidence: &Evidence) -> Vec<String> {
    let Some(baseline) = evidence.baseline() else { return Vec::new() };
    let others = || evidence.arms.iter().filter(|arm| arm.strategy != evidence.baseline);
    if others().next().is_some() && others().all(|arm| arm.difference.is_none()) {
        let what = "No seed has finished yet with two strategies: there is nothing to compare.";
        return vec![what.to_owned()];
    }
    others().map(|arm| typographic(&against(evidence, arm, baseline))).collect()
}

fn against(evidence: &Evidence, arm: &ArmEvidence, baseline: &ArmEvidence) -> String {
    let (name, other) = (arm.strategy, evidence.baseline);
    let Some(difference) = &arm.difference else {
        let known = arm.r1().len().saturating_sub(1);
        return format!(
            "{name} cannot be compared with {other} yet: no seed of both has finished; {} of {} \
             batches are known.",
            known, evidence.rounds
        );
    };
    let (Some(last), Some(reached), Some(theirs)) =
        (difference.rounds.last(), arm.r1().last(), baseline.r1().last())
    else {
        return format!("{name} has no round.");
    };
    let batches = batches(evidence.rounds);
    let seeds = match difference.seeds {
        1 => String::new(),
        seeds => format!(", {seeds} seeds"),
    };
    format!(
        "After {batches} {name} reached {:.1} of R@1 (text and image added) against {:.1} for {other}: difference \
         {}{seeds}: {}.",
        reached.both.mean,
        theirs.both.mean,
        signed(&last.both),
        verdict(&last.both)
    )
}

/// How many strategies are better than the baseline, how many worse.
pub(super) fn in_short(evidence: &Evidence) -> Option<String> {
    let last = |arm: &ArmEvidence| Some(arm.difference.as_ref()?.rounds.last()?.both.verdict());
    let verdicts: Vec<Verdict> = evidence.arms.iter().filter_map(last).collect();
    let count = |wanted: Verdict| verdicts.iter().filter(|&&verdict| verdict == wanted).count();
    let (better, worse) = (count(Verdict::Above), count(Verdict::Below));
    let (all, unclear) = (verdicts.len(), verdicts.len() - better - worse);
    let batches = batches(evidence.rounds);
    (all > 0).then(|| {
        format!(
            "After {batches}, of {all} strategies {better} reached a higher R@1 (text and image added) than {}, \
             {worse} a lower one, and {unclear} cannot be told from chance.",
            evidence.baseline
        )
    })
}

/// What to keep in mind when many strategies are compared.
pub(super) fn by_chance(evidence: &Evidence) -> Option<String> {
    let compared = evidence.arms.iter().filter(|arm| arm.difference.is_some()).count();
    (compared > 3).then(|| {
        format!(
            "These are {compared} comparisons, each with its own 95 % interval: about one in \
             twenty such intervals leaves out zero by chance alone."
        )
    })
}

/// What is not finished yet.
pub(super) fn unfinished(evidence: &Evidence) -> Vec<String> {
    let asked = evidence.seeds.len();
    let fewest = evidence.arms.iter().map(|arm| arm.finished.len()).min().unwrap_or(0);
    if fewest < asked && evidence.arms.iter().all(|arm| arm.finished.len() == fewest) {
        return vec![format!("{fewest} of {} finished.", counted(asked, "seed"))];
    }
    let missing = evidence.arms.iter().filter(|arm| arm.finished.len() < asked);
    missing
        .map(|arm| {
            let finished = arm.finished.len();
            format!("{}: {finished} of {} finished.", arm.strategy, counted(asked, "seed"))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Analysis;
    use crate::fixture::Fixture;

    #[test]
    fn minus_signs_are_not_hyphens() {
        assert_eq!(
            typographic("hard-negative -0.5 [-1.0, +2.0]"),
            "hard-negative −0.5 [−1.0, +2.0]"
        );
        assert_eq!(typographic("-3"), "−3");
        assert_eq!(typographic("top-5, e-4"), "top-5, e-4");
    }

    #[test]
    fn numbers_are_short_to_read() {
        assert_eq!([0, 999, 1000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
        let times = [0.04, 9.0, 59.6, 185.0, 7620.0].map(duration);
        assert_eq!(times, ["0.0 s", "9.0 s", "1 min 00 s", "3 min 05 s", "2 h 07 min"]);
        assert_eq!(memory(300 << 20), "300 MiB");
        assert_eq!(memory(1434 << 20), "1.4 GiB");
    }

    #[test]
    fn the_answer_claims_what_the_interval_does() {
        let analysis = |fixture: &Fixture| {
            Analysis::of(&[fixture.study()], false, None).unwrap().runs.remove(0)
        };
        let fixture = Fixture::default().two_arms();
        let unclear = answer(&analysis(&fixture)).remove(0);
        assert!(unclear.starts_with("After 2 batches hard-negative reached 34.0 of R@1 (text"));
        assert!(unclear.ends_with("2 seeds: it cannot be told from chance."), "{unclear}");
        let one = answer(&analysis(&fixture.seeds(&[0]))).remove(0);
        assert!(
            one.ends_with("+4.0 (one seed: no interval): one seed tells nothing about chance.")
        );
        let sure = Fixture::default().two_arms().seeds(&[0, 1, 2, 3]);
        let better = answer(&analysis(&sure)).remove(0);
        assert!(better.ends_with("4 seeds: it is better."), "{better}");
    }
}
