//! Numbers and findings as sentences.

use nextpair_scenario::numbers::{grouped, signed, signed_fine, tenths, worth};
use nextpair_scenario::{ArmEvidence, Estimate, Evidence, Forecast, Verdict, WithoutHit};

/// Replaces the hyphens of negative numbers by minus signs, but not those in names.
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

/// Sets the interval after a number smaller.
pub(super) fn with_small_interval(shown: &str) -> String {
    match shown.split_once(' ') {
        Some((mean, interval)) => format!("{mean}<small> {interval}</small>"),
        None if shown == "-" => "–".to_owned(),
        None => shown.to_owned(),
    }
}

/// Formats the ranks of right answers that the next batch is expected to bring: now, then, and the interval smaller.
pub(super) fn next_ranks(forecast: &Forecast) -> String {
    let [now, expected, best, worst] = forecast.ranks().map(tenths);
    format!("{now:.1} to {expected:.1}<small> [{best:.1}, {worst:.1}]</small>")
}

/// Formats a count with its noun: "1 seed", "3 seeds".
pub(super) fn counted(number: usize, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {what}{plural}", grouped(number))
}

/// Formats a number of batches: "1 batch", "3 batches".
pub(super) fn batches(number: usize) -> String {
    if number == 1 { "1 batch".to_owned() } else { format!("{} batches", grouped(number)) }
}

/// Formats a duration: 0.4 s, 47 s, 3 min 05 s, 2 h 07 min.
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

/// Formats memory: 312 MiB, 1.4 GiB.
pub(super) fn memory(bytes: u64) -> String {
    let mib = bytes as f64 / f64::from(1 << 20);
    if mib < 1000.0 { format!("{mib:.0} MiB") } else { format!("{:.1} GiB", mib / 1024.0) }
}

/// Summarises the interval of a difference in a word, for a table.
pub(super) fn in_a_word(difference: &Estimate) -> &'static str {
    match difference.verdict() {
        Verdict::Above => "better",
        Verdict::Below => "worse",
        Verdict::Unclear => "not clear",
        Verdict::TooFewSeeds => "too few seeds",
    }
}

/// Answers how each strategy compares with the baseline. The mean log rank decides; R@1 stands beside it.
pub(super) fn answer(evidence: &Evidence) -> Vec<String> {
    let others = || evidence.arms.iter().filter(|arm| !evidence.baseline.holds(&arm.strategy));
    if others().next().is_some() && others().all(|arm| arm.difference.is_none()) {
        let what = "No seed has finished yet with two strategies: there is nothing to compare.";
        return vec![what.to_owned()];
    }
    others().map(|arm| typographic(&against(evidence, arm))).collect()
}

/// Tells how the null controls came out: random strategies, each compared with the other random ones.
pub(super) fn controls(evidence: &Evidence) -> Option<String> {
    let controls = evidence.arms.iter().filter_map(|arm| {
        let difference = arm.difference.as_ref().filter(|difference| difference.null_control)?;
        Some(format!("{} {}", arm.strategy, signed_fine(&difference.last_log_rank)))
    });
    let controls: Vec<String> = controls.collect();
    (!controls.is_empty()).then(|| {
        typographic(&format!(
            "Null controls: each random strategy less the mean of the other random ones, by the mean log rank: \
             {}. They cannot differ; what they show is chance.",
            controls.join(", ")
        ))
    })
}

fn against(evidence: &Evidence, arm: &ArmEvidence) -> String {
    let (name, other) = (arm.strategy, &evidence.baseline);
    let Some(difference) = &arm.difference else {
        let known = arm.r1().len().saturating_sub(1);
        return format!(
            "{name} cannot be compared with {other} yet: no seed of both has finished; {} of {} \
             batches are known.",
            known, evidence.rounds
        );
    };
    let verdict = match difference.verdict() {
        Verdict::Above => format!("{name} is better than {other}"),
        Verdict::Below => format!("{name} is worse than {other}"),
        Verdict::Unclear => {
            format!("The difference between {name} and {other} cannot be told from chance")
        }
        Verdict::TooFewSeeds if difference.seeds == 1 => {
            format!("One seed cannot tell {name} and {other} from chance")
        }
        Verdict::TooFewSeeds => {
            format!("{} seeds are too few to tell {name} from {other}", difference.seeds)
        }
    };
    let seeds = match difference.seeds {
        1 => String::new(),
        seeds => format!(", {seeds} seeds"),
    };
    let (own, theirs) = (difference.own, difference.baseline);
    let last = difference.rounds.last().map_or(String::new(), |last| {
        format!(
            " After {}, R@1 (text and image added) is {:.1} against {:.1}: {}.",
            batches(evidence.rounds),
            own.last,
            theirs.last,
            signed(&last.both)
        )
    });
    let needed = difference.by_log_rank.seeds_needed.map_or(String::new(), |needed| {
        format!(" A difference of this size takes about {} to be told.", counted(needed, "seed"))
    });
    let worth = difference.worth.map_or(String::new(), |known| {
        format!(", one of its captions is worth {} random ones", worth(&known))
    });
    format!(
        "{verdict}: its mean log rank differs by {}{worth}{seeds}.{needed}{last} R@1-sum {:.1} against {:.1}, difference {}.",
        signed_fine(&difference.last_log_rank),
        own.sum,
        theirs.sum,
        signed(&difference.sum)
    )
}

