//! Human annotators: the run writes a queue, stops, and goes on when the answers are there.

use std::collections::HashMap;
use std::fs;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use nextpair_data::AtomicFile;
use nextpair_data::queue::{self, Answer, Answers, Said, Task, read_answers};
use nextpair_models::{Corpus, Pair};

use super::Scenario;
use super::create::corpus;
use super::lane::Known;
use super::learn::Place;
use crate::plan::text_of;
use crate::{Arm, Error, Folder};

/// A batch that people have not finished.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// The round that it is for.
    pub round: usize,
    /// Items of the batch.
    pub picked: usize,
    /// Items that have an answer.
    pub answered: usize,
    /// What to give to people.
    pub queue: PathBuf,
}

impl Scenario {
    /// Takes what people said about a batch into what is known, or says that they are not done.
    pub(super) fn people(
        &self,
        (place, strategy): (Place<'_>, &Arm),
        (tasks, picked): (&[Task], &[usize]),
        known: &mut Known,
    ) -> Result<Option<Waiting>, Error> {
        // Answers that come later must not change what a model has learned from.
        let closed = self.folder.closed(place.seed, strategy, place.round);
        if !closed.exists() {
            let book = Answers::open(&self.folder.answers())?;
            let answered = tasks.iter().filter(|task| book.of(&task.id).next().is_some()).count();
            if answered < tasks.len() {
                let queue = self.write_queue(tasks)?;
                let (round, picked) = (place.round, tasks.len());
                return Ok(Some(Waiting { round, picked, answered, queue }));
            }
            let said: Vec<&Answer> = tasks.iter().flat_map(|task| book.of(&task.id)).collect();
            write_answers(&closed, &said)?;
        }
        remove_queue(&self.folder)?;
        let said = read_answers(&closed, self.experiment.pool)?;
        known.answers.extend(said.iter().cloned());
        let folder = self.folder.path().join("dataset");
        let dataset = self.corpus.dataset().enlarged(&folder, &known.answers)?;
        let larger = corpus(&self.experiment, dataset, self.vocabulary.as_ref())?;
        let smaller = known.corpus.as_ref().unwrap_or(&self.corpus);
        known.pairs = moved(&known.pairs, smaller, &larger);
        let by_image = larger.dataset().items().find(said.iter().filter_map(image));
        for (task, &item) in tasks.iter().zip(picked) {
            let about = said.iter().filter(|answer| answer.id == task.id);
            let pairs = self.pairs_of(place, &larger, item, about, &by_image);
            known.paired += usize::from(!pairs.is_empty());
            known.pairs.extend(pairs);
        }
        known.corpus = Some(larger);
        Ok(None)
    }

    /// The pairs that answers about an item make.
    fn pairs_of<'a>(
        &self,
        place: Place<'_>,
        corpus: &Corpus,
        item: usize,
        about: impl Iterator<Item = &'a Answer>,
        by_image: &HashMap<&str, usize>,
    ) -> Vec<Pair> {
        let items = corpus.dataset().items();
        let text = || {
            let caption = text_of(corpus, item, self.experiment.training.captions, place.seed)?;
            let at = caption - items.captions_of(item).start;
            Some(items.get(item).captions.swap_remove(at))
        };
        let mut pairs = Vec::new();
        for answer in about {
            let (item, text) = match &answer.said {
                Said::Skip(_) => continue,
                Said::Caption(caption) => (Some(&item), Some(caption.clone())),
                Said::Image(image) => (by_image.get(image.as_str()), text()),
            };
            let (Some(&item), Some(text)) = (item, text) else { continue };
            let own = items.get(item).captions.iter().position(|caption| *caption == text);
            let own = own.map(|at| items.captions_of(item).start + at);
            // Twice the same is one pair.
            let new =
                own.map(|caption| Pair { item, caption }).filter(|pair| !pairs.contains(pair));
            pairs.extend(new);
        }
        pairs
    }

    /// Writes what people are to do, in every form that they may want it in.
    fn write_queue(&self, tasks: &[Task]) -> Result<PathBuf, Error> {
        let (path, dataset) = (self.folder.queue(), self.corpus.dataset());
        let pool = self.experiment.pool;
        queue::write_csv(&path.with_extension("csv"), tasks, dataset, pool)?;
        let label_studio = path.with_extension("label-studio.json");
        queue::write_label_studio(&label_studio, tasks, dataset, pool)?;
        queue::write(&path, tasks)?;
        Ok(path)
    }
}

/// The item whose image somebody named.
fn image(answer: &Answer) -> Option<&str> {
    match &answer.said {
        Said::Image(image) => Some(image),
        _ => None,
    }
}

fn remove_queue(folder: &Folder) -> Result<(), Error> {
    for extension in ["jsonl", "csv", "label-studio.json"] {
        let path = folder.queue().with_extension(extension);
        match fs::remove_file(&path) {
            Err(e) if e.kind() != ErrorKind::NotFound => return Err(Error::io(&path, e)),
            _ => {}
        }
    }
    Ok(())
}

fn write_answers(path: &Path, answers: &[&Answer]) -> Result<(), Error> {
    let mut file = AtomicFile::create(path)?;
    for answer in answers {
        let line = serde_json::to_string(answer).map_err(|e| Error::file(path, e.to_string()))?;
        writeln!(file, "{line}").map_err(|e| Error::io(path, e))?;
    }
    Ok(file.commit()?)
}

/// Pairs of a corpus in one that has more captions: those of an item keep their order.
fn moved(pairs: &[Pair], from: &Corpus, to: &Corpus) -> Vec<Pair> {
    let start = |corpus: &Corpus, item| corpus.dataset().items().captions_of(item).start;
    let pair = |&Pair { item, caption }: &Pair| {
        let at = caption - start(from, item);
        Pair { item, caption: start(to, item) + at }
    };
    pairs.iter().map(pair).collect()
}
