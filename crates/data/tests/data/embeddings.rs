//! Tests of importing existing embeddings.

use nextpair_data::Side;
use nextpair_data::dataset::Per;
use nextpair_data::import::Embeddings;

use crate::source::{Source, no_such_file};

fn embeddings(source: &Source, name: &str) -> Embeddings {
    Embeddings {
        source: source.path(name),
        side: Side::Image,
        other: None,
        ids: None,
        captions: None,
        split: "train".into(),
        columns: nextpair_data::Columns::default(),
    }
}

#[test]
fn arrays_stay_where_they_are() {
    let source = Source::new();
    let images = source.array("images.npy", 3, 2);
    source.array("texts.npy", 3, 4);
    source.file("ids.txt", "x\ny\nz\n");
    source.file("captions.txt", "one\n\nthree\n");
    let imported = source.import(&Embeddings {
        other: Some(source.path("texts.npy")),
        ids: Some(source.path("ids.txt")),
        captions: Some(source.path("captions.txt")),
        ..embeddings(&source, "images.npy")
    });
    assert_eq!(imported.ids(), ["x", "y", "z"]);
    assert_eq!(imported.items()[1].captions, [""; 0]);
    let (set, features) = imported.dataset.features(Side::Image, None).unwrap();
    assert_eq!(set.files, [images.canonicalize().unwrap()]);
    assert_eq!(features.matrix().dim(), 2);
    let (set, features) = imported.dataset.features(Side::Text, None).unwrap();
    // Models take vectors of captions, and the second item has none.
    assert_eq!(set.per, Per::Caption);
    assert_eq!([features.row(0), features.row(1)], [Some(0), Some(2)]);
    assert_eq!(imported.notes().len(), 1, "{:?}", imported.notes());
}

#[test]
fn a_side_may_be_alone() {
    let source = Source::new();
    source.array("texts.npy", 2, 2);
    let imported =
        source.import(&Embeddings { side: Side::Text, ..embeddings(&source, "texts.npy") });
    assert_eq!(imported.ids(), ["0", "1"]);
    assert_eq!(imported.summary.splits[&Some("train".into())].unpaired_texts, 2);
    let what = imported.dataset.features(Side::Image, None).unwrap_err().to_string();
    assert!(what.contains("no image features"), "{what}");
}

#[test]
fn clip_retrieval_folders() {
    let source = Source::new();
    for shard in 0..2 {
        source.array(&format!("img_emb/img_emb_{shard}.npy"), 2, 3);
        source.array(&format!("text_emb/text_emb_{shard}.npy"), 2, 3);
    }
    let imported = source.import(&embeddings(&source, ""));
    assert_eq!(imported.ids(), ["0", "1", "2", "3"]);
    let (set, features) = imported.dataset.features(Side::Image, None).unwrap();
    assert_eq!((set.files.len(), features.matrix().rows()), (2, 4));
    source.array("text_emb/text_emb_2.npy", 1, 3);
    assert!(source.refused(&embeddings(&source, "")).contains("5 rows, but the other side has 4"));
}

#[test]
fn counts_must_agree() {
    let source = Source::new();
    source.array("a.npy", 3, 2);
    source.array("b.npy", 2, 2);
    source.file("two.txt", "1\n2\n");
    let with = |change: fn(&mut Embeddings, std::path::PathBuf), file: &str| {
        let mut importer = embeddings(&source, "a.npy");
        change(&mut importer, source.path(file));
        source.refused(&importer)
    };
    assert!(with(|e, p| e.other = Some(p), "b.npy").contains("2 rows, but the other side has 3"));
    assert!(with(|e, p| e.ids = Some(p), "two.txt").contains("2 lines for 3 rows"));
    assert!(with(|e, p| e.captions = Some(p), "two.txt").contains("2 lines for 3 rows"));
    assert!(source.refused(&embeddings(&source, "none.npy")).contains(&no_such_file()));
}
