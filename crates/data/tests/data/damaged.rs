//! Datasets that were damaged or edited, and abandoned drafts.

use std::fs;

use nextpair_data::Side;
use nextpair_data::dataset::Dataset;
use nextpair_data::import::{Karpathy, Scan, import};

use crate::source::{Source, no_such_file};

fn scan(source: &Source) -> Scan {
    source.array("train_ims.npy", 2, 2);
    source.file("train_caps.txt", "one\ntwo\n");
    Scan { folder: source.path(""), splits: Vec::new(), image_dir: None, karpathy: None }
}

#[test]
fn what_was_edited_is_named() {
    let source = Source::new();
    // Only the folder: Windows does not let files change that are open.
    let folder = source.import(&scan(&source)).folder;
    let edit = |file: &str, from: &str, to: &str| {
        let path = folder.join(file);
        let whole = fs::read_to_string(&path).unwrap();
        assert!(whole.contains(from), "{whole}");
        fs::write(&path, whole.replacen(from, to, 1)).unwrap();
        let what = Dataset::open(&folder).unwrap_err().to_string();
        fs::write(&path, whole).unwrap();
        what
    };
    let no_file = format!("none_ims.npy: {}", no_such_file());
    for (file, from, to, expected) in [
        ("dataset.toml", "nextpair_dataset = 1", "nextpair_dataset = 2", "reads format 1"),
        ("dataset.toml", "items = 2", "items = 3", "items.jsonl: 2 items and 2 captions"),
        ("dataset.toml", "items = 2", "itens = 2", "dataset.toml:5: unknown field `itens`"),
        ("dataset.toml", "train_ims", "none_ims", no_file.as_str()),
        ("dataset.toml", "\"item\"", "\"image\"", "dataset.toml:11: unknown variant"),
        ("items.jsonl", "train-1", "train-0", "items.jsonl:2: the id train-0 is on line 1"),
        ("items.jsonl", "\"two\"]}\n", "\"two\"]}", "items.jsonl:2: the line is cut off"),
        ("items.jsonl", "\"two\"]}\n", "\"tw", "items.jsonl:2: the line is cut off"),
    ] {
        let what = edit(file, from, to);
        assert!(what.contains(expected), "{what}");
    }
    source.array("train_ims.npy", 3, 2);
    let what = Dataset::open(&folder).unwrap_err().to_string();
    assert!(what.contains("train_ims.npy has 3 rows for 2 items"), "{what}");
    let what = Dataset::open(&source.path("")).unwrap_err().to_string();
    assert!(what.contains("not a dataset"), "{what}");
}

#[test]
fn feature_sets_are_added_and_replaced() {
    let source = Source::new();
    let imported = source.import(&scan(&source));
    let mut dataset = imported.dataset;
    let (set, _) = dataset.features(Side::Image, None).unwrap();
    let mut more = set.clone();
    more.files = vec![source.array("more.npy", 2, 5)];
    let lock = dataset.lock().unwrap();
    dataset.add_features(&lock, more.clone()).unwrap();
    assert_eq!(dataset.manifest().features.len(), 1);
    more.name = "more".into();
    dataset.add_features(&lock, more.clone()).unwrap();
    let mut again = Dataset::open(&imported.folder).unwrap();
    assert_eq!(again.features(Side::Image, None).unwrap().0.name, "more");
    assert_eq!(again.features(Side::Image, Some("precomp")).unwrap().1.matrix().dim(), 5);
    let what = again.features(Side::Image, Some("none")).unwrap_err().to_string();
    assert!(what.contains("there are precomp, more"), "{what}");
    more.files = vec![source.array("short.npy", 1, 5)];
    assert!(dataset.add_features(&lock, more).is_err());
    let what = again.lock().unwrap_err().to_string();
    assert!(what.contains("being changed by another process"), "{what}");
    assert_eq!(dataset.manifest(), again.manifest());
}

#[test]
fn what_a_killed_import_left_is_cleared() {
    let source = Source::new();
    let scan = scan(&source);
    let out = source.path("out");
    let partial = source.path(".out.partial");
    fs::write(source.path(".out.lock"), "").unwrap();
    fs::create_dir_all(partial.join("images")).unwrap();
    fs::write(partial.join("items.jsonl"), "half a li").unwrap();
    fs::write(partial.join("images/x.png"), "half a picture").unwrap();
    import(&scan, &out, false, &()).unwrap();
    assert!(!partial.exists() && !out.join("images").exists());
    assert!(!source.path(".out.lock").exists());
    let what = import(&scan, &out, false, &()).unwrap_err().to_string();
    assert!(what.contains("exists already"), "{what}");
    let what = import(&scan, &source.path("no/out"), false, &()).unwrap_err().to_string();
    assert!(what.contains("no: there is no such folder for out"), "{what}");
}

#[cfg(unix)]
#[test]
fn what_an_import_did_not_leave_is_not_touched() {
    let source = Source::new();
    let scan = scan(&source);
    let victim = source.path("victim");
    fs::create_dir(&victim).unwrap();
    fs::write(victim.join("precious"), "x").unwrap();
    std::os::unix::fs::symlink(&victim, source.path(".out.partial")).unwrap();
    let what = import(&scan, &source.path("out"), false, &()).unwrap_err().to_string();
    assert!(what.contains(".out.partial: is in the way"), "{what}");
    fs::create_dir(source.path(".out2.partial")).unwrap();
    fs::write(source.path(".out2.partial/mine"), "x").unwrap();
    assert!(import(&scan, &source.path("out2"), false, &()).is_err());
    assert!(victim.join("precious").exists() && source.path(".out2.partial/mine").exists());
    assert!(!source.path(".out.lock").exists() && !source.path(".out2.lock").exists());
}

#[test]
fn long_lines_and_huge_pictures_are_refused() {
    let source = Source::new();
    let long = "word ".repeat(2_000_000);
    let json = format!(
        r#"{{"images":[{{"filename":"a.png","split":"train","sentences":[{{"raw":"{long}"}}]}}]}}"#
    );
    let json = source.file("dataset.json", json);
    let importer = Karpathy { json, image_dir: None, restval: false, max_captions: 5 };
    let what = source.refused(&importer);
    assert!(what.contains("10000000 bytes") && what.len() < 500, "{what}");

    // A header that claims 50,000 x 50,000 pixels.
    let mut bomb = crate::source::png(1);
    bomb[16..20].copy_from_slice(&50_000u32.to_be_bytes());
    bomb[20..24].copy_from_slice(&50_000u32.to_be_bytes());
    source.file("images/a.png", &bomb);
    source.file("images/b.png", &crate::source::png(1)[..40]);
    let folder = nextpair_data::import::Folder {
        folder: source.path("images"),
        caption_key: None,
        split: "train".into(),
    };
    let what = source.refused(&folder);
    assert!(what.contains("2 bad entries") && what.contains("a.png: "), "{what}");
}
