//! Tests of additions: what they count, what they keep, what they refuse.

use std::fs;

use super::*;
use crate::dataset::sample::{dataset, item};
use crate::dataset::{AddedImages, Item, TRAIN};
use crate::queue::refused;
use crate::{Matrix, npy};

/// Encodes a text as its length; the text "odd" cannot be encoded.
struct Lengths;

/// An encoder that is gone.
struct MissingEncoder;

type Failure = Box<dyn StdError + Send + Sync>;

impl FeatureSource for Lengths {
    fn check(&self, _: &Dataset, _: &FeatureSet) -> Result<(), Failure> {
        Ok(())
    }

    fn text_rows(
        &self,
        _: &Dataset,
        _: &FeatureSet,
        texts: &[&str],
        _: &dyn Progress,
    ) -> Result<Matrix, Failure> {
        let row = |text: &&str| if *text == "odd" { f32::NAN } else { text.len() as f32 };
        Ok(Matrix::from_f32(1, &texts.iter().map(row).collect::<Vec<_>>()))
    }

    fn image_rows(
        &self,
        _: &Dataset,
        _: &FeatureSet,
        images: &[&Path],
        _: &dyn Progress,
    ) -> Result<Matrix, Failure> {
        Ok(Matrix::from_f32(1, &vec![7.0; images.len()]))
    }
}

impl FeatureSource for MissingEncoder {
    fn check(&self, _: &Dataset, _: &FeatureSet) -> Result<(), Failure> {
        Err("the encoder is gone".into())
    }

    fn text_rows(
        &self,
        _: &Dataset,
        _: &FeatureSet,
        _: &[&str],
        _: &dyn Progress,
    ) -> Result<Matrix, Failure> {
        unreachable!("it is checked first")
    }

    fn image_rows(
        &self,
        _: &Dataset,
        _: &FeatureSet,
        _: &[&Path],
        _: &dyn Progress,
    ) -> Result<Matrix, Failure> {
        unreachable!("it is checked first")
    }
}

/// Three images, one of them captioned, and a text, with text features.
fn sample(folder: &Path) -> Dataset {
    let items = [
        item("a", Some("a.jpg"), &[]),
        item("b", Some("b.jpg"), &["B"]),
        item("c", Some("c.jpg"), &[]),
        item("t", None, &["T"]),
    ];
    fs::create_dir_all(folder).unwrap();
    let mut file = fs::File::create(folder.join("texts.npy")).unwrap();
    npy::write_f32(&mut file, 2, 1, [100.0, 200.0]).unwrap();
    dataset(folder, &items, |manifest| {
        manifest.features = vec![FeatureSet {
            name: "lengths".into(),
            side: Side::Text,
            per: Per::Caption,
            files: vec!["texts.npy".into()],
            rows: None,
            made_by: None,
            digests: Default::default(),
        }];
    })
}

fn read<'a>(dataset: &'a Dataset, text: &str, pool: Side) -> Result<Addition<'a>, Error> {
    let path = dataset.folder().with_file_name("answers.jsonl");
    fs::write(&path, text).unwrap();
    Addition::read(dataset, &[path], pool, &[])
}

const FIRST: &str = "{\"id\":\"a\",\"caption\":\"four\"}\n\
                     {\"id\":\"b\",\"caption\":\"B\"}\n\
                     {\"id\":\"b\",\"caption\":\"odd\"}\n\
                     {\"id\":\"c\",\"caption\":\"taken back\",\"annotator\":\"eve\"}\n\
                     {\"id\":\"c\",\"skip\":\"dark\",\"annotator\":\"eve\"}\n\
                     {\"id\":\"c\",\"skip\":\"too dark\",\"annotator\":\"ann\"}\n";

