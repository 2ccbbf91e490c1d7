//! A file of picks, as a source of the annotation app.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, bail};
use nextpair::annotate::{Batch, HandOver, Source};
use nextpair::data::dataset::{Dataset, Items};
use nextpair::data::queue::{self, Answer, AnswerLog, Task, Why};
use nextpair::data::{Side, ordinary};
use serde::Deserialize;

/// All picks form a single batch. Answers go to a file beside the picks.
pub(super) struct PicksFile {
    tasks: Vec<Task>,
    answers: PathBuf,
    is_answered: AtomicBool,
}

/// A line of the output of `nextpair select`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Pick {
    rank: usize,
    #[serde(rename = "index")]
    _index: u32,
    id: String,
    score: f64,
    hits: Option<u32>,
    why: Vec<Reason>,
    #[serde(default)]
    facts: BTreeMap<String, f64>,
}

/// A pair that the model would confuse a pick with, by its name in the selection.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Reason {
    anchor: u32,
    anchor_id: String,
    similarity: f64,
    threshold: f64,
    surplus: f64,
    /// Older versions did not write it.
    #[serde(default)]
    own: Option<f64>,
}

impl PicksFile {
    /// Reads picks and checks that the dataset has their items.
    pub(super) fn open(path: &Path, dataset: &Dataset, pool: Side) -> Result<Self> {
        let text = read(path)?;
        let tasks =
            if is_selection(&text) { selected(path, &text, dataset)? } else { queue::read(path)? };
        if tasks.is_empty() {
            bail!("{}: there are no picks in it", path.display());
        }
        let known = dataset.items().find(tasks.iter().map(|task| task.id.as_str()));
        for (at, Task { id, .. }) in tasks.iter().enumerate() {
            let place = || format!("{}:{}", path.display(), at + 1);
            let Some(&item) = known.get(id.as_str()) else {
                bail!("{}: {} has no item {id:?}", place(), dataset.folder().display());
            };
            if pool == Side::Text && dataset.items().captions_of(item).is_empty() {
                bail!("{}: the item {id:?} has no text to show; --pool-side is text", place());
            }
        }
        let answers = path.with_extension("answers.jsonl");
        let log = AnswerLog::open(&answers)?;
        let is_answered = tasks.iter().all(|task| log.of(&task.id).next().is_some());
        Ok(PicksFile { tasks, answers, is_answered: AtomicBool::new(is_answered) })
    }

    /// Returns the path of the answers.
    pub(super) fn answers(&self) -> &Path {
        &self.answers
    }

    /// Returns whether every pick has an answer.
    pub(super) fn is_answered(&self) -> bool {
        self.is_answered.load(Ordering::Relaxed)
    }
}

impl Source for PicksFile {
    fn batch(&self) -> Result<Option<Batch>, Box<dyn Error + Send + Sync>> {
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
    ) -> Result<HandOver, Box<dyn Error + Send + Sync>> {
        // Keep answers that are there already: they may be about earlier picks.
        AnswerLog::open(&self.answers)?.append(answers)?;
        if batch.tasks == self.tasks {
            self.is_answered.store(true, Ordering::Relaxed);
        }
        Ok(HandOver::Taken)
    }
}

/// Returns whether the text is a selection. Selections have indices, queues do not.
fn is_selection(text: &str) -> bool {
    let first: serde_json::Result<serde_json::Map<_, serde_json::Value>> =
        serde_json::from_str(text.lines().next().unwrap_or_default());
    first.is_ok_and(|line| line.contains_key("index"))
}

fn read(path: &Path) -> Result<String> {
    Ok(ordinary::read_text(path)?)
}

/// Returns the picks of a selection as tasks.
fn selected(path: &Path, text: &str, dataset: &Dataset) -> Result<Vec<Task>> {
    let (mut picks, mut seen) = (Vec::new(), HashSet::new());
    for (at, line) in text.lines().enumerate() {
        let place = || format!("{}:{}", path.display(), at + 1);
        let pick: Pick = serde_json::from_str(line).with_context(place)?;
        if !seen.insert(pick.id.clone()) {
            bail!("{}: {:?} was picked before", place(), pick.id);
        }
        picks.push(pick);
    }
    let names = picks.iter().flat_map(|pick| &pick.why).flat_map(|reason| {
        let name = reason.anchor_id.as_str();
        [Some(name), name.rsplit_once('#').map(|(id, _)| id)]
    });
    let items = dataset.items();
    let known = items.find(names.flatten());
    let task = |pick: &Pick| Task {
        rank: pick.rank,
        id: pick.id.clone(),
        score: pick.score,
        hits: pick.hits,
        why: pick.why.iter().filter_map(|reason| why(reason, items, &known)).collect(),
        facts: pick.facts.clone(),
    };
    Ok(picks.iter().map(task).collect())
}

