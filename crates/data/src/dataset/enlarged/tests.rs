//! Tests of enlarged datasets: their contents, and the answers that are refused.

use std::fs;

use super::*;
use crate::dataset::sample::{dataset, item};
use crate::dataset::{FeatureSet, Item};
use crate::{Matrix, npy};

/// Two images without captions, one with, and two texts, with features of every kind.
fn sample(folder: &Path) -> Dataset {
    let items = [
        item("a", Some("a.jpg"), &[]),
        item("t", None, &["T one", "T two"]),
        item("b", Some("b.jpg"), &["B"]),
        item("known by features", None, &[]),
        item("u", None, &["B", "U"]),
    ];
    fs::create_dir_all(folder).unwrap();
    let matrix = |name: &str, rows: usize| {
        let mut file = File::create(folder.join(name)).unwrap();
        npy::write_f32(&mut file, rows, 1, (0..rows).map(|row| row as f32)).unwrap();
    };
    let integers = |name: &str, values: &[i64]| {
        npy::write_i64(&mut File::create(folder.join(name)).unwrap(), values).unwrap();
    };
    matrix("images.npy", 3);
    integers("images.rows.npy", &[2, -1, 0, 1, -1]);
    matrix("captions.npy", 5);
    matrix("some.npy", 2);
    integers("some.rows.npy", &[-1, 1, 0, -1, -1]);
    let set = |name: &str, side, per, file: &str, rows: Option<&str>| FeatureSet {
        name: name.into(),
        side,
        per,
        files: vec![file.into()],
        rows: rows.map(Into::into),
        made_by: None,
        digests: Default::default(),
    };
    dataset(folder, &items, |manifest| {
        manifest.images = Some("images".into());
        manifest.synthetic = true;
        manifest.features = vec![
            set("i", Side::Image, Per::Item, "images.npy", Some("images.rows.npy")),
            set("../../t", Side::Text, Per::Caption, "captions.npy", None),
            set("some", Side::Text, Per::Caption, "some.npy", Some("some.rows.npy")),
        ];
    })
}

fn says(id: &str, said: AnswerContent) -> Answer {
    Answer { id: id.into(), said, annotator: None, provenance: None }
}

fn caption(id: &str, caption: &str) -> Answer {
    says(id, AnswerContent::Caption(caption.into()))
}

fn image(id: &str, image: &str) -> Answer {
    says(id, AnswerContent::Image(image.into()))
}

fn skip(id: &str) -> Answer {
    says(id, AnswerContent::Skip("dark".into()))
}

/// Every file under a folder, with its bytes.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.insert(path.clone(), fs::read(&path).unwrap());
        }
    }
    found
}

#[test]
fn answers_join_their_items() {
    let folder = tempfile::tempdir().unwrap();
    let old = sample(&folder.path().join("old"));
    let before = files(old.folder());
    let out = folder.path().join("new");
    let answers = [
        caption("a", "A new"),
        image("t", "a"),
        caption("a", "A new"),
        skip("b"),
        image("u", "b"),
        caption("known by features", "F"),
        image("t", "b"),
    ];
    let new = old.enlarged(&out, &answers, &[], &NewImages::default()).unwrap();
    let expected = [
        ("a", vec!["A new", "T one", "T two"]),
        ("t", vec!["T one", "T two"]),
        ("b", vec!["B", "U", "T one", "T two"]),
        ("known by features", vec!["F"]),
        ("u", vec!["B", "U"]),
    ];
    let found: Vec<Item> = new.items().iter().collect();
    for ((id, captions), found) in expected.iter().zip(&found) {
        assert_eq!(
            (*id, captions),
            (found.id.as_str(), &found.captions.iter().map(String::as_str).collect())
        );
    }
    let old_folder = old.folder().canonicalize().unwrap();
    assert_eq!(new.image_folder(), Some(old_folder.join("images")));
    assert_eq!(new.manifest().source, "made for a test, enlarged by 7 captions");
    assert!(new.manifest().synthetic);
    let rows = |name| {
        let (set, features) = new.features(Side::Text, Some(name)).unwrap();
        assert!(set.files[0].is_absolute());
        (0..new.items().captions())
            .map(|at| features.row(at).map_or(-1, |row| row as i64))
            .collect::<Vec<_>>()
    };
    assert_eq!(rows("../../t"), [-1, 0, 1, 0, 1, 2, 4, 0, 1, -1, 3, 4]);
    assert_eq!(rows("some"), [-1, -1, 1, -1, 1, 0, -1, -1, 1, -1, -1, -1]);
    let (_, features) = new.features(Side::Image, None).unwrap();
    assert_eq!([0, 1, 2, 3, 4].map(|at| features.row(at)), [Some(2), None, Some(0), Some(1), None]);
    assert_eq!(files(old.folder()), before, "the old one is left alone");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "nothing is left behind");
}