#[test]
fn captions_come_back_with_features_and_reasons() {
    let folder = tempfile::tempdir().unwrap();
    let old = sample(&folder.path().join("old"));
    let out = folder.path().join("new");
    let added = read(&old, FIRST, Side::Image).unwrap().write(&out, &Lengths, &()).unwrap();
    assert_eq!((added.captions, added.paired, added.known), (2, 1, 0));
    assert_eq!((added.refused, added.skipped), ([("dark".to_owned(), 1)].into(), 0));
    let [set] = &added.features[..] else { panic!("{:?}", added.features) };
    assert_eq!((set.name.as_str(), set.encoded, set.missing), ("lengths", 1, 1));
    let new = added.dataset;
    assert_eq!(new.items().get(0).captions, ["four"]);
    assert_eq!(new.items().get(1).captions, ["B", "odd"]);
    assert!(new.items().get(2).captions.is_empty(), "the caption was taken back");
    let (_, features) = new.features(Side::Text, None).unwrap();
    let row = |caption: usize| features.row(caption);
    assert_eq!([0, 1, 2, 3].map(row), [Some(2), Some(0), None, Some(1)]);
    let mut number = [0.0];
    features.matrix().read_f32(2, &mut number);
    assert_eq!(number, [4.0]);
    assert_eq!(new.answered().unwrap(), [0, 1, 2].into());

    // The second addition keeps the refusals of the first; the same answers add nothing.
    let twice = folder.path().join("twice");
    let more = format!("{FIRST}{{\"id\":\"a\",\"caption\":\"sixsix\"}}\n");
    let added = read(&new, &more, Side::Image).unwrap().write(&twice, &Lengths, &()).unwrap();
    // The caption that was taken back was never written down.
    assert_eq!((added.captions, added.paired, added.known), (1, 0, 5));
    assert_eq!(added.dataset.answers().unwrap().len(), new.answers().unwrap().len() + 1);
    assert_eq!(refused(added.dataset.answers().unwrap()), ["c"]);
    assert_eq!(added.dataset.manifest().source, "made for a test, enlarged by 3 captions");
    let again = folder.path().join("again");
    let same = read(&new, FIRST, Side::Image).unwrap().write(&again, &MissingEncoder, &()).unwrap();
    assert_eq!((same.captions, same.paired), (0, 0));
    assert!(same.dataset.items().iter().eq(new.items().iter()));
    assert_eq!(same.dataset.answers().unwrap(), new.answers().unwrap());
    assert!(same.features.iter().all(|set| set.why.is_none()), "nothing had to be encoded");
}

#[test]
fn first_captions_may_be_for_a_test() {
    let folder = tempfile::tempdir().unwrap();
    let old = sample(&folder.path().join("old"));
    let said = "{\"id\":\"a\",\"caption\":\"new\"}\n{\"id\":\"b\",\"caption\":\"more\"}\n";
    let out = folder.path().join("new");
    let write = |dev: f64, test: f64| {
        let splits = DrawnSplits::new(dev, test).unwrap();
        let addition = read(&old, said, Side::Image).unwrap().with_splits(splits);
        addition.write(&out, &Lengths, &())
    };
    let added = write(0.0, 0.9999).unwrap();
    assert_eq!((added.paired, added.drawn), (1, [0, 1]));
    let split = |item: usize| added.dataset.items().split_of(item).map(str::to_owned);
    let splits = (split(0).unwrap(), split(1).unwrap());
    assert_eq!(splits, (TEST.to_owned(), TRAIN.to_owned()), "b had a caption before");
    // A call that was killed after its end is done; another one is not.
    assert_eq!(write(0.0, 0.9999).unwrap().drawn, [0, 1]);
    for (dev, test) in [(0.0, 0.0), (0.9999, 0.0)] {
        let what = write(dev, test).unwrap_err().to_string();
        assert!(what.contains("exists already"), "{what}");
    }
}

#[test]
fn a_skip_without_a_reason_is_no_refusal() {
    let folder = tempfile::tempdir().unwrap();
    let old = sample(&folder.path().join("old"));
    let answers = "{\"id\":\"a\",\"skip\":\"\"}\n{\"id\":\"b\",\"skip\":\"\"}\n\
                   {\"id\":\"b\",\"caption\":\"new\"}\n{\"id\":\"c\",\"skip\":\" \"}\n\
                   {\"id\":\"c\",\"skip\":\"dark\",\"annotator\":\"ann\"}\n";
    let addition = read(&old, answers, Side::Image).unwrap();
    let added = addition.write(&folder.path().join("new"), &Lengths, &()).unwrap();
    assert_eq!((added.refused, added.skipped), ([("dark".to_owned(), 1)].into(), 1));
    assert_eq!(refused(added.dataset.answers().unwrap()), ["c"]);
}

