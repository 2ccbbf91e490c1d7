//! A file of picks, as a source of the annotation app.

use std::error::Error as StdError;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use nextpair_annotate::{Batch, HandOver, Source};
use nextpair_core::{Error, Side};
use nextpair_data::dataset::Dataset;
use nextpair_data::queue::{Answer, AnswerLog, PicksFile, Task, same_picks};

/// Gives the annotation app a file of picks as a single batch. Answers go to a file beside it, with the
/// extension `.answers.jsonl`, when the round is closed. Picks that nobody answered are not in it.
pub struct PicksSource {
    tasks: Vec<Task>,
    answers: PathBuf,
    is_closed: AtomicBool,
    when_closed: Box<dyn Fn() + Send + Sync>,
}

impl PicksSource {
    /// Takes picks about items of a dataset.
    pub fn open(
        path: &Path,
        picks: PicksFile,
        dataset: &Dataset,
        pool: Side,
    ) -> Result<Self, Error> {
        let tasks = picks.about(dataset, pool)?;
        let answers = path.with_extension("answers.jsonl");
        let log = AnswerLog::open(&answers)?;
        let is_answered = tasks.iter().all(|task| log.of(&task.id).next().is_some());
        let is_closed = AtomicBool::new(is_answered);
        Ok(PicksSource { tasks, answers, is_closed, when_closed: Box::new(|| ()) })
    }

    /// Calls `told` when answers were handed over: at the end of the round, and when more were
    /// reviewed after it.
    pub fn when_closed(self, told: impl Fn() + Send + Sync + 'static) -> Self {
        PicksSource { when_closed: Box::new(told), ..self }
    }

    /// The picks.
    pub fn tasks(&self) -> &[Task] {
        &self.tasks
    }

    /// The path of the answers.
    pub fn answers(&self) -> &Path {
        &self.answers
    }

    /// Whether nobody is to be asked: every pick has an answer, or the round was closed.
    pub fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Relaxed)
    }
}

impl Source for PicksSource {
    fn batch(&self) -> Result<Option<Batch>, Box<dyn StdError + Send + Sync>> {
        let batch = || Batch { round: 1, tasks: self.tasks.clone() };
        Ok((!self.is_closed()).then(batch))
    }

    /// There is one batch only. After a restart, the app's database knows whether it was closed.
    fn is_finished(&self) -> bool {
        true
    }

    fn hand_over(
        &self,
        batch: &Batch,
        answers: &[Answer],
    ) -> Result<HandOver, Box<dyn StdError + Send + Sync>> {
        // Keep answers that are there already: they may be about earlier picks.
        AnswerLog::open(&self.answers)?.append(answers)?;
        if same_picks(&batch.tasks, &self.tasks) {
            self.is_closed.store(true, Ordering::Relaxed);
            (self.when_closed)();
        }
        Ok(HandOver::Taken)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use nextpair_data::queue::AnswerContent;

    const ITEMS: &str = concat!(
        "{\"id\":\"a\",\"image\":\"a.jpg\"}\n",
        "{\"id\":\"b\",\"image\":\"b.jpg\",\"captions\":[\"one\",\"two\"]}\n",
        "{\"id\":\"7\",\"image\":\"c.jpg\",\"captions\":[\"seven\"]}\n",
        "{\"id\":\"b#1\",\"image\":\"d.jpg\"}\n",
    );
    const MANIFEST: &str =
        "nextpair_dataset = 1\nname = \"x\"\nsource = \"x\"\nitems = 4\ncaptions = 3\n";

    fn open(
        name: &str,
        text: &str,
        pool: Side,
        test: impl FnOnce(Result<PicksSource, Error>, &Path),
    ) {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("items.jsonl"), ITEMS).unwrap();
        fs::write(folder.path().join("dataset.toml"), MANIFEST).unwrap();
        let dataset = Dataset::open(folder.path()).unwrap();
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        let picks = PicksFile::read(&path).unwrap();
        test(PicksSource::open(&path, picks, &dataset, pool), folder.path());
    }

    fn pick(id: &str, anchors: &[(u32, &str)]) -> String {
        let why = |(number, id): &(u32, &str)| {
            format!(
                r#"{{"anchor":{number},"anchor_id":"{id}","similarity":0.5,"threshold":0.25,"surplus":0.25}}"#
            )
        };
        let why: Vec<String> = anchors.iter().map(why).collect();
        let why = why.join(",");
        format!(r#"{{"rank":1,"index":3,"id":"{id}","score":0.5,"hits":null,"why":[{why}]}}"#)
    }

    #[test]
    fn a_round_that_was_closed_early_ends_and_may_get_more_answers_later() {
        let picks = pick("a", &[]) + "\n" + &pick("b", &[]) + "\n";
        open("picks.jsonl", &picks, Side::Image, |source, folder| {
            let told = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
            let count = std::sync::Arc::clone(&told);
            let source = source.unwrap().when_closed(move || {
                count.fetch_add(1, Ordering::Relaxed);
            });
            let batch = source.batch().unwrap().unwrap();
            let answer = |id: &str| {
                let said = AnswerContent::Caption(format!("A star on {id}."));
                Answer { id: id.into(), said, annotator: Some("eve".into()), provenance: None }
            };
            source.hand_over(&batch, &[answer("a")]).unwrap();
            assert!(
                source.is_closed() && source.is_finished() && source.batch().unwrap().is_none()
            );
            let log = || AnswerLog::open(&folder.join("picks.answers.jsonl")).unwrap();
            assert_eq!(log().all(), [answer("a")], "nobody said anything of b");
            // The answer to b was reviewed after the round.
            for _ in 0..2 {
                source.hand_over(&batch, &[answer("a"), answer("b")]).unwrap();
                assert_eq!(log().all(), [answer("a"), answer("b")]);
            }
            assert_eq!(told.load(Ordering::Relaxed), 3);
        });
    }

    #[test]
    fn answers_are_handed_over_once_or_twice() {
        open("picks.jsonl", &(pick("a", &[]) + "\n"), Side::Image, |source, folder| {
            let source = source.unwrap();
            let batch = source.batch().unwrap().unwrap();
            let said = AnswerContent::Caption("A star.".into());
            let answers =
                [Answer { id: "a".into(), said, annotator: Some("eve".into()), provenance: None }];
            for _ in 0..2 {
                source.hand_over(&batch, &answers).unwrap();
                let written = AnswerLog::open(&folder.join("picks.answers.jsonl")).unwrap();
                assert_eq!(written.all(), answers);
                assert!(source.batch().unwrap().is_none());
            }
            let said = AnswerContent::Skip("earlier picks".into());
            let earlier = [Answer { id: "b".into(), said, annotator: None, provenance: None }];
            source.hand_over(&batch, &earlier).unwrap();
            let written = AnswerLog::open(&folder.join("picks.answers.jsonl")).unwrap();
            assert_eq!(written.all(), [&answers[..], &earlier].concat(), "nothing is lost");
            let dataset = Dataset::open(folder).unwrap();
            let path = folder.join("picks.jsonl");
            let picks = PicksFile::read(&path).unwrap();
            let again = PicksSource::open(&path, picks, &dataset, Side::Image);
            assert!(again.unwrap().is_closed());
        });
    }
}
