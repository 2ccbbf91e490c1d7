//! Any bytes as what is imported; the first byte says as what. Whatever comes out opens.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nextpair_data::dataset::Dataset;
use nextpair_data::import::{self, Coco, Flickr, Importer, Karpathy, Table, WebDataset};

fuzz_target!(init: nextpair_fuzz::end_at_our_panics(), |bytes: &[u8]| {
    let Some((kind, content)) = bytes.split_first() else { return };
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let file = |name: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, content).expect("room for a small file");
        path
    };
    let importer: Box<dyn Importer> = match kind % 5 {
        0 => Box::new(Karpathy {
            json: file("dataset.json"),
            image_dir: None,
            restval: true,
            max_captions: 5,
        }),
        1 => Box::new(Coco { source: file("captions.json"), image_dir: None, max_captions: 5 }),
        2 => Box::new(Flickr { source: file("x.token"), image_dir: None, unlisted: true }),
        3 => Box::new(Table { without_images: true, ..Table::new(file("x.csv")) }),
        _ => Box::new(WebDataset { source: file("x.tar"), split: "train".into() }),
    };
    let out = folder.path().join("out");
    if import::import(importer.as_ref(), &out, true, &()).is_ok() {
        Dataset::open(&out).expect("what was imported opens");
    }
    let left = std::fs::read_dir(folder.path()).expect("our folder").count();
    assert!(left <= 2, "something was written outside the dataset");
});
