//! Tables made by hand as Hugging Face writes them.

use std::fs;
use std::path::{Path, PathBuf};

use ::parquet::basic::Compression;
use ::parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
use image::{Rgb, RgbImage};

use super::HuggingFace;
use crate::Error;
use crate::dataset::Dataset;
use crate::import::{Leniency, Summary, import_leniently};
use crate::parquet::sample::{Column, write};
use crate::scenes::encode_png;

const IMAGE: &str =
    "optional group image { optional binary bytes; optional binary path (STRING); }";
const LISTS: &str = "optional group captions (LIST) { repeated group list \
                     { optional binary element (STRING); } }";

fn png(shade: u8) -> Vec<u8> {
    encode_png(&RgbImage::from_pixel(2, 2, Rgb([shade; 3]))).unwrap()
}

/// A column in which every row has a value or is null at the outermost level.
fn nullable(present: i16, rows: &[Option<&[u8]>]) -> Column<ByteArrayType> {
    Column {
        values: rows.iter().flatten().map(|bytes| ByteArray::from(bytes.to_vec())).collect(),
        defined: Some(rows.iter().map(|row| if row.is_some() { present } else { 0 }).collect()),
        repeated: None,
    }
}

fn texts(present: i16, rows: &[Option<&str>]) -> Column<ByteArrayType> {
    nullable(present, &rows.iter().map(|row| row.map(str::as_bytes)).collect::<Vec<_>>())
}

/// A column of lists; an empty one is null.
fn lists(rows: &[&[&str]]) -> Column<ByteArrayType> {
    let (mut values, mut defined, mut repeated) = (Vec::new(), Vec::new(), Vec::new());
    for row in rows {
        if row.is_empty() {
            defined.push(0);
            repeated.push(0);
        }
        for (at, text) in row.iter().enumerate() {
            values.push(ByteArray::from(*text));
            defined.push(3);
            repeated.push(i16::from(at > 0));
        }
    }
    Column { values, defined: Some(defined), repeated: Some(repeated) }
}

struct Lab(tempfile::TempDir);

