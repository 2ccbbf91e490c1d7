//! `nextpair rehearse DATASET`: buys on paper what is paired already, to find out which strategy
//! pays before money is spent.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::data::{Side, read_ids};
use crate::engine::Progress;
use crate::kernels::prepare_process;
use crate::models::{Config, ModelFolder, Plateau, Training};
use crate::report::write_rehearsal;
use crate::scenario::{
    Advice, Experiment, ExperimentKeys, Observer, Options, Rehearsal, RehearsalSettings, Round,
    SettingsFile, VocabularyOf,
};
use anyhow::{Context, Result, bail, ensure};

use crate::program::device::DeviceArgs;
use crate::program::inputs::{budget, sides};
use crate::program::interrupt;
use crate::program::next::{self, Next, fresh, strategy_flags};
use crate::program::numbers::grouped;
use crate::program::plan::{Plan, is_of_device};
use crate::program::progress::Bar;
use crate::program::run::options;
use crate::program::settings::{self, ModelArgs, TrainingArgs};
use crate::program::streams::print;
use crate::program::typed::{self, Flags};
use crate::program::unused;

/// Seeds at most, unless it is said.
pub(crate) const SEEDS: usize = 16;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The dataset; its paired training items are what is bought on paper, its dev items are the
    /// test
    dataset: PathBuf,
    /// A published model by name, or the folder of a trained one, whose settings are taken
    #[arg(long, value_name = "NAME|MODEL")]
    model: Option<String>,
    /// How many captions are to be bought for real
    #[arg(long, value_name = "N", value_parser = budget)]
    budget: usize,
    /// Strategies to compare with random [default: v-optimal, hard-negative, core-set, herding,
    /// novelty, least-similar, and core-set+encoded for models with cross attention]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    strategies: Vec<String>,
    /// Repetitions at most; fewer if the answer is clear before
    #[arg(long, value_name = "N", default_value_t = SEEDS)]
    seeds: usize,
    /// What a caption costs
    #[arg(long, value_name = "X")]
    price: Option<f64>,
    /// The half that unpaired items have
    #[arg(long, value_parser = sides(), default_value = "image")]
    pool: Side,
    /// Test on this share of the paired training items, drawn by their ids, if there is no split dev. The
    /// dataset stays as it is
    #[arg(long, value_name = "SHARE")]
    dev: Option<f64>,
    /// Only these items count as paired: a file with one id a line
    #[arg(long, value_name = "FILE")]
    paired: Option<PathBuf>,
    /// Settings in TOML, with the tables [model] and [training]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The image features [default: the last that were added]
    #[arg(long, value_name = "NAME")]
    features: Option<String>,
    /// Heads: the text features [default: the last that were added]
    #[arg(long, value_name = "NAME")]
    text_features: Option<String>,
    /// The folder of the rehearsal. A rehearsal that was stopped goes on
    #[arg(long, value_name = "DIR", default_value = "rehearsal")]
    out: PathBuf,
    /// Trainings side by side [default: as many as there are threads and memory]. The results do
    /// not depend on it
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    #[command(flatten)]
    device: DeviceArgs,
    #[command(flatten)]
    training: TrainingArgs,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    prepare_process();
    if let Some(jobs) = args.jobs {
        ensure!(jobs > 0, "--jobs is 0; at least one is needed");
    }
    let settings = args.settings()?;
    unused::warn(&settings.unused()?, &args.dataset);
    let settings = match args.dev {
        Some(share) => settings.with_dev(share, &args.out)?,
        None => settings,
    };
    let advice = rehearse(settings, &args.out, args.jobs, &options(args.device.device()))?;
    // A model near chance says nothing that is worth to go on with.
    if advice.decides() {
        args.next(&advice)?.say();
    }
    Ok(ExitCode::SUCCESS)
}

