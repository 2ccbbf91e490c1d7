//! Picks and queues as JSON lines, for programs.

use std::collections::HashMap;
use std::io::Write;
use std::path::Path;

use super::answers::FilePosition;
use super::{Near, Task};
use crate::dataset::{check_name, without_place};
use crate::lines::{Line, Lines};
use crate::{AtomicFile, Error};

/// Writes a queue, one task per line.
pub fn write(path: &Path, tasks: &[Task]) -> Result<(), Error> {
    let mut seen = HashMap::new();
    for (row, task) in tasks.iter().enumerate() {
        task.check(row, &mut seen).map_err(|what| Error::row(path, row, what))?;
    }
    let mut file = AtomicFile::create(path)?;
    write_lines(&mut file, tasks).map_err(|e| Error::io(path, e))?;
    file.commit()
}

/// Reads a queue that [`write()`] wrote.
pub fn read(path: &Path) -> Result<Vec<Task>, Error> {
    Ok(read_placed(path)?.into_iter().map(|(_, task)| task).collect())
}

/// Returns whether two lists are the same picks: the same items with the same scores in the same
/// order. What else is recorded, such as captions of reasons, may differ.
pub fn same_picks<'a>(
    these: impl IntoIterator<Item = &'a Task>,
    those: impl IntoIterator<Item = &'a Task>,
) -> bool {
    let pick = |task: &'a Task| (task.id.as_str(), task.score.to_bits());
    these.into_iter().map(pick).eq(those.into_iter().map(pick))
}

/// Reads tasks with their places in the file.
pub(super) fn read_placed(path: &Path) -> Result<Vec<(FilePosition, Task)>, Error> {
    let mut seen = HashMap::new();
    let (mut lines, mut tasks) = (Lines::open(path)?, Vec::new());
    while let Some(Line { number, text }) = lines.next()? {
        let task = text.and_then(|text| {
            let parsed = serde_json::from_str(&text);
            let task: Task = parsed.map_err(|e| format!("not a pick: {}", without_place(&e)))?;
            task.check(number - 1, &mut seen).map(|()| task)
        });
        let place = FilePosition::Line(number);
        tasks.push((place, task.map_err(|what| place.error(path, what))?));
    }
    Ok(tasks)
}

/// Writes one task per line.
pub(super) fn write_lines(out: &mut dyn Write, tasks: &[Task]) -> std::io::Result<()> {
    for task in tasks {
        serde_json::to_writer(&mut *out, task)?;
        out.write_all(b"\n")?;
    }
    Ok(())
}

impl Task {
    /// Returns an error if no queue could have this task after those in `seen`.
    pub(super) fn check(&self, at: usize, seen: &mut HashMap<String, usize>) -> Result<(), String> {
        check_name("id", &self.id)?;
        let numbers = self.why.iter().flat_map(|why| {
            [why.similarity, why.threshold, why.surplus].into_iter().chain(why.own)
        });
        let mut numbers = numbers.chain(self.near.iter().map(Near::value)).chain([self.score]);
        // JSON has no NaN or infinities.
        if let Some(odd) = numbers.find(|number| !number.is_finite()) {
            return Err(format!("{odd} among the numbers of {}", self.id));
        }
        match seen.insert(self.id.clone(), at + 1) {
            Some(first) => Err(format!("{:?} is pick {first} already", self.id)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::Why;

    fn task(id: &str) -> Task {
        Task { rank: 1, id: id.into(), score: 0.1 + 0.2, ..Task::default() }
    }

    #[test]
    fn what_is_written_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("queue.jsonl");
        let why = Why {
            anchor: Some(3),
            anchor_id: Some("b#1".into()),
            id: Some("b".into()),
            caption: Some("\"two\"\n lines – ü".into()),
            similarity: 1.0 / 3.0,
            threshold: -0.0,
            surplus: 1e-300,
            own: Some(2.0 / 3.0),
        };
        let tasks = [task("=a"), Task { hits: Some(2), why: vec![why], rank: 2, ..task("ü") }];
        for tasks in [&tasks[..], &[]] {
            write(&path, tasks).unwrap();
            assert_eq!(read(&path).unwrap(), tasks);
        }
        write(&path, &tasks[..1]).unwrap();
        let line =
            "{\"rank\":1,\"id\":\"=a\",\"score\":0.30000000000000004,\"hits\":null,\"why\":[]}\n";
        assert_eq!(std::fs::read_to_string(&path).unwrap(), line);
    }

    #[test]
    fn the_same_picks_may_have_other_reasons() {
        let tasks = [Task { why: vec![Why::default()], ..task("a") }, task("b")];
        let others = [task("a"), Task { index: Some(7), ..task("b") }];
        assert!(same_picks(&tasks, &others) && !same_picks(&tasks, &others[..1]));
        assert!(!same_picks(&tasks, &[task("b"), task("a")]));
        assert!(!same_picks(&tasks[..1], &[Task { score: 0.3, ..task("a") }]));
    }

    #[test]
    fn picks_of_a_selection_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("picks.jsonl");
        let of_select = concat!(
            r#"{"rank":1,"index":7,"id":"a","score":0.5,"hits":null,"why":[{"anchor":1,"anchor_id":"b","#,
            r#""similarity":0.75,"threshold":0.25,"surplus":0.5}]}"#,
            "\n"
        );
        std::fs::write(&path, of_select).unwrap();
        let tasks = read(&path).unwrap();
        assert_eq!((tasks[0].index, tasks[0].hits), (Some(7), None));
        let why = &tasks[0].why[0];
        assert_eq!((why.anchor, why.anchor_id.as_deref()), (Some(1), Some("b")));
        assert_eq!((why.pair(), why.own), (None, None));
        write(&path, &tasks).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), of_select);
    }

    #[test]
    fn impossible_tasks_are_not_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("queue.jsonl");
        for (second, expected) in [
            (Task { score: f64::NAN, ..task("b") }, "row 1: NaN among the numbers of b"),
            (Task { score: f64::INFINITY, ..task("b") }, "row 1: inf among the numbers of b"),
            (task("a"), "row 1: \"a\" is pick 1 already"),
            (task("b\n"), "row 1: the id \"b\\n\" has control characters"),
        ] {
            let what = write(&path, &[task("a"), second]).unwrap_err().to_string();
            assert!(what.ends_with(expected), "{what}");
            assert!(!path.exists());
        }
    }

    #[test]
    fn wrong_lines_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("queue.jsonl");
        let good = r#"{"rank":1,"id":"a","score":1.0}"#;
        for (second, expected) in [
            ("", ":2: not a pick: EOF"),
            (r#"{"rank":1,"id":"b","score":1,"x":1}"#, ":2: not a pick: unknown field `x`"),
            (r#"{"rank":1,"id":"b","score":NaN}"#, ":2: not a pick: expected value"),
            (r#"{"rank":1,"id":"b","score":1e999}"#, ":2: not a pick: number out of range"),
            (r#"{"rank":-1,"id":"b","score":1}"#, ":2: not a pick: invalid value"),
            (r#"{"rank":1,"id":" ","score":1}"#, ":2: the id is empty"),
            (good, ":2: \"a\" is pick 1 already"),
            ("\u{0}", ":2: not a pick"),
        ] {
            std::fs::write(&path, format!("{good}\n{second}\n")).unwrap();
            let what = read(&path).unwrap_err().to_string();
            assert!(what.contains(expected), "{what}");
        }
    }
}