/// Counts the strategies that are better and worse than the baseline.
pub(super) fn in_short(evidence: &Evidence) -> Option<String> {
    let verdict = |arm: &ArmEvidence| {
        let difference = arm.difference.as_ref().filter(|difference| !difference.null_control)?;
        Some(difference.verdict())
    };
    let verdicts: Vec<Verdict> = evidence.arms.iter().filter_map(verdict).collect();
    let count = |wanted: Verdict| verdicts.iter().filter(|&&verdict| verdict == wanted).count();
    let (better, worse) = (count(Verdict::Above), count(Verdict::Below));
    let (all, unclear) = (verdicts.len(), verdicts.len() - better - worse);
    let batches = batches(evidence.rounds);
    (all > 0).then(|| {
        format!(
            "After {batches}, of {all} strategies {better} are better than {} by the mean log rank, {worse} are \
             worse, and {unclear} cannot be told from chance.",
            evidence.baseline
        )
    })
}

/// Describes which strategies filled batches without hits, in sentences that begin with a space.
pub(super) fn without_hit(evidence: &Evidence) -> String {
    let filled = evidence.arms.iter().filter_map(|arm| {
        let WithoutHit { picks, without } = arm.without_hit.filter(|all| all.without > 0)?;
        let (without, picks) = (grouped(without), grouped(picks));
        let name = arm.strategy;
        Some(format!(" {name}: {without} of {picks} picks had no hit and fill the batch in order."))
    });
    filled.collect()
}

/// Describes the unfinished parts.
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
    use nextpair_scenario::{Analysis, Study};

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
        let few = answer(&analysis(&fixture)).remove(0);
        let says = "2 seeds are too few to tell hard-negative from random: its mean log rank differs by −0.150 (2 seeds: no interval)";
        assert!(few.starts_with(says), "{few}");
        let unclear = few;
        let then =
            ", 2 seeds. After 2 batches, R@1 (text and image added) is 34.0 against 28.0: +6.0";
        assert!(unclear.contains(then), "{unclear}");
        let one = answer(&analysis(&fixture.seeds(&[0]))).remove(0);
        assert!(one.starts_with("One seed cannot tell"), "{one}");
        assert!(one.ends_with("+6.0 (one seed: no interval)."), "{one}");
        let sure = Fixture::default().two_arms().seeds(&[0, 1, 2, 3]);
        let better = answer(&analysis(&sure)).remove(0);
        assert!(
            better.starts_with("hard-negative is better than random: its mean log rank differs by"),
            "{better}"
        );
        assert!(better.contains(", one of its captions is worth "), "{better}");
        let unclear = Fixture::default().arms(&["random", "core-set", "random-2"]);
        let unclear = analysis(&unclear);
        let said = answer(&unclear);
        assert_eq!(said.len(), 1, "null controls are not answers");
        let says = "The difference between core-set and random (mean of 2) cannot be told";
        assert!(said[0].starts_with(says), "{}", said[0]);
        assert!(said[0].contains(" A difference of this size takes about "), "{}", said[0]);
        let controls = controls(&unclear).unwrap();
        assert!(controls.contains(" mean log rank: random ") && controls.contains(", random-2 "));
    }

    #[test]
    fn picks_without_a_hit_are_told() {
        let mut study = Fixture::default().two_arms().study();
        let of = |study: &Study| {
            let analysis = Analysis::of(std::slice::from_ref(study), false, None).unwrap();
            without_hit(&analysis.runs[0])
        };
        assert_eq!(of(&study), "");
        let batch = study.rounds.last_mut().unwrap().batch.as_mut().unwrap();
        batch.without_hit = Some(30);
        let said = of(&study);
        assert_eq!(said, " hard-negative: 30 of 400 picks had no hit and fill the batch in order.");
    }

    #[test]
    fn the_last_round_decides_whatever_the_sum_says() {
        let mut study = Fixture::default().two_arms().seeds(&[0, 1, 2, 3]).study();
        let hard = "hard-negative".parse().ok();
        for round in study.rounds.iter_mut().filter(|round| round.strategy == hard) {
            // Far ahead first, a little behind at the end.
            let ahead = if round.round == 1 { 30.0 } else { -12.0 };
            round.test[0].text.r1 += ahead;
            round.test[0].text.mean_log_rank -= 0.05 * ahead;
        }
        let evidence = Analysis::of(&[study], false, None).unwrap().runs.remove(0);
        let difference = evidence.arms[1].difference.as_ref().unwrap();
        assert_eq!(
            (difference.sum.verdict(), difference.verdict()),
            (Verdict::Above, Verdict::Below)
        );
        assert!(answer(&evidence)[0].starts_with("hard-negative is worse than random"));
        let short = in_short(&evidence).unwrap();
        assert!(
            short.contains("of 1 strategies 0 are better than random by the mean log rank, 1 are"),
            "{short}"
        );
        assert_eq!(in_a_word(&difference.gain()), "worse");
    }
}
