//! A queue as JSON lines, for programs.

use std::collections::HashMap;
use std::io::Write;
use std::path::Path;

use super::Task;
use crate::dataset::{check_name, without_place};
use crate::lines::{Line, Lines};
use crate::{AtomicFile, Error};

/// Writes a queue, one task per line.
pub fn write(path: &Path, tasks: &[Task]) -> Result<(), Error> {
    let mut seen = HashMap::new();
    let mut file = AtomicFile::create(path)?;
    for (row, task) in tasks.iter().enumerate() {
        task.check(row, &mut seen).map_err(|what| Error::row(path, row, what))?;
        let written = serde_json::to_writer(&mut file, task).map_err(std::io::Error::from);
        written.and_then(|()| file.write_all(b"\n")).map_err(|e| Error::io(path, e))?;
    }
    file.commit()
}

/// Reads a queue that [`write()`] wrote.
pub fn read(path: &Path) -> Result<Vec<Task>, Error> {
    let mut seen = HashMap::new();
    let (mut lines, mut tasks) = (Lines::open(path)?, Vec::new());
    while let Some(Line { number, text }) = lines.next()? {
        let task = text.and_then(|text| {
            let parsed = serde_json::from_str(&text);
            let task: Task = parsed.map_err(|e| format!("not a task: {}", without_place(&e)))?;
            task.check(number - 1, &mut seen).map(|()| task)
        });
        tasks.push(task.map_err(|what| Error::line(path, number, what))?);
    }
    Ok(tasks)
}

impl Task {
    /// Returns an error if no queue could have this task after those in `seen`.
    fn check(&self, at: usize, seen: &mut HashMap<String, usize>) -> Result<(), String> {
        check_name("id", &self.id)?;
        let numbers = self.why.iter().flat_map(|why| {
            [why.similarity, why.threshold, why.surplus].into_iter().chain(why.own)
        });
        // JSON has no NaN or infinities.
        if let Some(odd) = numbers.chain([self.score]).find(|number| !number.is_finite()) {
            return Err(format!("{odd} among the numbers of {}", self.id));
        }
        match seen.insert(self.id.clone(), at + 1) {
            Some(first) => Err(format!("{} is task {first} already", self.id)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::Why;

    fn task(id: &str) -> Task {
        Task {
            rank: 1,
            id: id.into(),
            score: 0.1 + 0.2,
            hits: None,
            why: Vec::new(),
            facts: Default::default(),
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("queue.jsonl");
        let why = Why {
            id: "b".into(),
            caption: "\"two\"\n lines – ü".into(),
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
        let line = "{\"rank\":1,\"id\":\"=a\",\"score\":0.30000000000000004}\n";
        assert_eq!(std::fs::read_to_string(&path).unwrap(), line);
    }

    #[test]
    fn impossible_tasks_are_not_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("queue.jsonl");
        for (second, expected) in [
            (Task { score: f64::NAN, ..task("b") }, "row 1: NaN among the numbers of b"),
            (Task { score: f64::INFINITY, ..task("b") }, "row 1: inf among the numbers of b"),
            (task("a"), "row 1: a is task 1 already"),
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
            ("", ":2: not a task: EOF"),
            (r#"{"rank":1,"id":"b","score":1,"x":1}"#, ":2: not a task: unknown field `x`"),
            (r#"{"rank":1,"id":"b","score":NaN}"#, ":2: not a task: expected value"),
            (r#"{"rank":1,"id":"b","score":1e999}"#, ":2: not a task: number out of range"),
            (r#"{"rank":-1,"id":"b","score":1}"#, ":2: not a task: invalid value"),
            (r#"{"rank":1,"id":" ","score":1}"#, ":2: the id is empty"),
            (good, ":2: a is task 1 already"),
            ("\u{0}", ":2: not a task"),
        ] {
            std::fs::write(&path, format!("{good}\n{second}\n")).unwrap();
            let what = read(&path).unwrap_err().to_string();
            assert!(what.contains(expected), "{what}");
        }
    }
}
