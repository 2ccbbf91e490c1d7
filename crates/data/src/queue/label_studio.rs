//! A queue as Label Studio tasks.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io::Write;
use std::path::Path;

use serde::Serializer as _;
use serde_json::{Serializer, Value, json};

use super::shown::{Queue, TaskWithItem, wanted};
use super::{Answer, AnswerContent, Outcome, Task};
use crate::dataset::Dataset;
use crate::{AtomicFile, Error, Side, escape};

/// The text area of an exported skip.
pub(super) const SKIP: &str = "skip";

/// Writes tasks to import into Label Studio, for the interface of [`label_studio_config`].
///
/// The data has the id of the item twice: the JSON-MIN export overwrites `id` with its own number,
/// while `item` comes back from every export. If the dataset's images are available, `image` is the
/// address at which Label Studio serves local files, provided that its document root is the parent
/// of the image folder. Otherwise `image` is the name of the image.
pub fn write_label_studio(
    path: &Path,
    tasks: &[Task],
    dataset: &Dataset,
    pool: Side,
) -> Result<(), Error> {
    let queue = Queue::of(path, tasks, dataset)?;
    let layout = Layout::of(path, tasks, dataset, pool)?;
    let mut file = AtomicFile::create(path)?;
    let exported = queue.iter().map(|shown| layout.task(&shown));
    let written = Serializer::pretty(&mut file).collect_seq(exported).map_err(Into::into);
    written.and_then(|()| file.write_all(b"\n")).map_err(|e| Error::io(path, e))?;
    file.commit()
}

/// Writes the same tasks with their answers, and in their data what became of them (`status`). An annotator is an `email`, by which Label Studio
/// knows its users. A skip is a cancelled annotation with its reason in a text area `skip`.
pub(super) fn write_annotations(
    mut out: &mut dyn Write,
    queue: &Queue<'_>,
    answers: &[Answer],
    outcomes: &[Outcome],
    layout: &Layout<'_>,
) -> std::io::Result<()> {
    let mut about: HashMap<&str, Vec<&Answer>> = HashMap::new();
    for answer in answers {
        about.entry(&answer.id).or_default().push(answer);
    }
    let exported = queue.iter().zip(outcomes).map(|(shown, outcome)| {
        let mut task = layout.task(&shown);
        task["data"]["status"] = outcome.name().into();
        let about = about.get(shown.task.id.as_str()).into_iter().flatten();
        task["annotations"] = about.map(|answer| layout.annotation(answer)).collect();
        task
    });
    Serializer::pretty(&mut out).collect_seq(exported)?;
    out.write_all(b"\n")
}

/// The conversion of items to tasks.
pub(super) struct Layout<'a> {
    pool: Side,
    dataset: &'a Dataset,
}

impl<'a> Layout<'a> {
    /// Checks the scores of the tasks, because JSON has no NaN or infinities. Errors name `path`,
    /// the file to be written.
    pub(super) fn of(
        path: &Path,
        tasks: &[Task],
        dataset: &'a Dataset,
        pool: Side,
    ) -> Result<Self, Error> {
        if let Some(row) = tasks.iter().position(|task| !task.score.is_finite()) {
            let Task { id, score, .. } = &tasks[row];
            return Err(Error::row(path, row, format!("the score of {id} is {score}")));
        }
        Ok(Layout { pool, dataset })
    }

    fn task(&self, shown: &TaskWithItem<'_>) -> Value {
        let Task { id, score, .. } = shown.task;
        let confused_with = shown.confused_with("\n");
        let mut data =
            json!({ "id": id, "item": id, "score": score, "confused_with": confused_with });
        let folder = self.dataset.image_folder_of(&shown.item);
        let folder = folder.as_deref().and_then(Path::file_name).map(OsStr::to_string_lossy);
        let given = match (self.pool, folder, &shown.item.image) {
            (Side::Text, ..) => shown.item.captions.join("\n"),
            (_, Some(folder), Some(image)) => local_address(&format!("{folder}/{image}")),
            _ => shown.image().to_owned(),
        };
        data[self.pool.to_string()] = given.into();
        let prediction = json!({ "model_version": "nextpair", "score": score, "result": [] });
        json!({ "data": data, "predictions": [prediction] })
    }

    fn annotation(&self, answer: &Answer) -> Value {
        let (area, text, cancelled) = match &answer.said {
            AnswerContent::Caption(text) | AnswerContent::Image(text) => {
                (wanted(self.pool), text, false)
            }
            AnswerContent::Skip(reason) => (SKIP, reason, true),
        };
        let result = json!({
            "type": "textarea", "from_name": area, "to_name": self.pool.to_string(),
            "value": { "text": [text] },
        });
        let mut annotation = json!({ "was_cancelled": cancelled, "result": [result] });
        if let Some(annotator) = &answer.annotator {
            annotation["completed_by"] = json!({ "email": annotator });
        }
        if let Some(provenance) = answer.provenance {
            annotation["provenance"] = provenance.name().into();
        }
        annotation
    }
}

