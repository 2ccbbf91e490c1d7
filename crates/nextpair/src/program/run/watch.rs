//! Progress of an experiment on the terminal.

use std::collections::HashSet;
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::engine::Progress;
use crate::models::Plateau;
use crate::scenario::{Annotator, Experiment, Observer, Round, Scenario, forecast};

use crate::program::numbers::grouped;
use crate::program::progress::Bar;

/// A progress bar, and a line for every finished round.
pub(crate) struct Watch {
    bar: Bar,
    /// The experiment, and the size of its next batch.
    run: OnceLock<(Experiment, usize)>,
    /// Kinds of warnings that have been printed.
    warned: Mutex<HashSet<String>>,
}

impl Watch {
    pub(crate) fn new() -> Self {
        Watch { bar: Bar::new(), run: OnceLock::new(), warned: Mutex::default() }
    }

    /// Prints a summary of the experiment.
    pub(crate) fn begin(&self, scenario: &Scenario) {
        self.bar.finish();
        if let Some(note) = scenario.note() {
            alert!("note: {note}");
        }
        let experiment = scenario.experiment();
        let batch = scenario.paired(experiment.rounds.min(1)) - scenario.paired(0);
        self.run.get_or_init(|| (experiment.clone(), batch));
        let synthetic = if scenario.manifest().synthetic { " (synthetic)" } else { "" };
        say!(
            "{}{synthetic}: {} of {} items paired at first, then {} more in {}; {}, {} \
             dimensions",
            scenario.manifest().dataset,
            grouped(scenario.paired(0)),
            grouped(scenario.manifest().items),
            grouped(scenario.paired(experiment.rounds) - scenario.paired(0)),
            counted(experiment.rounds, "round"),
            experiment.model.name(),
            experiment.model.dim()
        );
        if let Some(kept) = kept_weights(experiment, scenario.validation_images()) {
            say!("{kept}");
        }
        if scenario.asked_again() > 0 {
            say!(
                "{} of the pool have both halves: initial counts them as unpaired, and people are \
                 asked about them again",
                counted(scenario.asked_again(), "item")
            );
        }
        if scenario.left_out() > 0 {
            say!(
                "left out: {} without a split, which have both halves; nothing is learned from them, \
                 for the dataset has a split train",
                counted(scenario.left_out(), "item")
            );
        }
        let names: Vec<String> = experiment.strategies.iter().map(ToString::to_string).collect();
        let trainings = experiment.seeds.len() * (1 + experiment.rounds * names.len());
        say!(
            "{}, {}: {} trainings, {} of them done before",
            counted(experiment.seeds.len(), "seed"),
            names.join(", "),
            grouped(trainings),
            grouped(scenario.rounds().iter().filter(|round| experiment.asks_for(round)).count())
        );
    }

    pub(crate) fn end(&self) {
        self.bar.finish();
    }
}

impl Watch {
    /// Forecasts the gain of the next batch of a strategy, once all seeds have finished the round.
    fn expected(&self, round: &Round, rounds: &[Round]) -> Option<String> {
        let (experiment, batch) = self.run.get()?;
        let arm = round.strategy?;
        let lane = |&seed: &u64| {
            let own = |r: &&Round| {
                let ours = r.strategy.is_none_or(|other| other == arm);
                r.seed == seed && ours && r.round <= round.round
            };
            let mut lane: Vec<&Round> = rounds.iter().filter(own).collect();
            lane.sort_by_key(|round| round.round);
            lane
        };
        let lanes: Vec<Vec<&Round>> = experiment.seeds.iter().map(lane).collect();
        let whole = lanes.iter().all(|lane| lane.len() == round.round + 1);
        let expected = forecast(&lanes, *batch).filter(|_| whole)?;
        Some(match experiment.annotator {
            Annotator::Human => expected.sentence(experiment.price),
            _ => format!(
                "  {arm}: the next {} should bring right answers {}, R@1 {}",
                grouped(expected.batch),
                expected.ranks_in_words(),
                expected.r1_in_words()
            ),
        })
    }
}

impl Watch {
    /// Prints a warning, unless one of its kind was printed.
    fn warn_once(&self, strategy: &str, kind: &str, text: &str) {
        let mut warned = self.warned.lock().unwrap_or_else(PoisonError::into_inner);
        if warned.insert(kind.to_owned()) {
            self.bar.say(&format!("  warning: {strategy}: {text} (said once)"));
        }
    }
}

