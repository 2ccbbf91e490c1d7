//! Any bytes as what is imported; the first byte says as what. Whatever comes out opens.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nextpair_data::dataset::Dataset;
use nextpair_data::import::{self, BottomUp, Coco, Flickr, Importer, Karpathy, Table, WebDataset};

/// Items for tables of features.
const ITEMS: &[u8] = br#"{"images":[
    {"filename":"COCO_val2014_000000000007.jpg","split":"train","sentences":[{"raw":"a"}]},
    {"filename":"8.jpg","split":"train","sentences":[{"raw":"b"}]}]}"#;

fuzz_target!(init: nextpair_fuzz::end_at_our_panics(), |bytes: &[u8]| {
    let Some((kind, content)) = bytes.split_first() else { return };
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let with = |name: &str, content: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, content).expect("room for a small file");
        path
    };
    let file = |name: &str| with(name, content);
    let importer: Box<dyn Importer> = match kind % 6 {
        0 => Box::new(Karpathy {
            json: file("dataset.json"),
            image_dir: None,
            restval: true,
            max_captions: 5,
        }),
        1 => Box::new(Coco { source: file("captions.json"), image_dir: None, max_captions: 5 }),
        2 => Box::new(Flickr { source: file("x.token"), image_dir: None, unlisted: true }),
        3 => Box::new(Table { without_images: true, ..Table::new(file("x.csv")) }),
        4 => Box::new(WebDataset { source: file("x.tar"), split: "train".into() }),
        _ => Box::new(BottomUp {
            tables: vec![file("x.tsv")],
            source: Box::new(Karpathy {
                json: with("dataset.json", ITEMS),
                image_dir: None,
                restval: true,
                max_captions: 5,
            }),
        }),
    };
    let out = folder.path().join("out");
    if import::import(importer.as_ref(), &out, true, &()).is_ok() {
        Dataset::open(&out).expect("what was imported opens");
    }
    let left = std::fs::read_dir(folder.path()).expect("our folder").count();
    assert!(left <= 3, "something was written outside the dataset");
});
