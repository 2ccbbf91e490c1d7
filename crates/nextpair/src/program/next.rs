//! The command to type next, which every command ends with: one line on standard error.
//!
//! Names are the user's own. A word in capitals, such as `DATASET`, stands for what only the user
//! has; without one, the command works as it is printed.

use std::path::{Path, PathBuf};

use crate::Files;
use crate::data::Side;
use crate::data::dataset::{DEV, Dataset, Per, TEST, TRAIN};
use crate::engine::{Alike, Strategy};
use crate::models::{Corpus, ModelFolder, Pair};
use crate::scenario::{Arm, unpaired};
use anyhow::Result;

use crate::program::plan::Plan;
use crate::program::typed::{self, Flags};

/// The most items that a suggested selection picks.
const BUDGET: usize = 100;
/// The share of the first captions to test on, where a dataset has no split for that.
const TESTED: f64 = 0.2;

/// A command line.
pub(crate) struct Next(String);

impl Next {
    /// Begins with plain words that need no quotes.
    pub(crate) fn new(words: &str) -> Self {
        Next(format!("nextpair {words}"))
    }

    /// Adds plain words that need no quotes.
    pub(crate) fn words(mut self, words: &str) -> Self {
        self.0 += &format!(" {words}");
        self
    }

    /// Adds the name of a file or folder.
    pub(crate) fn path(self, path: &Path) -> Self {
        self.words(&typed::path(path))
    }

    /// Adds one word of any characters.
    pub(crate) fn text(self, text: &str) -> Self {
        self.words(&typed::quoted(text))
    }

    /// Adds flags.
    pub(crate) fn flags(self, flags: &[Vec<String>]) -> Self {
        flags.iter().flatten().fold(self, |next, word| next.text(word))
    }

    /// Adds the place of a plan, from which the lines after that go on.
    pub(crate) fn after(self, place: Option<&Path>) -> Self {
        match place {
            Some(place) => self.words("--after").path(place),
            None => self,
        }
    }

    /// Returns whether this is the command of the name.
    pub(crate) fn is(&self, command: &str) -> bool {
        self.0.split(' ').nth(1) == Some(command)
    }

    /// Prints the line.
    pub(crate) fn say(self) {
        say!("next        {}", self.0);
    }
}

/// Returns the flags of a selection by a strategy. Queries are a file of their own.
pub(crate) fn strategy_flags(arm: &Arm) -> Flags {
    let mut flags = vec![vec!["--strategy".to_owned(), arm.strategy.name().to_owned()]];
    flags.extend(arm.strategy.changed(|own| vec![format!("--{}", own.flag()), own.value.text()]));
    flags.extend(arm.usable.then(|| vec!["--usable".to_owned()]));
    flags.extend(arm.dedupe.map(|alike| match alike {
        Alike::Exact => vec!["--dedupe".to_owned()],
        Alike::Cosine(cosine) => vec!["--dedupe".to_owned(), cosine.to_string()],
    }));
    flags
}

/// What to do with a dataset: make features, select what gets the first captions, or train.
pub(crate) fn with_dataset(dataset: &Dataset) -> Next {
    let folder = dataset.folder();
    let Ok((images, _)) = dataset.features(Side::Image, None) else {
        return Next::new("embed").path(folder).words("--image-model ENCODER.onnx");
    };
    if paired(dataset) < 2 {
        let pool = Files::of_dataset(dataset, Side::Image, None, &[]).map(|files| files.items());
        let picks = fresh(Path::new("picks.jsonl"));
        let words = format!("--budget {} --out", pool.unwrap_or(BUDGET).min(BUDGET));
        return Next::new("select").path(folder).words(&words).path(&picks);
    }
    let texts = dataset.features(Side::Text, None);
    let model = match texts.is_ok_and(|(set, _)| set.per == Per::Caption) && images.per == Per::Item
    {
        true => "heads",
        false => "vse++",
    };
    let out = fresh(Path::new("model"));
    Next::new("train").path(folder).words(&format!("--model {model} --out")).path(&out)
}