impl Progress for Watch {
    fn start(&self, phase: &'static str, total: u64) {
        self.bar.start(phase, total);
    }

    fn advance(&self, steps: u64) {
        self.bar.advance(steps);
    }

    fn remark(&self, what: &str) {
        self.bar.remark(what);
    }

    fn stopped(&self) -> bool {
        self.bar.stopped()
    }
}

impl Observer for Watch {
    fn learned_nothing(&self, round: &Round, why: &Plateau) {
        let strategy = round.strategy.map_or_else(|| "(all)".to_owned(), |arm| arm.to_string());
        self.warn_once(&strategy, "plateau", &format!("seed {}: {why}", round.seed));
    }

    fn finished(&self, round: &Round, rounds: &[Round]) {
        let strategy = round.strategy.map_or_else(|| "(all)".to_owned(), |arm| arm.to_string());
        let (text, image) = round.test.first().map_or((0.0, 0.0), |t| (t.text.r1, t.image.r1));
        let others = round.test.iter().skip(1).map(|test| {
            let (text, image) = (test.text.r1, test.image.r1);
            format!(", in {} parts text {text:5.2} image {image:5.2}", test.folds)
        });
        let others: String = others.collect();
        let seconds: f64 = round.phases.iter().map(|phase| phase.seconds).sum();
        let hard = round.batch.as_ref().and_then(|batch| batch.hard_negative_share());
        let hard = hard.map_or_else(String::new, |share| format!("  hard negatives {share:.1} %"));
        let batch = round.batch.as_ref();
        let fill = batch.and_then(|batch| batch.without_hit).filter(|&count| count > 0);
        let fill = fill
            .map_or_else(String::new, |count| format!(", {} picks without a hit", grouped(count)));
        let refused = batch.map(|batch| batch.skipped).filter(|&count| count > 0);
        let refused = refused
            .map_or_else(String::new, |count| format!(", {} without a caption", grouped(count)));
        let unanswered = batch.map(|batch| batch.unanswered).filter(|&count| count > 0);
        let unanswered = unanswered.map_or_else(String::new, |count| {
            format!(", {} without an answer back in the pool", grouped(count))
        });
        let left_out = batch.and_then(|batch| batch.left_out);
        let left_out = left_out.map_or_else(String::new, |count| {
            format!(", {} of the pool left out as unusable", grouped(count))
        });
        let duplicates = batch.and_then(|batch| batch.duplicates);
        let duplicates = duplicates
            .map_or_else(String::new, |count| format!(", {} duplicates left out", grouped(count)));
        self.bar.say(&format!(
            "seed {}  {strategy:<14}  round {}  {:>6} pairs  R@1 text {text:5.2} image {image:5.2}{others}  \
             {seconds:6.1} s{hard}{fill}{refused}{unanswered}{left_out}{duplicates}",
            round.seed,
            round.round,
            grouped(round.pairs)
        ));
        // The line above has picks without a hit.
        let warnings = batch.iter().flat_map(|batch| &batch.warnings);
        for warning in warnings.filter(|warning| warning.kind != "no-hit") {
            self.warn_once(&strategy, &warning.kind, &warning.text);
        }
        if let Some(expected) = self.expected(round, rounds) {
            self.bar.say(&expected);
        }
    }
}

/// Describes which weights a training keeps, if it averages or evaluates on dev.
fn kept_weights(experiment: &Experiment, images: usize) -> Option<String> {
    let averaged = experiment.training.average_last;
    if averaged > 0 {
        return Some(format!("the mean of the last {} is kept", counted(averaged, "epoch")));
    }
    let last = experiment.training.validate_last.min(experiment.training.epochs);
    match (last, images) {
        (0, _) => None,
        (last, 0) => Some(format!(
            "the split dev has nothing to evaluate: the weights of the last epoch are kept, not the \
             best of the last {last}"
        )),
        (1, images) => {
            Some(format!("the last epoch is evaluated on {} of dev", counted(images, "image")))
        }
        (last, images) => Some(format!(
            "the last {} are evaluated on {} of dev; the best is kept",
            counted(last, "epoch"),
            counted(images, "image")
        )),
    }
}

/// Formats a count with its noun: 1 seed, 5 seeds.
fn counted(count: usize, what: &str) -> String {
    match count {
        1 => format!("1 {what}"),
        count => format!("{} {what}s", grouped(count)),
    }
}