/// Rehearses, prints the outcome and writes its page.
pub(crate) fn rehearse(
    settings: RehearsalSettings,
    out: &Path,
    jobs: Option<usize>,
    options: &Options,
) -> Result<Advice> {
    let folder = out.to_path_buf();
    interrupt::on_stop(move || {
        let (kept, folder) = (Rehearsal::rounds_kept(&folder), typed::path(&folder));
        let again = typed::command_line();
        format!("{} rounds are kept in {folder}. Go on with: {again}", grouped(kept))
    });
    let mut rehearsal = Rehearsal::open(out, settings, options)?;
    let watch = Watch::new(rehearsal.work());
    while let Some(scenario) = rehearsal.next(&watch)? {
        watch.until(rehearsal.work_so_far());
        let ended = scenario.run(jobs.unwrap_or_else(|| scenario.jobs()), &watch);
        drop(scenario);
        if ended.is_err() {
            watch.bar.finish();
        }
        ended?;
        if let Some(standing) = rehearsal.standing()? {
            watch.bar.say(&standing.standing());
        }
    }
    watch.bar.finish();
    let advice = rehearsal.advice()?;
    let bar = Bar::new();
    write_rehearsal(&advice, out, &bar)?;
    bar.finish();
    advice.write(out)?;
    print(&advice.text())?;
    say!("page: {}", out.join("rehearsal.html").display());
    Ok(advice)
}

/// The progress of a whole rehearsal: its experiments are parts of it. Rounds are too many to print.
struct Watch {
    bar: Bar,
    /// Steps that are done when the experiment that runs is.
    end: AtomicU64,
    /// Warnings that have been printed.
    warned: [Once; 2],
}

impl Watch {
    fn new(work: u64) -> Self {
        let bar = Bar::new();
        bar.start("rehearsal, at most", work);
        Watch { bar, end: AtomicU64::new(0), warned: [Once::new(), Once::new()] }
    }

    /// Says how many steps are done when the next experiment is.
    fn until(&self, end: u64) {
        self.end.store(end, Ordering::Relaxed);
    }
}

impl Progress for Watch {
    /// What is left of an experiment says how much of the whole is done.
    fn start(&self, phase: &'static str, left: u64) {
        if phase == "rounds" {
            let done = self.end.load(Ordering::Relaxed).saturating_sub(left);
            self.bar.advance(done.saturating_sub(self.bar.position()));
        }
    }

    fn advance(&self, by: u64) {
        let room = self.end.load(Ordering::Relaxed).saturating_sub(self.bar.position());
        self.bar.advance(by.min(room));
    }

    fn remark(&self, what: &str) {
        self.bar.remark(what);
    }

    fn stopped(&self) -> bool {
        self.bar.stopped()
    }
}

impl Observer for Watch {
    fn finished(&self, _: &Round, _: &[Round]) {}

    fn learned_nothing(&self, _: &Round, why: &Plateau) {
        self.warned[0].call_once(|| self.bar.say(&format!("warning: {why} (said once)")));
    }

    fn cut_short(&self, _: &Round, share: f64) {
        self.warned[1].call_once(|| {
            self.bar.say(&format!(
                "warning: {:.0} % of the fall of the loss came in the last quarter of the epochs: train \
                 for more (--epochs), or strategies are compared on models that are not done (said once)",
                100.0 * share
            ));
        });
    }
}

impl Args {
    /// Writes down what was decided. Returns the selection that was advised, or first the training of
    /// the model.
    fn next(&self, advice: &Advice) -> Result<Next> {
        let train = typed::flags_for("train").into_iter().filter(|flag| flag[0] != "--out");
        let train: Flags = train.collect();
        let numbers =
            [("--pool-side", self.pool.to_string()), ("--budget", self.budget.to_string())];
        let mut select: Flags = numbers.map(|(flag, text)| vec![flag.to_owned(), text]).to_vec();
        select.extend(strategy_flags(&advice.strategy));
        select.extend(train.iter().filter(|flag| is_of_device(flag)).cloned());
        let decided =
            Plan { select, price: self.price, rehearsed: advice.forecast(), ..Plan::default() };
        let folder = self.model.as_deref().map(Path::new).filter(|it| ModelFolder::is_there(it));
        let Some(folder) = folder else {
            Plan { train: train.clone(), ..decided }.write(&self.out)?;
            let next = Next::new("train").path(&self.dataset).flags(&train).after(Some(&self.out));
            return Ok(next.words("--out").path(&fresh(Path::new("model"))));
        };
        // A model that `train` did not make has no plan.
        if let Some(Plan { train, before, price, .. }) = Plan::read(folder)? {
            let price = self.price.or(price);
            Plan { train, before, price, ..decided.clone() }.write(folder)?;
        }
        Ok(next::select(folder, &self.dataset, self.pool, usize::MAX, &decided))
    }