/// The number of items to learn from.
fn paired(dataset: &Dataset) -> usize {
    let items = dataset.items();
    let Ok((_, features)) = dataset.features(Side::Image, None) else { return 0 };
    let to_train = |item: &usize| items.split_of(*item).is_none_or(|split| split == TRAIN);
    let whole =
        |item: &usize| features.row(*item).is_some() && !items.captions_of(*item).is_empty();
    (0..items.len()).filter(to_train).filter(whole).count()
}

/// Trains a model of a dataset with more captions, like the model that picked them.
pub(crate) fn train_again(dataset: &Dataset, before: &Path) -> Next {
    let mut train = Plan::of(before).train;
    if train.is_empty() {
        // A model that `train` did not make has no plan.
        let Ok(folder) = ModelFolder::open(before) else { return with_dataset(dataset) };
        train.push(vec!["--model".to_owned(), folder.spec().model.name().to_owned()]);
    }
    let next = Next::new("train").path(dataset.folder()).flags(&train);
    next.after(Some(before)).words("--out").path(&fresh(before))
}

/// Selects from the unpaired items of a dataset with a model, as was decided.
pub(crate) fn select(model: &Path, dataset: &Path, side: Side, pool: usize, plan: &Plan) -> Next {
    let next = Next::new("select --model").path(model).path(dataset);
    let decided = |name: &str| plan.select.iter().find(|flag| flag[0] == name);
    let budget = decided("--budget").and_then(|flag| flag.get(1)?.parse().ok()).unwrap_or(BUDGET);
    let next = match (decided("--budget"), decided("--spend")) {
        (None, Some(_)) => next.words(&format!("--pool-side {side}")),
        _ => next.words(&format!("--pool-side {side} --budget {}", budget.min(pool))),
    };
    let others = |flag: &&Vec<String>| !["--pool-side", "--budget"].contains(&flag[0].as_str());
    let next = next.flags(&plan.select.iter().filter(others).cloned().collect::<Flags>());
    next.words("--out").path(&fresh(Path::new("picks.jsonl")))
}

/// Serves picks to people. Picks without ids are found by those of the pool.
pub(crate) fn annotate(
    picks: &Path,
    dataset: Option<&Path>,
    (side, has_ids): (Side, bool),
    model: Option<&Path>,
) -> Next {
    let next = Next::new("annotate").path(picks).words("--dataset");
    let next = match dataset {
        Some(dataset) => next.path(dataset),
        None => next.words("DATASET"),
    };
    let next = if has_ids { next } else { next.words("--ids IDS") };
    let next = of_side(next, side).after(model);
    match model.and_then(|model| Plan::of(model).price) {
        Some(price) => next.words(&format!("--price {price}")),
        None => next,
    }
}

/// Puts answers back into a dataset, some of them for a test if it has none.
pub(crate) fn add(dataset: &Path, answers: &Path, side: Side, model: Option<&Path>) -> Next {
    let next = of_side(Next::new("add").path(dataset).path(answers), side).after(model);
    let tests = |split: Option<&str>| [Some(TEST), Some(DEV)].contains(&split);
    let can_test = Dataset::open(dataset).map_or(true, |open| open.items().splits().any(tests));
    let next = if can_test { next } else { next.words(&format!("--test {TESTED}")) };
    next.words("--out").path(&fresh(dataset))
}

fn of_side(next: Next, side: Side) -> Next {
    match side {
        Side::Image => next,
        Side::Text => next.words("--pool-side text"),
    }
}

/// Compares a new model with the one before the last batch, if something is left to compare them on.
pub(crate) fn compare(model: &Path, corpus: &Corpus, plan: &Plan) -> Option<Next> {
    let before = plan.before.as_deref().filter(|before| ModelFolder::is_there(before))?;
    let dataset = corpus.dataset();
    let has = |split: &str| {
        dataset.items().in_split(Some(split)).iter().any(|&item| corpus.is_whole(item))
    };
    let next = Next::new("eval").path(model).path(dataset.folder());
    let next = match [TEST, DEV].into_iter().find(|split| has(split))? {
        TEST => next,
        split => next.words(&format!("--split {split}")),
    };
    let device =
        plan.select.iter().filter(|flag| crate::program::plan::is_of_device(flag)).cloned();
    Some(next.words("--against").path(before).flags(&device.collect::<Flags>()))
}

