//! Where an experiment stands while it runs: what is done, what is being trained, how long the rest takes.
//!
//! All of it is read from the folder, without a lock: nothing here disturbs the process that trains.

use nextpair_data::FolderLock;
use nextpair_models::{Epoch, epochs_of};

use crate::plan::sizes;
use crate::{Annotator, Arm, Round, Study};

/// Where an experiment stands.
#[derive(Clone, Debug, PartialEq)]
pub struct Standing {
    /// What is going on.
    pub activity: Activity,
    /// Number of finished trainings.
    pub done: usize,
    /// Number of trainings in all.
    pub all: usize,
    /// Trainings that have begun, the one that is nearest to its end first.
    pub begun: Vec<Step>,
    /// Seconds until the end, while it runs and as soon as an epoch was timed.
    pub seconds_left: Option<f64>,
}

/// What is going on in an experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// A process works on it, as far as is known.
    Running,
    /// People are asked about the batch of this round.
    Waiting(usize),
    /// No process of this machine works on it.
    Stopped,
    /// All trainings are done.
    Finished,
}

/// A training that has begun.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The seed.
    pub seed: u64,
    /// The strategy. All share round 0, which has none.
    pub strategy: Option<Arm>,
    /// The round.
    pub round: usize,
    /// Number of finished epochs.
    pub epochs: usize,
}

/// Seconds for some work, in epochs of one item.
#[derive(Default)]
struct Speed {
    seconds: f64,
    work: f64,
}

impl Study {
    /// Returns where the experiment stands now. The rounds are those of this study.
    pub fn standing(&self) -> Standing {
        let experiment = &self.experiment;
        let lanes = experiment.seeds.len() * experiment.strategies.len();
        let all = experiment.seeds.len() + lanes * experiment.rounds;
        let mut done: Vec<&Round> =
            self.rounds.iter().filter(|round| experiment.asks_for(round)).collect();
        done.dedup_by_key(|round| (round.seed, round.strategy, round.round));
        let items = self.manifest.items;
        let (initial, budget) = (experiment.initial.of(items), experiment.budget.of(items));
        let sizes = sizes(initial, budget, experiment.rounds);
        let epochs = experiment.training.epochs;
        let work = |round: usize| (sizes.get(round).copied().unwrap_or(0) * epochs) as f64;

        let mut speed = Speed::default();
        for round in &done {
            let parts = round.phases.iter().map(|phase| phase.seconds);
            speed.seconds += parts.sum::<f64>();
            speed.work += work(round.round);
        }
        let mut left = experiment.seeds.len() as f64 * work(0)
            + lanes as f64 * (1..=experiment.rounds).map(work).sum::<f64>()
            - speed.work;
        let mut begun = Vec::new();
        for (step, found) in self.steps(&done) {
            let share = found.len() as f64 / epochs.max(1) as f64;
            speed.seconds +=
                found.iter().map(|epoch| epoch.seconds + epoch.dev_seconds).sum::<f64>();
            speed.work += share * work(step.round);
            left -= share * work(step.round);
            begun.push(step);
        }
        begun.sort_by_key(|step| std::cmp::Reverse(step.epochs));
        let activity = self.activity(done.len() >= all);
        // Trainings run side by side.
        let beside = begun.len().max(1) as f64;
        let seconds_left = (activity == Activity::Running && speed.seconds > 0.0)
            .then(|| left.max(0.0) * speed.seconds / speed.work.max(1.0) / beside);
        Standing { activity, done: done.len(), all, begun, seconds_left }
    }

    fn activity(&self, finished: bool) -> Activity {
        let held = FolderLock::is_held(self.folder.path());
        match (finished, self.asked_about(), held) {
            (true, ..) => Activity::Finished,
            (_, Some(round), _) => Activity::Waiting(round),
            (_, _, Some(false)) => Activity::Stopped,
            _ => Activity::Running,
        }
    }