impl Lab {
    fn new() -> Self {
        Lab(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        let path = self.0.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        path
    }

    fn importer(&self, name: &str) -> HuggingFace {
        HuggingFace {
            source: self.path(name),
            image_column: None,
            caption_column: None,
            id_column: None,
            split_column: None,
            split: "train".into(),
            image_dir: None,
        }
    }

    fn import(
        &self,
        importer: &HuggingFace,
        leniency: Leniency,
    ) -> Result<(Dataset, Summary), Error> {
        let out = self.path("out");
        let _ = fs::remove_dir_all(&out);
        let summary = import_leniently(importer, &out, leniency, &())?;
        Ok((Dataset::open(&out)?, summary))
    }
}

fn usual(path: &Path, shades: &[u8], captions: &[&[&str]]) {
    let images: Vec<Vec<u8>> = shades.iter().map(|shade| png(*shade)).collect();
    let bytes = images.iter().map(|image| Some(image.as_slice())).collect::<Vec<_>>();
    let names = vec![Some("../../../a.png"); shades.len()];
    let schema = format!("{IMAGE} {LISTS}");
    write(
        path,
        Compression::SNAPPY,
        &schema,
        &[&[&nullable(2, &bytes), &texts(2, &names), &lists(captions)]],
    );
}

#[test]
fn images_and_lists_of_captions_are_unpacked() {
    let lab = Lab::new();
    // More rows than are decoded at a time.
    let shades: Vec<u8> = (0..20).collect();
    let one: &[&str] = &["A dog.", "A cat."];
    let captions: Vec<&[&str]> = (0..20).map(|row| if row == 3 { &[][..] } else { one }).collect();
    usual(&lab.path("src/data/train-00000-of-00001.parquet"), &shades, &captions);
    usual(&lab.path("src/data/validation-00000-of-00001.parquet"), &[99], &[&["A hen."]]);
    let (dataset, summary) = lab.import(&lab.importer("src"), Leniency::default()).unwrap();
    let items: Vec<_> = dataset.items().iter().collect();
    assert_eq!(items.len(), 21);
    assert_eq!(items[0].id, "data/train-00000-of-00001:0");
    assert_eq!(items[0].captions, ["A dog.", "A cat."]);
    // The path in the table leads out of the dataset, and is not used.
    let image = items[19].image.as_deref().unwrap();
    assert_eq!(image, "data/train-00000-of-00001/000019.png");
    let path = dataset.image_file(&items[19]).unwrap();
    assert!(path.starts_with(lab.path("out")) && fs::read(path).unwrap() == png(19));
    assert!(items[3].captions.is_empty());
    let split = |item: usize| items[item].split.as_deref();
    assert_eq!((split(0), split(20)), (Some("train"), Some("dev")));
    assert_eq!(summary.splits.values().map(|counts| counts.images).sum::<usize>(), 21);
}

#[test]
fn columns_are_found_and_named() {
    let lab = Lab::new();
    let schema = "required binary img; optional binary caption_0 (STRING); \
                  optional binary caption_1 (STRING); required binary split (STRING); \
                  required int64 img_id; optional binary note (STRING);";
    let image = ByteArray::from(png(1));
    let other = ByteArray::from(png(2));
    write(
        &lab.path("t.parquet"),
        Compression::ZSTD(Default::default()),
        schema,
        &[&[
            &Column::<ByteArrayType>::flat(vec![image, other]),
            &texts(1, &[Some("one"), None]),
            &texts(1, &[Some("two"), Some(" ")]),
            &Column::<ByteArrayType>::flat(vec!["test".into(), "restval".into()]),
            &Column::<Int64Type>::flat(vec![70, 71]),
            &texts(1, &[Some("see"), None]),
        ]],
    );
    let importer = lab.importer("t.parquet");
    let named = HuggingFace { id_column: Some("img_id".into()), ..importer.clone() };
    let (dataset, summary) = lab.import(&named, Leniency::default()).unwrap();
    let unused = &summary.findings.notes[0];
    assert_eq!(
        (unused.what, &unused.examples[..]),
        ("column that is not used", &["note".into()][..])
    );
    let items: Vec<_> = dataset.items().iter().collect();
    assert_eq!((items[0].id.as_str(), items[1].id.as_str()), ("70", "71"));
    assert_eq!(items[0].captions, ["one", "two"]);
    assert!(items[1].captions.is_empty());
    assert_eq!(items[1].split.as_deref(), Some("restval"));
    drop(dataset);
    let noted = HuggingFace { caption_column: Some("note".into()), ..importer.clone() };
    let (dataset, _) = lab.import(&noted, Leniency::default()).unwrap();
    assert_eq!(dataset.items().get(0).captions, ["see"]);
    drop(dataset);
    for (importer, says) in [
        (
            HuggingFace { caption_column: Some("title".into()), ..importer.clone() },
            "no column title; its columns are img, caption_0, caption_1, split, img_id, note",
        ),
        (
            HuggingFace { image_column: Some("img_id".into()), ..importer.clone() },
            "column img_id holds neither bytes of images nor paths",
        ),
        (HuggingFace { source: lab.path("none"), ..importer.clone() }, "none"),
    ] {
        let what = lab.import(&importer, Leniency::default()).err().unwrap().to_string();
        assert!(what.contains(says), "{what}");
    }
}

#[test]
fn paths_stay_inside_and_may_be_missing() {
    let lab = Lab::new();
    let schema = "required binary file_name (STRING); required binary text (STRING);";
    let table = |names: &[&str]| {
        let names = names.iter().map(|name| ByteArray::from(*name)).collect::<Vec<_>>();
        let captions = vec![ByteArray::from("A dog."); names.len()];
        write(
            &lab.path("src/train/metadata.parquet"),
            Compression::SNAPPY,
            schema,
            &[&[&Column::<ByteArrayType>::flat(names), &Column::<ByteArrayType>::flat(captions)]],
        );
    };
    fs::write(lab.path("src/train/a.png"), png(1)).unwrap();
    fs::write(lab.path("secret.png"), png(1)).unwrap();
    table(&["a.png", "b.png"]);
    let importer = lab.importer("src");
    let what = lab.import(&importer, Leniency::default()).err().unwrap().to_string();
    assert!(what.contains("b.png"), "{what}");
    let optional = Leniency { images_optional: true, ..Leniency::default() };
    let (dataset, summary) = lab.import(&importer, optional).unwrap();
    let items: Vec<_> = dataset.items().iter().collect();
    assert_eq!(items[1].image.as_deref(), Some("train/b.png"));
    assert!(dataset.image_file(&items[0]).is_some() && dataset.image_file(&items[1]).is_none());
    let is_it = |note: &&crate::import::Tally| note.what == "image file that is not there";
    assert_eq!(summary.findings.notes.iter().find(is_it).unwrap().count, 1);
    drop(dataset);
    table(&["a.png", "../../secret.png"]);
    let what = lab.import(&importer, optional).err().unwrap().to_string();
    assert!(what.contains("row 1") && what.contains("secret.png"), "{what}");
}

#[test]
fn bad_images_are_listed_and_leave_nothing() {
    let lab = Lab::new();
    let bytes: [Option<&[u8]>; 3] = [Some(b"no image"), None, Some(&png(7))];
    write(
        &lab.path("t.parquet"),
        Compression::SNAPPY,
        &format!("{IMAGE} optional binary caption (STRING);"),
        &[&[
            &nullable(2, &bytes),
            &texts(2, &[None, Some("far.png"), None]),
            &texts(1, &[Some("a"), Some("b"), Some("c")]),
        ]],
    );
    let importer = lab.importer("t.parquet");
    let what = lab.import(&importer, Leniency::default()).err().unwrap().to_string();
    assert!(what.contains("2 bad entries") && what.contains("far.png: the table"), "{what}");
    assert!(!lab.path("out").exists());
    let skipping = Leniency { skip_bad: true, ..Leniency::default() };
    let (dataset, _) = lab.import(&importer, skipping).unwrap();
    assert_eq!(dataset.items().len(), 1);
    let images = fs::read_dir(lab.path("out/images/t")).unwrap().count();
    assert_eq!(images, 1);
}
