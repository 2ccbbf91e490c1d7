//! SCAN's files in the published form for COCO.

use nextpair_data::import::Scan;

use crate::layouts::{KARPATHY, scan};
use crate::source::{Source, item, says};

/// The published files of dev and test have an id line for every caption.
#[test]
fn ids_may_be_those_of_captions() {
    let source = Source::new();
    source.array("dev_ims.npy", 2, 2);
    source.file("dev_caps.txt", "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n");
    source.file("dev_ids.txt", "7\n7\n7\n7\n7\n9\n9\n9\n9\n9\n");
    let imported = source.import(&scan(&source));
    let (first, second) = (["1", "2", "3", "4", "5"], ["6", "7", "8", "9", "10"]);
    let items = [item("7", "dev", None, &first), item("9", "dev", None, &second)];
    assert_eq!(imported.items(), items);
    source.file("dev_ids.txt", "7\n7\n7\n7\n7\n9\n9\n9\n7\n9\n");
    let what = source.refused(&scan(&source));
    assert!(what.contains("dev_ids.txt:9: 7, but the captions of an image begin with 9"), "{what}");
    source.file("dev_ids.txt", "7\n7\n9\n9\n");
    assert!(source.refused(&scan(&source)).contains("4 ids for 2 rows"));
}

/// Importing COCO's files unchanged notes every difference from the paper.
#[test]
fn restval_in_train_is_noted() {
    let source = Source::new();
    for (split, ids) in [("train", "7\n9\n"), ("testall", "3\n4\n")] {
        source.array(&format!("{split}_ims.npy"), 2, 2);
        source.file(&format!("{split}_caps.txt"), "a\nb\n");
        source.file(&format!("{split}_ids.txt"), ids);
    }
    source.file("dataset.json", KARPATHY);
    let notes = source.import(&scan(&source)).notes();
    assert!(says(&notes, &["restval", "--karpathy"]) && says(&notes, &["not imported"]));
    let named = Scan { splits: vec!["train".into(), "testall".into()], ..scan(&source) };
    let notes = source.import(&named).notes();
    assert!(says(&notes, &["restval", "--karpathy"]) && !says(&notes, &["not imported"]));
    let paper = Scan { karpathy: Some(source.path("dataset.json")), ..named };
    let imported = source.import(&paper);
    assert!(!says(&imported.notes(), &["--karpathy"]), "{:?}", imported.notes());
    assert_eq!(imported.ids(), ["7", "3", "4"]);
}