/// Returns the pair that a reason names, if the dataset has it. The name is an item, meaning its
/// first caption, or `item#caption`, as selections with a model write it.
fn why(reason: &Reason, items: &Items, known: &HashMap<&str, usize>) -> Option<Why> {
    let name = reason.anchor_id.as_str();
    // A selection without names numbers its pairs. Such a number is not an id.
    if name == reason.anchor.to_string() {
        return None;
    }
    let (&item, caption) = match known.get(name) {
        Some(item) => (item, 0),
        None => {
            let (id, caption) = name.rsplit_once('#')?;
            (known.get(id)?, caption.parse().ok()?)
        }
    };
    let item = items.get(item);
    let caption = item.captions.get(caption)?.clone();
    let &Reason { similarity, threshold, surplus, own, .. } = reason;
    Some(Why { id: item.id, caption, similarity, threshold, surplus, own })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use nextpair::data::queue::Said;

    const ITEMS: &str = concat!(
        "{\"id\":\"a\",\"image\":\"a.jpg\"}\n",
        "{\"id\":\"b\",\"image\":\"b.jpg\",\"captions\":[\"one\",\"two\"]}\n",
        "{\"id\":\"7\",\"image\":\"c.jpg\",\"captions\":[\"seven\"]}\n",
        "{\"id\":\"b#1\",\"image\":\"d.jpg\"}\n",
    );
    const MANIFEST: &str =
        "nextpair_dataset = 1\nname = \"x\"\nsource = \"x\"\nitems = 4\ncaptions = 3\n";

    fn open(name: &str, text: &str, pool: Side, test: impl FnOnce(Result<PicksFile>, &Path)) {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("items.jsonl"), ITEMS).unwrap();
        fs::write(folder.path().join("dataset.toml"), MANIFEST).unwrap();
        let dataset = Dataset::open(folder.path()).unwrap();
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        test(PicksFile::open(&path, &dataset, pool), folder.path());
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
    fn selections_are_tasks_with_the_captions_of_their_reasons() {
        let anchors =
            [(1, "b"), (2, "b#0"), (3, "7"), (7, "7"), (4, "b#9"), (5, "z#0"), (6, "b#x")];
        let text = format!("{}\n{}\n", pick("a", &anchors), pick("b", &[(1, "a"), (2, "b#1")]));
        open("picks.jsonl", &text, Side::Image, |source, _| {
            let batch = source.unwrap().batch().unwrap().unwrap();
            let why = |task: &Task| {
                let pair = |why: &Why| format!("{} {}", why.id, why.caption);
                task.why.iter().map(pair).collect::<Vec<_>>()
            };
            assert_eq!((batch.round, batch.tasks.len()), (1, 2));
            assert_eq!(why(&batch.tasks[0]), ["b one", "b one", "7 seven"]);
            assert!(why(&batch.tasks[1]).is_empty(), "they have no caption");
        });
    }

    #[test]
    fn what_cannot_be_asked_about_is_refused() {
        let queue = |id: &str| format!("{{\"rank\":1,\"id\":\"{id}\",\"score\":1.0}}\n");
        for (text, pool, expected) in [
            (queue("a") + &queue("z"), Side::Image, "picks.jsonl:2: "),
            (queue("a") + &queue("a"), Side::Image, "picks.jsonl:2: a is task 1 already"),
            (queue("b") + &queue("a"), Side::Text, ":2: the item \"a\" has no text to show"),
            (pick("a", &[]) + "\n" + &pick("z", &[]), Side::Image, "has no item \"z\""),
            (pick("a", &[]) + "\n" + &pick("a", &[]), Side::Image, ":2: \"a\" was picked before"),
            (pick("a", &[]) + "\n{}", Side::Image, "picks.jsonl:2"),
            ("{".to_owned(), Side::Image, "picks.jsonl:1: not a task"),
            (String::new(), Side::Image, "there are no picks in it"),
        ] {
            open("picks.jsonl", &text, pool, |source, _| {
                let what = format!("{:#}", source.err().expect("nothing to serve"));
                assert!(what.contains(expected), "{what}");
            });
        }
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
            let again = PicksFile::open(&folder.join("picks.jsonl"), &dataset, Side::Image);
            assert!(again.unwrap().is_answered());
        });
    }
}