#[test]
fn damaged_features_are_not_copied() {
    let folder = tempfile::tempdir().unwrap();
    let old = sample(&folder.path().join("old"));
    let out = folder.path().join("new");
    read(&old, FIRST, Side::Image).unwrap().write(&out, &Lengths, &()).unwrap();
    let rows = out.join("features/0.rows.npy");
    let mut bytes = fs::read(&rows).unwrap();
    // The first caption gets a row that there is, and that is another one's.
    let first = bytes.len() - 4 * 8;
    assert_eq!(bytes[first], 2);
    bytes[first] ^= 2;
    fs::write(&rows, bytes).unwrap();
    let damaged = Dataset::open(&out).unwrap();
    for answers in [FIRST, "{\"id\":\"c\",\"caption\":\"new\"}\n"] {
        let addition = read(&damaged, answers, Side::Image).unwrap();
        let error = addition.write(&folder.path().join("more"), &Lengths, &()).unwrap_err();
        assert!(error.to_string().contains("0.rows.npy: damaged"), "{error}");
    }
    let (row, marks) = (|_: usize, _: &mut [f64]| (), ("made.toml", ""));
    let images = AddedImages { set: "none", row: &row };
    let error =
        damaged.extended(&folder.path().join("more"), marks, &[], &images, &()).unwrap_err();
    assert!(error.to_string().contains("0.rows.npy: damaged"), "{error}");
    assert!(!folder.path().join("more").exists());
}

#[test]
fn texts_find_their_images() {
    let folder = tempfile::tempdir().unwrap();
    let old = sample(&folder.path().join("old"));
    let answers = "{\"id\":\"t\",\"image\":\"c\"}\n";
    let out = folder.path().join("new");
    let added = read(&old, answers, Side::Text).unwrap().write(&out, &MissingEncoder, &()).unwrap();
    assert_eq!((added.captions, added.paired), (1, 1));
    assert_eq!(added.dataset.items().get(2).captions, ["T"]);
    assert_eq!(added.dataset.answered().unwrap(), [3].into(), "nobody is asked about it again");
    let (_, features) = added.dataset.features(Side::Text, None).unwrap();
    assert_eq!([0, 1, 2].map(|at| features.row(at)), [Some(0), Some(1), Some(1)]);
    for image in ["upload:x.png", "folder:y/z.png"] {
        let answers = format!("{answers}{{\"id\":\"t\",\"image\":\"{image}\"}}\n");
        let what = read(&old, &answers, Side::Text).err().unwrap().to_string();
        let expected = format!("there is no item {image:?}, and no image file of it in ");
        assert!(what.contains("answers.jsonl:2: ") && what.contains(&expected), "{what}");
    }
}

#[test]
fn images_that_people_brought_are_items() {
    let folder = tempfile::tempdir().unwrap();
    let old = sample(&folder.path().join("old"));
    let uploads = folder.path().join("picks.uploads");
    fs::create_dir(&uploads).unwrap();
    image::RgbImage::new(3, 2).save(uploads.join("x.png")).unwrap();
    let answers = folder.path().join("picks.answers.jsonl");
    fs::write(&answers, "{\"id\":\"t\",\"image\":\"upload:x.png\"}\n").unwrap();
    let addition = Addition::read(&old, &[answers], Side::Text, &[]).unwrap();
    let out = folder.path().join("new");
    // The dataset has no image features, so none are missed.
    let added = addition.write(&out, &MissingEncoder, &()).unwrap();
    assert_eq!((added.captions, added.images, added.paired), (1, 1, 1));
    let new = added.dataset;
    let item = new.items().get(4);
    assert_eq!(item.captions, ["T"]);
    assert!(new.image_file(&item).is_some_and(|file| file.starts_with(&out)));
    let source = &new.manifest().source;
    assert_eq!(source, "made for a test, enlarged by 1 captions and 1 images");
}