#[test]
fn new_captions_get_features_where_somebody_made_them() {
    let folder = tempfile::tempdir().unwrap();
    let old = sample(&folder.path().join("old"));
    let answers =
        [caption("a", "A new"), image("t", "a"), caption("b", "B new"), caption("b", "odd")];
    let new = NewRows {
        set: "some".to_owned(),
        matrix: Matrix::from_f32(1, &[8.0, 9.0]),
        rows: [("B new".to_owned(), 0), ("A new".to_owned(), 1)].into(),
    };
    let larger =
        old.enlarged(&folder.path().join("new"), &answers, &[new], &NewImages::default()).unwrap();
    let numbers = |name| {
        let (_, features) = larger.features(Side::Text, Some(name)).unwrap();
        let number = |row: usize| {
            let mut number = [0.0];
            features.matrix().read_f32(row, &mut number);
            number[0]
        };
        (0..larger.items().captions())
            .map(|at| features.row(at).map_or(-1.0, number))
            .collect::<Vec<f32>>()
    };
    // A new, T one, T two | T one, T two | B, B new, odd | | B, U
    assert_eq!(numbers("some"), [9.0, -1.0, 1.0, -1.0, 1.0, 0.0, 8.0, -1.0, -1.0, -1.0]);
    assert_eq!(numbers("../../t"), [-1.0, 0.0, 1.0, 0.0, 1.0, 2.0, -1.0, -1.0, 3.0, 4.0]);
    // An enlarged dataset can be enlarged again: its new captions are old ones there.
    let twice = larger
        .enlarged(&folder.path().join("twice"), &[caption("a", "x")], &[], &NewImages::default())
        .unwrap();
    let (_, features) = twice.features(Side::Text, Some("some")).unwrap();
    assert_eq!(
        (0..4).map(|at| features.row(at)).collect::<Vec<_>>(),
        [Some(3), None, Some(1), None]
    );
}

#[test]
fn the_same_answers_make_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let old = sample(&folder.path().join("old"));
    let out = folder.path().join("new");
    let answers = [caption("a", "x"), image("t", "b")];
    let first = old.enlarged(&out, &answers, &[], &NewImages::default()).unwrap();
    let bytes = files(&out);
    match old.enlarged(&out, &answers[..1], &[], &NewImages::default()) {
        // Windows.
        Err(Error::InUse { .. }) => assert_eq!(files(&out), bytes),
        replaced => drop(replaced.unwrap()),
    }
    assert_eq!(first.items().get(0).captions, ["x"], "who has the earlier one open keeps it");
    drop(first);
    old.enlarged(&out, &answers[..1], &[], &NewImages::default()).unwrap();
    assert_ne!(files(&out), bytes);
    // Simulate a kill between the two renames, and one in the middle of writing.
    fs::rename(&out, folder.path().join(".new.earlier")).unwrap();
    fs::write(folder.path().join(".new.lock"), "").unwrap();
    fs::create_dir(folder.path().join(".new.partial")).unwrap();
    fs::write(folder.path().join(".new.partial/items.jsonl"), "{").unwrap();
    let first = old.enlarged(&out, &answers, &[], &NewImages::default()).unwrap();
    assert_eq!(files(&out), bytes);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    let twice = first
        .enlarged(&folder.path().join("twice"), &[caption("b", "y")], &[], &NewImages::default())
        .unwrap();
    assert_eq!(twice.items().get(2).captions, ["B", "T one", "T two", "y"]);
    let none = old.enlarged(&folder.path().join("none"), &[], &[], &NewImages::default()).unwrap();
    assert!(none.items().iter().eq(old.items().iter()));
}

#[test]
fn impossible_answers_make_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let old = sample(&folder.path().join("old"));
    let out = folder.path().join("new");
    for (answer, expected) in [
        (caption("none", "x"), "about \"none\": there is no item \"none\""),
        (caption("A", "x"), "there is no item \"A\""),
        (skip("none"), "there is no item \"none\""),
        (caption("t", "x"), "about \"t\": the item \"t\" has no image"),
        (image("t", "none"), "about \"t\": there is no item \"none\""),
        (image("t", "../a.jpg"), "there is no item \"../a.jpg\""),
        (image("t", "u"), "about \"t\": the item \"u\" has no image"),
        (image("t", "t"), "the item \"t\" has no image"),
        (image("a", "b"), "about \"a\": it has no captions"),
        (caption("a", " "), "about \"a\": the caption is empty"),
        (caption("a", &"x".repeat(1 << 17)), "the caption has 131072 bytes"),
        (caption("", "x"), "the id is empty"),
    ] {
        let answers = [caption("a", "good"), answer];
        let what =
            old.enlarged(&out, &answers, &[], &NewImages::default()).unwrap_err().to_string();
        assert!(what.contains(expected) && what.len() < 300, "{what}");
        assert_eq!(
            old.check_answers(&answers, &NewImages::default()).unwrap_err().to_string(),
            what
        );
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}

#[test]
fn nothing_else_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let old = sample(&folder.path().join("old"));
    let other = sample(&folder.path().join("other"));
    let empty = folder.path().join("empty");
    fs::create_dir(&empty).unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let unrelated = folder.path().join("unrelated");
    fs::create_dir(&unrelated).unwrap();
    fs::write(unrelated.join(ANSWERS), "").unwrap();
    let before = files(folder.path());
    for out in [other.folder(), &empty, &file, &unrelated] {
        let what = old.enlarged(out, &[], &[], &NewImages::default()).unwrap_err().to_string();
        assert!(what.contains("exists already"), "{what}");
    }
    for out in [old.folder(), &folder.path().join("other/../old")] {
        let what = old.enlarged(out, &[], &[], &NewImages::default()).unwrap_err().to_string();
        assert!(what.contains("in its own place"), "{what}");
    }
    assert!(
        old.enlarged(&folder.path().join("no/such/folder"), &[], &[], &NewImages::default())
            .is_err()
    );
    assert!(old.enlarged(Path::new("/"), &[], &[], &NewImages::default()).is_err());
    assert_eq!(files(folder.path()), before);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 5);
}