    /// Returns what to rehearse: the dataset, model and strategies as an experiment.
    fn settings(&self) -> Result<RehearsalSettings> {
        let mut keys = ExperimentKeys {
            dataset: Some(self.dataset.clone()),
            pool: Some(self.pool),
            strategies: Some(self.strategies.clone()).filter(|names| !names.is_empty()),
            price: self.price,
            features: self.features.clone(),
            text_features: self.text_features.clone(),
            only: self.paired.as_deref().map(read_ids).transpose()?,
            ..ExperimentKeys::default()
        };
        let file = match &self.config {
            Some(path) => SettingsFile::read(path)?,
            None => SettingsFile::default(),
        };
        let says_captions = file.says("captions") || self.training.says_captions();
        let (model, mut training) = match self.model.as_deref() {
            Some(folder) if ModelFolder::is_there(Path::new(folder)) => {
                ensure!(self.config.is_none(), "--config: {folder} has its settings");
                self.of_folder(Path::new(folder), &mut keys)?
            }
            Some(name) => self.named(name, file)?,
            None => {
                let args = ModelArgs::default();
                settings::resolve(file, &args, &self.training, "--config")?
            }
        };
        if !says_captions {
            training.captions = Experiment::default_captions();
        }
        Ok(RehearsalSettings::new(keys, (model, training), self.budget, self.seeds)?)
    }

    fn named(&self, name: &str, file: SettingsFile) -> Result<(Config, Training)> {
        if Config::named(name).is_none() {
            let known = Config::names().join(", ");
            bail!("--model: {name} is neither the folder of a model nor one of {known}");
        }
        let args = ModelArgs::named(name);
        settings::resolve(file, &args, &self.training, "--config")
    }

    /// Takes over the settings of a trained model.
    fn of_folder(&self, folder: &Path, keys: &mut ExperimentKeys) -> Result<(Config, Training)> {
        let model = ModelFolder::open(folder)?;
        let spec = model.spec();
        keys.features = keys.features.take().or_else(|| Some(spec.image_features.clone()));
        keys.text_features = keys.text_features.take().or_else(|| spec.text_features.clone());
        if model.vocabulary().is_some() {
            keys.vocabulary = Some(VocabularyOf::File(folder.join("vocabulary.json")));
        }
        let mut training = match spec.adopted {
            true => spec.model.architecture().training(),
            false => spec.training.clone(),
        };
        self.training.change(&mut training);
        training.check().with_context(|| folder.display().to_string())?;
        Ok((spec.model.clone(), training))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_that_of_the_whole() {
        let watch = Watch::new(1000);
        watch.until(100);
        // Resumed: sixty of its hundred steps are left.
        watch.start("rounds", 60);
        assert_eq!(watch.bar.position(), 40);
        watch.start("training", 9);
        watch.advance(50);
        assert_eq!(watch.bar.position(), 90);
        watch.until(300);
        watch.start("rounds", 200);
        assert_eq!(watch.bar.position(), 100);
        watch.advance(500);
        assert_eq!(watch.bar.position(), 300, "the rest is of the next experiments");
    }

    #[test]
    fn the_help_names_what_is_compared() {
        let mut command = crate::program::command();
        let rehearse = command.find_subcommand_mut("rehearse").unwrap();
        let argument = rehearse.get_arguments().find(|one| one.get_id() == "strategies").unwrap();
        let help = argument.get_help().unwrap().to_string();
        for model in Config::names() {
            let model = Config::named(model).unwrap();
            for arm in RehearsalSettings::usual_strategies(&model) {
                assert!(help.contains(&arm.to_string()), "{arm}: {help}");
            }
        }
    }
}