    /// Human annotators: returns the round whose batch waits for answers.
    fn asked_about(&self) -> Option<usize> {
        let human = self.experiment.annotator == Annotator::Human && self.folder.queue().exists();
        let (seed, arm) = (self.experiment.seeds.first()?, self.experiment.strategies.first()?);
        let open = |round: &usize| !self.folder.closed(*seed, arm, *round).exists();
        human.then(|| (1..=self.experiment.rounds).find(open))?
    }

    /// Returns the trainings that have begun and not finished, with their epochs.
    fn steps(&self, done: &[&Round]) -> Vec<(Step, Vec<Epoch>)> {
        let finished = |place: (u64, Option<Arm>, usize)| {
            done.iter().any(|round| (round.seed, round.strategy, round.round) == place)
        };
        let mut steps = Vec::new();
        for &seed in &self.experiment.seeds {
            if !finished((seed, None, 0)) {
                steps.push((seed, None, 0));
                continue;
            }
            for arm in self.experiment.strategies.iter().copied().map(Some) {
                let mut rounds = 1..=self.experiment.rounds;
                let next = rounds.find(|&round| !finished((seed, arm, round)));
                steps.extend(next.map(|round| (seed, arm, round)));
            }
        }
        let step = |(seed, strategy, round): (u64, Option<Arm>, usize)| {
            let folder = self.folder.model(seed, strategy.as_ref(), round);
            // A log that cannot be read stops whoever trains, not those who watch.
            let epochs =
                if folder.exists() { epochs_of(&folder).unwrap_or_default() } else { return None };
            Some((Step { seed, strategy, round, epochs: epochs.len() }, epochs))
        };
        steps.into_iter().filter_map(step).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::fixture::Fixture;

    #[test]
    fn it_follows_the_rounds() {
        let fixture = Fixture::default().two_arms();
        let whole = fixture.study();
        let finished = whole.standing();
        assert_eq!((finished.done, finished.all), (10, 10));
        assert_eq!(finished.activity, Activity::Finished);
        assert_eq!(finished.seconds_left, None);

        let mut study = whole.clone();
        study.rounds.clear();
        let nothing = study.standing();
        assert_eq!((nothing.done, nothing.all, nothing.begun), (0, 10, Vec::new()));
        assert_eq!(nothing.seconds_left, None);

        // Both seeds have round 0, and the second strategy trains.
        study.rounds = whole.rounds.iter().filter(|round| round.round == 0).cloned().collect();
        let arm = study.experiment.strategies[1];
        let folder = study.folder.model(1, Some(&arm), 1);
        fs::create_dir_all(&folder).unwrap();
        let epoch = "{\"epoch\":1,\"loss\":1.0,\"rate\":0.1,\"active\":0.5,\"gradient\":1.0,\"seconds\":2.0,\
                     \"dev_seconds\":0.0}\n";
        fs::write(folder.join("log.jsonl"), [epoch, epoch, "{\"epoch\":3,\"lo"].concat()).unwrap();
        let _lock = FolderLock::take(study.folder.path(), "").unwrap();
        let now = study.standing();
        assert_eq!((now.activity, now.done, now.all), (Activity::Running, 2, 10));
        assert_eq!(now.begun, [Step { seed: 1, strategy: Some(arm), round: 1, epochs: 2 }]);
        // 300 items at first, then 400 and 500, for 40 epochs: 22.21 s for each round 0, and 4 s for two epochs.
        let (first, later) = (2.0 * 300.0 * 40.0, 4.0 * (400.0 + 500.0) * 40.0);
        let rate = (2.0 * 22.21 + 4.0) / (first + 2.0 * 400.0);
        let expected = rate * (later - 2.0 * 400.0);
        let left = now.seconds_left.unwrap();
        assert!((left - expected).abs() < 1e-6, "{left} {expected}");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn without_a_process_it_has_stopped() {
        let fixture = Fixture::default();
        let mut study = fixture.study();
        study.rounds.truncate(3);
        let standing = study.standing();
        assert_eq!((standing.activity, standing.seconds_left), (Activity::Stopped, None));
    }
}