/// The address at which Label Studio serves a file inside its document root.
fn local_address(file: &str) -> String {
    format!("/data/local-files/?d={}", escape::url_path(file))
}

/// The labelling interface for these tasks. [`read_answers`](super::read_answers) finds the answers
/// in an export by the name of its text area.
pub fn label_studio_config(pool: Side) -> &'static str {
    match pool {
        Side::Image => {
            r#"<View>
  <Image name="image" value="$image" zoom="true" zoomControl="true"/>
  <Header value="Describe the image so that nobody takes it for one of these:"/>
  <Text name="confused_with" value="$confused_with"/>
  <TextArea name="caption" toName="image" rows="2" editable="true" required="true"/>
</View>
"#
        }
        Side::Text => {
            r#"<View>
  <Text name="text" value="$text"/>
  <Header value="It may be taken for one of these:"/>
  <Text name="confused_with" value="$confused_with"/>
  <Header value="The id of the item whose image it describes:"/>
  <TextArea name="image" toName="text" rows="1" editable="true" required="true"/>
</View>
"#
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dataset::sample::{dataset, item};
    use crate::queue::{Why, read_answers};

    fn task(id: &str, score: f64) -> Task {
        let why = |caption: &str| Why {
            id: Some("w".into()),
            caption: Some(caption.into()),
            similarity: 0.5,
            threshold: 0.25,
            surplus: 0.25,
            ..Why::default()
        };
        Task {
            rank: 1,
            id: id.into(),
            score,
            hits: Some(2),
            why: vec![why("A"), why("<b>")],
            ..Task::default()
        }
    }

    #[test]
    fn tasks_have_what_label_studio_shows() {
        let folder = tempfile::tempdir().unwrap();
        let (path, root) = (folder.path().join("tasks.json"), folder.path().join("d"));
        let items = [item("a", Some("x/a +ü.jpg"), &[]), item("b", None, &["one", "two"])];
        let data = dataset(&root, &items, |manifest| manifest.images = Some("images".into()));
        let exported = |task, data: &Dataset, pool| {
            write_label_studio(&path, &[task], data, pool).unwrap();
            serde_json::from_slice::<Value>(&std::fs::read(&path).unwrap()).unwrap()
        };
        let expected = json!([{
            "data": {
                "id": "a", "item": "a", "score": 0.5, "confused_with": "A\n<b>",
                "image": "/data/local-files/?d=images/x/a%20%2B%C3%BC.jpg",
            },
            "predictions": [{ "model_version": "nextpair", "score": 0.5, "result": [] }],
        }]);
        assert_eq!(exported(task("a", 0.5), &data, Side::Image), expected);
        assert_eq!(exported(task("b", 0.5), &data, Side::Image)[0]["data"]["image"], "b");
        let text = exported(task("b", 0.5), &data, Side::Text);
        assert_eq!(text[0]["data"]["text"], "one\ntwo");
        assert!(text[0]["data"].get("image").is_none());
        drop(data);
        let data = dataset(&root, &items, |_| {});
        assert_eq!(exported(task("a", 0.5), &data, Side::Image)[0]["data"]["image"], "x/a +ü.jpg");
        for (wrong, expected) in [(task("c", 0.5), "no item \"c\""), (task("a", f64::NAN), "NaN")] {
            let what = write_label_studio(&path, &[wrong], &data, Side::Image).unwrap_err();
            assert!(what.to_string().contains(expected), "{what}");
        }
    }

    #[test]
    fn what_is_entered_comes_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tasks.json");
        let items = [item("=a", None, &["x"])];
        let data = dataset(&folder.path().join("d"), &items, |_| {});
        for (pool, name, said) in [
            (Side::Image, "caption", AnswerContent::Caption("y".into())),
            (Side::Text, "image", AnswerContent::Image("y".into())),
        ] {
            assert!(label_studio_config(pool).contains(&format!("<TextArea name=\"{name}\"")));
            write_label_studio(&path, &[task("=a", 0.5)], &data, pool).unwrap();
            assert!(read_answers(&path, pool, &data).is_err(), "tasks are not answers");
            let mut tasks: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
            let result =
                json!({ "type": "textarea", "from_name": name, "value": { "text": ["y"] } });
            tasks[0]["annotations"] = json!([{ "completed_by": 1, "result": [result] }]);
            std::fs::write(&path, tasks.to_string()).unwrap();
            let expected =
                Answer { id: "=a".into(), said, annotator: Some("1".into()), provenance: None };
            assert_eq!(read_answers(&path, pool, &data).unwrap(), [expected]);
        }
    }
}