/// Goes on with a trained model: selects from what it did not learn from, or tells how well it finds
/// what it did not learn, or searches.
pub(crate) fn with_model(folder: &ModelFolder, corpus: &Corpus, pairs: &[Pair]) -> Result<Next> {
    let (model, training) = (folder.folder(), &folder.spec().training);
    let (dataset, plan) = (corpus.dataset(), Plan::of(model));
    let answered = dataset.answered()?;
    let decided = plan.select.iter().find(|flag| flag[0] == "--pool-side");
    let decided = decided.and_then(|flag| flag.get(1)).map(String::as_str);
    for side in [Side::Image, Side::Text] {
        if decided.is_some_and(|decided| decided != side.to_string()) {
            continue;
        }
        let pool = unpaired(corpus, pairs, side, training.captions, training.seed);
        let pool = pool.iter().filter(|unpaired| !answered.contains(&unpaired.item)).count();
        if pool > 0 {
            return Ok(select(model, dataset.folder(), side, pool, &plan));
        }
    }
    let items = dataset.items();
    if items.in_split(Some(TEST)).iter().any(|&item| corpus.is_whole(item)) {
        return Ok(Next::new("eval").path(model).path(dataset.folder()));
    }
    let known = pairs.first().and_then(|pair| items.get(pair.item).captions.into_iter().next());
    let text = known.unwrap_or_default();
    Ok(Next::new("search").path(model).path(dataset.folder()).text(&text))
}

/// The path itself if nothing is there, or the next one with a number: `photos`, `photos-2`,
/// `photos-3`.
pub(crate) fn fresh(path: &Path) -> PathBuf {
    if !path.exists() {
        return path.to_path_buf();
    }
    let text =
        |part: Option<&std::ffi::OsStr>| part.unwrap_or_default().to_string_lossy().into_owned();
    let (stem, ending) = match path.is_dir() {
        true => (text(path.file_name()), String::new()),
        false => (text(path.file_stem()), format!(".{}", text(path.extension()))),
    };
    let numbered =
        stem.rsplit_once('-').and_then(|(stem, n)| Some((stem, n.parse::<usize>().ok()?)));
    let (stem, first) =
        numbered.map_or((stem.as_str(), 2), |(stem, n)| (stem, n.saturating_add(1)));
    let name = |n: usize| path.with_file_name(format!("{stem}-{n}{ending}"));
    (first..).map(name).find(|path| !path.exists()).unwrap_or_else(|| path.to_path_buf())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_of_a_strategy_is_a_flag() {
        for (name, flags) in [
            ("hard-negative", "--strategy hard-negative"),
            (
                "hard-negative+mini-25%+top-5+count+max-score-0.9+absolute-margin-0.1+relative-margin-0.2+index",
                "--strategy hard-negative --sample 25% --top-k 5 --weight count --max-score 0.9 \
                 --absolute-margin 0.1 --relative-margin 0.2 --fill index",
            ),
            (
                "core-set+encoded+usable+dedupe",
                "--strategy core-set --features encoded --usable --dedupe",
            ),
            (
                "novelty+bow+points-9+bandwidth-2+temperature-0.5+dedupe-0.98",
                "--strategy novelty --features bow --points 9 --bandwidth 2 --entropy-temperature 0.5 \
                 --dedupe 0.98",
            ),
        ] {
            let next = Next::new("select --pool-side image --budget 1 --model M DATASET");
            let line = next.flags(&strategy_flags(&name.parse().unwrap()));
            let line = line.words("--out picks.jsonl").0;
            assert!(line.contains(flags), "{line}");
            let parsed = crate::program::command().try_get_matches_from(line.split(' '));
            assert!(parsed.is_ok(), "{line}: {}", parsed.unwrap_err());
        }
    }

    #[test]
    fn names_are_new() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        assert_eq!(fresh(&path("photos")), path("photos"));
        std::fs::create_dir(path("photos")).unwrap();
        assert_eq!(fresh(&path("photos")), path("photos-2"));
        std::fs::create_dir(path("photos-2")).unwrap();
        assert_eq!(fresh(&path("photos")), path("photos-3"));
        assert_eq!(fresh(&path("photos-2")), path("photos-3"));
        std::fs::write(path("picks.jsonl"), "").unwrap();
        assert_eq!(fresh(&path("picks.jsonl")), path("picks-2.jsonl"));
    }
}
