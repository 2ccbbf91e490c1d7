//! What a person sees while an experiment runs.

use nextpair_engine::Progress;
use nextpair_scenario::{Observer, Round, Scenario};

use crate::numbers::grouped;
use crate::progress::Bar;

/// A bar for everything, and a line for every finished round.
pub(crate) struct Watch {
    bar: Bar,
}

impl Watch {
    pub(crate) fn new() -> Self {
        Watch { bar: Bar::new() }
    }

    /// Says what is going to be done.
    pub(crate) fn begin(&self, scenario: &Scenario) {
        self.bar.finish();
        let experiment = scenario.experiment();
        let synthetic = if scenario.head().synthetic { " (synthetic)" } else { "" };
        eprintln!(
            "{}{synthetic}: {} of {} items paired at first, then {} more in {} rounds; {}, {} \
             dimensions",
            scenario.head().dataset,
            grouped(scenario.paired(0)),
            grouped(scenario.head().items),
            grouped(scenario.paired(experiment.rounds) - scenario.paired(0)),
            experiment.rounds,
            experiment.model.name(),
            experiment.model.dim()
        );
        let names: Vec<String> = experiment.strategies.iter().map(ToString::to_string).collect();
        let trainings = experiment.seeds.len() * (1 + experiment.rounds * names.len());
        eprintln!(
            "{} seeds, strategies {}: {} trainings, {} of them done before",
            experiment.seeds.len(),
            names.join(", "),
            grouped(trainings),
            grouped(scenario.rounds().len().min(trainings))
        );
    }

    pub(crate) fn end(&self) {
        self.bar.finish();
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
}

impl Observer for Watch {
    fn finished(&self, round: &Round, _: &[Round]) {
        let strategy = round.strategy.map_or_else(|| "(all)".to_owned(), |arm| arm.to_string());
        let (text, image) = round.test.first().map_or((0.0, 0.0), |t| (t.text.r1, t.image.r1));
        let seconds: f64 = round.phases.iter().map(|phase| phase.seconds).sum();
        let hard = round.batch.as_ref().and_then(|batch| batch.hard_negative_share());
        let hard = hard.map_or_else(String::new, |share| format!("  hard negatives {share:.1} %"));
        self.bar.say(&format!(
            "seed {}  {strategy:<14}  round {}  {:>6} pairs  R@1 text {text:5.2} image {image:5.2}  \
             {seconds:6.1} s{hard}",
            round.seed,
            round.round,
            grouped(round.pairs)
        ));
    }
}