#[test]
fn missing_encoders_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let old = sample(&folder.path().join("old"));
    let out = folder.path().join("new");
    let added = read(&old, FIRST, Side::Image).unwrap().write(&out, &MissingEncoder, &()).unwrap();
    let [set] = &added.features[..] else { panic!("{:?}", added.features) };
    assert_eq!((set.encoded, set.missing), (0, 2));
    assert_eq!(set.why.as_ref().unwrap().to_string(), "the encoder is gone");
    let (_, features) = added.dataset.features(Side::Text, None).unwrap();
    assert_eq!([0, 1, 2, 3].map(|at| features.row(at)), [None, Some(0), None, Some(1)]);
}

#[test]
fn a_wrong_answer_makes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let old = sample(&folder.path().join("old"));
    for (line, expected) in [
        ("{\"id\":\"z\",\"caption\":\"x\"}", ":7: an answer about \"z\": there is no item \"z\""),
        (
            "{\"id\":\"t\",\"caption\":\"x\"}",
            ":7: an answer about \"t\": the item \"t\" has no image",
        ),
        ("{\"id\":\"a\",\"image\":\"b\"}", ":7: an image, but images are paired with a caption"),
        ("{\"id\":\"a\"}", ":7: not an answer"),
    ] {
        let what = read(&old, &format!("{FIRST}{line}\n"), Side::Image).err().unwrap().to_string();
        assert!(what.contains(expected), "{what}");
    }
    for (out, expected) in [("old", "in its own place"), ("old/../old", "in its own place")] {
        let out = folder.path().join(out);
        let addition = read(&old, FIRST, Side::Image).unwrap();
        let what = addition.write(&out, &Lengths, &()).unwrap_err().to_string();
        assert!(what.contains(expected), "{what}");
    }
    // A call that was killed after its last step can be repeated: it says the same and changes nothing.
    let out = folder.path().join("new");
    read(&old, FIRST, Side::Image).unwrap().write(&out, &Lengths, &()).unwrap();
    fs::write(folder.path().join(".new.lock"), "").unwrap();
    let manifest = || fs::metadata(out.join("dataset.toml")).unwrap().modified().unwrap();
    let written = manifest();
    let again = read(&old, FIRST, Side::Image).unwrap().write(&out, &MissingEncoder, &()).unwrap();
    assert_eq!((again.captions, again.paired, again.known), (2, 1, 0));
    assert_eq!((again.features[0].encoded, again.features[0].missing), (1, 1));
    assert_eq!(manifest(), written);
    drop(again);
    // Another dataset is never replaced, not even an enlarged one.
    let addition = read(&old, "{\"id\":\"a\",\"caption\":\"x\"}\n", Side::Image).unwrap();
    let what = addition.write(&out, &Lengths, &()).unwrap_err().to_string();
    assert!(what.contains("exists already"), "{what}");
    let names: BTreeSet<_> =
        fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names.len(), 3, "old, new and the answers: {names:?}");
}

#[test]
fn answers_of_the_enlarged_dataset_stay() {
    let folder = tempfile::tempdir().unwrap();
    let old = sample(&folder.path().join("old"));
    let line = "{\"id\":\"c\",\"skip\":\"dark\"}\n";
    fs::write(old.folder().join("answers.jsonl"), line).unwrap();
    let out = folder.path().join("new");
    let added = read(&old, "{\"id\":\"a\",\"caption\":\"x\"}\n", Side::Image).unwrap();
    let added = added.write(&out, &Lengths, &()).unwrap();
    assert_eq!(refused(added.dataset.answers().unwrap()), ["c"]);
    assert!(fs::read_to_string(out.join("answers.jsonl")).unwrap().starts_with(line));
    let items: Vec<Item> = old.items().iter().collect();
    assert_eq!(items.len(), 4, "the old one is left alone");
}
