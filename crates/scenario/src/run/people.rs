//! Human annotators: the experiment writes a queue, stops, and continues when all answers are
//! there, or when the annotation app closed the batch with fewer.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use nextpair_data::queue::{self, Answer, AnswerContent, AnswerLog, Task, read_answers};
use nextpair_data::{AtomicFile, Within, fingerprint_of};
use nextpair_models::{Corpus, Pair};

use super::create::corpus_of;
use super::lane::Known;
use super::learn::Place;
use super::{Observer, Scenario};
use crate::inbox::close;
use crate::{Arm, Batch, Error};

/// A batch with missing answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// The round of the batch.
    pub round: usize,
    /// Number of tasks.
    pub picked: usize,
    /// Number of tasks with an answer.
    pub answered: usize,
    /// The path of the queue.
    pub queue: PathBuf,
}

impl Scenario {
    /// Adds the answers to a batch, of tasks and their items, to `known`, or returns the batch if answers are missing.
    pub(super) fn people(
        &self,
        place: Place<'_>,
        strategy: &Arm,
        (tasks, picked): (&[Task], &[usize]),
        known: &mut Known,
        batch: &mut Batch,
        observer: &dyn Observer,
    ) -> Result<Option<Waiting>, Error> {
        // Later answers must not change the training data, so close the batch.
        let closed = self.folder.closed(place.seed, strategy, place.round);
        if !closed.exists() {
            let log = AnswerLog::open(&self.folder.answers())?;
            let answered = tasks.iter().filter(|task| log.of(&task.id).next().is_some()).count();
            if answered < tasks.len() {
                let queue = self.write_queue(tasks)?;
                let (round, picked) = (place.round, tasks.len());
                return Ok(Some(Waiting { round, picked, answered, queue }));
            }
            close(&closed, tasks, &log)?;
        }
        self.put_queue_away(&closed, tasks)?;
        let print = self.check_kept(place, &closed, |batch| batch.answers.as_deref())?;
        batch.answers = Some(print);
        let said =
            queue::standing(read_answers(&closed, self.experiment.pool, self.corpus.dataset())?);
        known.answers.extend(said.iter().cloned());
        let path = self.folder.captions(place.seed, strategy, place.round);
        let progress = Within::new(observer, place.to_string(), &[]);
        batch.captions =
            self.encode_captions(place, &path, &said, &mut known.captions, &progress)?;
        let path = self.folder.image_features(place.seed, strategy, place.round);
        batch.images = self.encode_images(place, &path, &said, &mut known.images, &progress)?;
        drop(progress);
        let folder = self.folder.path().join("dataset");
        let (captions, images) = (known.captions.as_slice(), &known.images);
        // The dataset of the round before is replaced, and Windows refuses that while it is open.
        let smaller = known.corpus.take();
        let kept = within_items(&known.pairs, smaller.as_ref().unwrap_or(&self.corpus));
        drop(smaller);
        let dataset = self.corpus.dataset().enlarged(&folder, &known.answers, captions, images)?;
        let words = self.reading(place.seed)?.vocabulary;
        let larger = corpus_of(&self.experiment, dataset, words)?;
        known.pairs = numbered(&kept, &larger);
        let by_image = larger.dataset().items().find(said.iter().filter_map(image));
        let refused: HashSet<String> = queue::refused(said.clone()).into_iter().collect();
        for (task, &item) in tasks.iter().zip(picked) {
            let mut about = said.iter().filter(|answer| answer.id == task.id).peekable();
            if about.peek().is_none() {
                // The batch was closed early: the item stays in the pool.
                known.gone.retain(|&gone| gone != item);
                batch.unanswered += 1;
                continue;
            }
            let text = self.text_of(&larger, item, place.seed);
            let text = text.map(|caption| words_of(&larger, caption));
            let pairs = pairs_of(&larger, (item, text), about, &by_image);
            known.paired += usize::from(!pairs.is_empty());
            batch.skipped += usize::from(pairs.is_empty());
            known.refused.extend(refused.contains(&task.id).then_some(item));
            known.pairs.extend(pairs);
        }
        known.corpus = Some(larger);
        Ok(None)
    }

    /// Returns the fingerprint of a file of answers or features. Returns an error if the round was
    /// finished with another one.
    pub(super) fn check_kept(
        &self,
        place: Place<'_>,
        path: &Path,
        written_down: impl Fn(&Batch) -> Option<&str>,
    ) -> Result<String, Error> {
        let print = fingerprint_of(path)?;
        let finished = self.finished(place).and_then(|round| round.batch);
        let same = |written: &str| written == print;
        if finished.as_ref().and_then(written_down).is_none_or(same) {
            return Ok(print);
        }
        let what = format!("not what {place} was finished with; put it back as it was");
        Err(Error::file(path, what))
    }

