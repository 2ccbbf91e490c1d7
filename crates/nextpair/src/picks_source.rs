//! A file of picks, as a source of the annotation app.

use std::error::Error as StdError;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use nextpair_annotate::{Batch, HandOver, Source};
use nextpair_core::{Error, Side};
use nextpair_data::dataset::Dataset;
use nextpair_data::queue::{Answer, AnswerLog, PicksFile, Task, same_picks};

/// Gives the annotation app a file of picks as a single batch. Answers go to a file beside it, with the
/// extension `.answers.jsonl`, when there is one to every pick.
pub struct PicksSource {
    tasks: Vec<Task>,
    answers: PathBuf,
    is_answered: AtomicBool,
    when_answered: Box<dyn Fn() + Send + Sync>,
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
        let is_answered = AtomicBool::new(is_answered);
        Ok(PicksSource { tasks, answers, is_answered, when_answered: Box::new(|| ()) })
    }

    /// Calls `told` when every pick has been answered.
    pub fn when_answered(self, told: impl Fn() + Send + Sync + 'static) -> Self {
        PicksSource { when_answered: Box::new(told), ..self }
    }

    /// The picks.
    pub fn tasks(&self) -> &[Task] {
        &self.tasks
    }

    /// The path of the answers.
    pub fn answers(&self) -> &Path {
        &self.answers
    }

    /// Whether every pick has an answer.
    pub fn is_answered(&self) -> bool {
        self.is_answered.load(Ordering::Relaxed)
    }
}

impl Source for PicksSource {
    fn batch(&self) -> Result<Option<Batch>, Box<dyn StdError + Send + Sync>> {
        let batch = || Batch { round: 1, tasks: self.tasks.clone() };
        Ok((!self.is_answered()).then(batch))
    }

    fn is_finished(&self) -> bool {
        self.is_answered()
    }

    fn hand_over(
        &self,
        batch: &Batch,
        answers: &[Answer],
    ) -> Result<HandOver, Box<dyn StdError + Send + Sync>> {
        // Keep answers that are there already: they may be about earlier picks.
        AnswerLog::open(&self.answers)?.append(answers)?;
        if same_picks(&batch.tasks, &self.tasks) {
            self.is_answered.store(true, Ordering::Relaxed);
            (self.when_answered)();
        }
        Ok(HandOver::Taken)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use nextpair_data::queue::Said;

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
    fn answers_are_handed_over_once_or_twice() {
        open("picks.jsonl", &(pick("a", &[]) + "\n"), Side::Image, |source, folder| {
            let source = source.unwrap();
            let batch = source.batch().unwrap().unwrap();
            let said = Said::Caption("A star.".into());
            let answers =
                [Answer { id: "a".into(), said, annotator: Some("eve".into()), provenance: None }];
            for _ in 0..2 {
                source.hand_over(&batch, &answers).unwrap();
                let written = AnswerLog::open(&folder.join("picks.answers.jsonl")).unwrap();
                assert_eq!(written.all(), answers);
                assert!(source.batch().unwrap().is_none());
            }
            let said = Said::Skip("earlier picks".into());
            let earlier = [Answer { id: "b".into(), said, annotator: None, provenance: None }];
            source.hand_over(&batch, &earlier).unwrap();
            let written = AnswerLog::open(&folder.join("picks.answers.jsonl")).unwrap();
            assert_eq!(written.all(), [&answers[..], &earlier].concat(), "nothing is lost");
            let dataset = Dataset::open(folder).unwrap();
            let path = folder.join("picks.jsonl");
            let picks = PicksFile::read(&path).unwrap();
            let again = PicksSource::open(&path, picks, &dataset, Side::Image);
            assert!(again.unwrap().is_answered());
        });
    }
}
