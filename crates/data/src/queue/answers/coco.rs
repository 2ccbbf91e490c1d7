//! Answers in COCO's captions layout.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::label_studio::name;
use super::{FilePosition, accepted};
use crate::dataset::Dataset;
use crate::import::json;
use crate::queue::{Answer, AnswerContent, Provenance};
use crate::{Error, Side};

#[derive(Deserialize)]
struct File {
    images: Vec<Box<RawValue>>,
    annotations: Vec<Box<RawValue>>,
}

/// Our own exports name the item; other files have only the file name.
#[derive(Deserialize)]
struct Image {
    id: i64,
    file_name: String,
    nextpair_id: Option<String>,
}

#[derive(Deserialize)]
struct Annotation {
    image_id: i64,
    caption: String,
    annotator: Option<Value>,
    /// The id of the text, in text pools.
    nextpair_id: Option<String>,
    provenance: Option<Provenance>,
}

pub(super) fn read(
    path: &Path,
    pool: Side,
    dataset: &Dataset,
) -> Result<Vec<(FilePosition, Answer)>, Error> {
    let file: File = json::read(path)?;
    let mut images: Vec<Image> = Vec::new();
    let mut by_id = HashMap::new();
    for (at, raw) in file.images.iter().enumerate() {
        let wrong = |what| Error::format(path, format!("image {}: {what}", at + 1));
        let image: Image = json::entry(raw).map_err(wrong)?;
        if let Some(first) = by_id.insert(image.id, at) {
            let what = format!("the id {} is that of image {} already", image.id, first + 1);
            return Err(wrong(what));
        }
        images.push(image);
    }
    let items = NameIndex::find(&images, dataset);
    let (mut answers, mut said) = (Vec::new(), HashSet::new());
    for (at, raw) in file.annotations.iter().enumerate() {
        let answer = || {
            let annotation: Annotation = json::entry(raw)?;
            let number = annotation.image_id;
            let image = by_id.get(&number).ok_or(format!("there is no image {number}"))?;
            let image = items.item_of(&images[*image])?.to_owned();
            accepted(answer_of(annotation, image, pool)?, pool)
        };
        let place = FilePosition::Annotation(at + 1);
        let answer = answer().map_err(|what| place.error(path, what))?;
        // A text with several captions was paired with its image only once.
        if pool == Side::Image || said.insert(answer.clone()) {
            answers.push((place, answer));
        }
    }
    Ok(answers)
}

/// Reads the answer from an annotation of an item's image.
fn answer_of(annotation: Annotation, image: String, pool: Side) -> Result<Answer, String> {
    let annotator = match &annotation.annotator {
        None | Some(Value::Null) => None,
        Some(value) => Some(name(value).ok_or(format!("the annotator is {value}"))?),
    };
    let (id, said) = match pool {
        Side::Image => (image, AnswerContent::Caption(annotation.caption)),
        Side::Text => {
            let id = annotation.nextpair_id;
            let id = id.ok_or("it has no nextpair_id to tell which text is meant")?;
            (id, AnswerContent::Image(image))
        }
    };
    Ok(Answer { id, said, annotator, provenance: annotation.provenance })
}

/// The items that the images of a file refer to.
struct NameIndex {
    by_id: HashSet<String>,
    /// The items with this id or image name; more than one is ambiguous.
    by_name: HashMap<String, Vec<String>>,
}

impl NameIndex {
    /// Looks the images up, reading every item once.
    fn find(images: &[Image], dataset: &Dataset) -> Self {
        let ids = images.iter().filter_map(|image| image.nextpair_id.as_deref());
        let ids: HashSet<&str> = ids.collect();
        let names: HashSet<&str> = images.iter().map(|image| image.file_name.as_str()).collect();
        let mut named = NameIndex { by_id: HashSet::new(), by_name: HashMap::new() };
        for item in dataset.items().iter() {
            if ids.contains(item.id.as_str()) {
                named.by_id.insert(item.id.clone());
            }
            let image = item.image.filter(|image| *image != item.id);
            for name in [Some(&item.id), image.as_ref()].into_iter().flatten() {
                if names.contains(name.as_str()) {
                    named.by_name.entry(name.clone()).or_default().push(item.id.clone());
                }
            }
        }
        named
    }

    fn item_of<'a>(&'a self, image: &'a Image) -> Result<&'a str, String> {
        if let Some(id) = &image.nextpair_id {
            let known = self.by_id.get(id).map(String::as_str);
            return known.ok_or(format!("there is no item {id:?}"));
        }
        let name = &image.file_name;
        match self.by_name.get(name).map(Vec::as_slice) {
            None | Some([]) => Err(format!("no item has the image or id {name:?}")),
            Some([only]) => Ok(only),
            Some([first, second, ..]) => Err(format!("{first:?} and {second:?} are both {name:?}")),
        }
    }
}