    /// Writes the queue in all formats. An existing queue stays: annotators may be editing the
    /// sheet.
    fn write_queue(&self, tasks: &[Task]) -> Result<PathBuf, Error> {
        let (path, dataset) = (self.folder.queue(), self.corpus.dataset());
        if path.exists() && queue::read(&path)? == tasks {
            return Ok(path);
        }
        // Before people work: what they write could not be used without an encoder.
        self.check_caption_source()?;
        let pool = self.experiment.pool;
        queue::write_csv(&path.with_extension("csv"), tasks, dataset, pool)?;
        let label_studio = path.with_extension("label-studio.json");
        queue::write_label_studio(&label_studio, tasks, dataset, pool)?;
        let interface = path.with_extension("label-studio.xml");
        AtomicFile::write_whole(&interface, queue::label_studio_config(pool).as_bytes())?;
        // Write the tasks last: if they exist, so do the other formats.
        queue::write(&path, tasks)?;
        Ok(path)
    }

    /// Removes the queue of a closed batch. The sheet moves beside the picks, because annotators
    /// may have edited it.
    fn put_queue_away(&self, closed: &Path, tasks: &[Task]) -> Result<(), Error> {
        let path = self.folder.queue();
        if !path.exists() || queue::read(&path)? != tasks {
            return Ok(());
        }
        let sheet = path.with_extension("csv");
        if sheet.exists() {
            fs::rename(&sheet, closed.with_extension("csv")).map_err(|e| Error::io(&sheet, e))?;
        }
        for extension in ["label-studio.json", "label-studio.xml", "jsonl"] {
            let path = path.with_extension(extension);
            match fs::remove_file(&path) {
                Err(e) if e.kind() != ErrorKind::NotFound => return Err(Error::io(&path, e)),
                _ => {}
            }
        }
        Ok(())
    }
}

/// Returns the pairs from answers about an item or its text.
fn pairs_of<'a>(
    corpus: &Corpus,
    (item, text): (usize, Option<String>),
    about: impl Iterator<Item = &'a Answer>,
    by_image: &HashMap<&str, usize>,
) -> Vec<Pair> {
    let items = corpus.dataset().items();
    let mut pairs = Vec::new();
    for answer in about {
        let (item, text) = match &answer.said {
            AnswerContent::Skip(_) => continue,
            AnswerContent::Caption(caption) => (Some(&item), Some(caption)),
            AnswerContent::Image(image) => (by_image.get(image.as_str()), text.as_ref()),
        };
        let (Some(&item), Some(text)) = (item, text) else { continue };
        let own = items.get(item).captions.iter().position(|caption| caption == text);
        let own = own.map(|at| items.captions_of(item).start + at);
        // Leave out captions and images that could not be encoded.
        let own = own.filter(|&caption| corpus.has_text(caption) && corpus.has_image(item));
        // Equal answers make one pair.
        let new = own.map(|caption| Pair { item, caption }).filter(|pair| !pairs.contains(pair));
        pairs.extend(new);
    }
    pairs
}

/// Returns the text of a caption, by its number in the dataset.
fn words_of(corpus: &Corpus, caption: usize) -> String {
    let items = corpus.dataset().items();
    let owner = items.item_of_caption(caption);
    items.get(owner).captions.swap_remove(caption - items.captions_of(owner).start)
}

/// Returns the item whose image an answer names.
fn image(answer: &Answer) -> Option<&str> {
    match &answer.said {
        AnswerContent::Image(image) => Some(image),
        _ => None,
    }
}

/// Returns the items of pairs, each with the place of the caption among those of the item. A corpus with more captions
/// keeps these places.
fn within_items(pairs: &[Pair], corpus: &Corpus) -> Vec<(usize, usize)> {
    let place = |pair: &Pair| (pair.item, pair.caption - first_caption(pair.item, corpus));
    pairs.iter().map(place).collect()
}

/// Returns the pairs with these places in a corpus.
fn numbered(places: &[(usize, usize)], corpus: &Corpus) -> Vec<Pair> {
    let pair =
        |&(item, at): &(usize, usize)| Pair { item, caption: first_caption(item, corpus) + at };
    places.iter().map(pair).collect()
}

fn first_caption(item: usize, corpus: &Corpus) -> usize {
    corpus.dataset().items().captions_of(item).start
}
