//! Export of answers in COCO's captions layout.

use std::collections::{BTreeSet, HashMap};
use std::io::Write;
use std::path::Path;

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::json;

use crate::dataset::Dataset;
use crate::queue::{Answer, AnswerContent, Outcome, Provenance};
use crate::{Error, picture};

/// An image and its item. Sizes are those of the file, if it is available.
#[derive(Serialize)]
struct Image {
    id: usize,
    file_name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    width: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    height: Option<u32>,
    nextpair_id: String,
}

/// A caption of an image. In text pools it has the id of the text as well.
#[derive(Serialize)]
struct Annotation<'a> {
    id: usize,
    image_id: usize,
    caption: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    annotator: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    nextpair_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    provenance: Option<Provenance>,
}

/// Writes the images that have an answer, and the answers. Skips, tasks without a finished answer and
/// images outside the dataset are only counted. The number of an image is its item's line in the dataset, so it is the same in
/// every export.
pub(super) fn write(
    out: &mut dyn Write,
    path: &Path,
    answers: &[Answer],
    outcomes: &[Outcome],
    dataset: &Dataset,
) -> Result<(), Error> {
    let named = answers.iter().flat_map(|answer| match &answer.said {
        AnswerContent::Image(image) => [Some(answer.id.as_str()), Some(image.as_str())],
        _ => [Some(answer.id.as_str()), None],
    });
    let numbers = dataset.items().find(named.flatten());
    let mut images = BTreeSet::new();
    for (row, answer) in answers.iter().enumerate() {
        let Some(image) = image_of(answer) else { continue };
        let Some(&number) = numbers.get(image) else {
            // An image that an annotator uploaded for a text.
            if matches!(answer.said, AnswerContent::Image(_)) {
                continue;
            }
            let what = format!("{} has no item {image:?}", dataset.folder().display());
            return Err(Error::row(path, row, what));
        };
        images.insert(number);
    }
    let skipped = answers.iter().filter(|answer| image_of(answer).is_none()).count();
    let elsewhere = |answer: &&Answer| image_of(answer).is_some_and(|id| !numbers.contains_key(id));
    let elsewhere = answers.iter().filter(elsewhere).count();
    let count = |one: Outcome| outcomes.iter().filter(|outcome| **outcome == one).count();
    let info = json!({
        "description": format!("captions of {}, collected with nextpair", dataset.manifest().name),
        "version": env!("CARGO_PKG_VERSION"),
        "skipped": skipped,
        "unreviewed": count(Outcome::Unreviewed),
        "unanswered": count(Outcome::Unanswered),
        "images_not_in_dataset": elsewhere,
    });
    let mut write = || {
        let mut json = serde_json::Serializer::new(&mut *out);
        let mut file = json.serialize_map(Some(4))?;
        file.serialize_entry("info", &info)?;
        file.serialize_entry(
            "images",
            &LazySequence(|| images.iter().map(|&item| image(dataset, item))),
        )?;
        file.serialize_entry(
            "annotations",
            &LazySequence(|| annotations(answers, dataset, &numbers)),
        )?;
        file.serialize_entry("licenses", &[(); 0])?;
        file.end()?;
        out.write_all(b"\n")
    };
    write().map_err(|e| Error::io(path, e))
}

/// A sequence that is computed while it is written.
struct LazySequence<F>(F);

impl<F, I> Serialize for LazySequence<F>
where
    F: Fn() -> I,
    I: Iterator<Item: Serialize>,
{
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq((self.0)())
    }
}

/// The item whose image an answer pairs.
fn image_of(answer: &Answer) -> Option<&str> {
    match &answer.said {
        AnswerContent::Caption(_) => Some(&answer.id),
        AnswerContent::Image(image) => Some(image),
        AnswerContent::Skip(_) => None,
    }
}

fn image(dataset: &Dataset, number: usize) -> Image {
    let item = dataset.items().get(number);
    let header = dataset.image_file(&item).and_then(|file| picture::probe(&file).ok());
    Image {
        id: number + 1,
        file_name: item.image.unwrap_or_else(|| item.id.clone()),
        width: header.map(|header| header.width),
        height: header.map(|header| header.height),
        nextpair_id: item.id,
    }
}

/// The captions written for images, or those of the texts that were paired with an image.
fn annotations<'a>(
    answers: &'a [Answer],
    dataset: &'a Dataset,
    numbers: &'a HashMap<&str, usize>,
) -> impl Iterator<Item = Annotation<'a>> {
    let paired = answers.iter().filter_map(|answer| {
        let image_id = numbers.get(image_of(answer)?)? + 1;
        let captions = match &answer.said {
            AnswerContent::Caption(caption) => vec![caption.clone()],
            _ => dataset.items().get(numbers[answer.id.as_str()]).captions,
        };
        Some((answer, image_id, captions))
    });
    let annotation = |(answer, image_id, captions): (&'a Answer, usize, Vec<String>)| {
        let of_text = matches!(answer.said, AnswerContent::Image(_)).then_some(answer.id.as_str());
        captions.into_iter().map(move |caption| Annotation {
            id: 0,
            image_id,
            caption,
            annotator: answer.annotator.as_deref(),
            nextpair_id: of_text,
            provenance: answer.provenance,
        })
    };
    let numbered = |(at, annotation)| Annotation { id: at + 1, ..annotation };
    paired.flat_map(annotation).enumerate().map(numbered)
}
