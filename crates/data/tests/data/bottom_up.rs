//! Tables of region features as published with bottom-up attention.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use nextpair_data::Side;
use nextpair_data::import::{BottomUp, Karpathy};

use crate::source::{Imported, Source, no_such_file, says};

/// Karpathy's layout with COCO's names.
const KARPATHY: &str = r#"{"images":[
 {"filepath":"train2014","filename":"COCO_train2014_000000000009.jpg","split":"train",
  "cocoid":9,"sentences":[{"raw":"a"}]},
 {"filepath":"val2014","filename":"COCO_val2014_000000391895.jpg","split":"test",
  "cocoid":391895,"sentences":[{"raw":"b"}]},
 {"filepath":"val2014","filename":"COCO_val2014_000000000042.jpg","split":"restval",
  "cocoid":42,"sentences":[{"raw":"c"}]},
 {"filepath":"val2014","filename":"COCO_val2014_000000000073.jpg","split":"val",
  "cocoid":73,"sentences":[{"raw":"d"}]}]}"#;

const REGIONS: usize = 3;
const DIM: usize = 2;

fn encoded(numbers: impl IntoIterator<Item = f32>) -> String {
    let bytes: Vec<u8> = numbers.into_iter().flat_map(f32::to_le_bytes).collect();
    STANDARD.encode(bytes)
}

/// A line of features that count up from `first`.
fn line(id: &str, regions: usize, first: f32) -> String {
    let boxes = encoded((0..regions * 4).map(|number| number as f32));
    let features = encoded((0..regions * DIM).map(|number| first + number as f32));
    format!("{id}\t640\t480\t{regions}\t{boxes}\t{features}\r\n")
}

fn source(tables: &[(&str, &str)]) -> (Source, BottomUp) {
    let source = Source::new();
    let json = source.file("dataset.json", KARPATHY);
    let tables = tables.iter().map(|(name, text)| source.file(name, text)).collect();
    let karpathy = Karpathy { json, image_dir: None, restval: false, max_captions: 5 };
    (source, BottomUp { source: Box::new(karpathy), tables })
}

/// The first number of every item's features.
fn firsts(imported: &Imported) -> Vec<Option<f64>> {
    let (set, features) = imported.dataset.features(Side::Image, None).unwrap();
    assert_eq!(set.name, "bottom-up");
    assert_eq!((features.matrix().locals(), features.matrix().dim()), (REGIONS, DIM));
    let first = |item| {
        let mut values = [0.0; REGIONS * DIM];
        features.matrix().read_f64(features.row(item)?, &mut values);
        assert!(values.windows(2).all(|two| two[1] == two[0] + 1.0), "{values:?}");
        Some(values[0])
    };
    (0..imported.dataset.items().len()).map(first).collect()
}

#[test]
fn features_find_their_items_whatever_the_order() {
    let one = line("391895", REGIONS, 100.0) + &line("42", REGIONS, 200.0) + "\r\n";
    let names = "image_id\timage_w\timage_h\tnum_boxes\tboxes\tfeatures\n".to_owned();
    let two = names + &line("73", REGIONS, 300.0) + &line("9", REGIONS, 400.0);
    let (source, importer) = source(&[("t/a.tsv", &one), ("t/b.tsv", &two)]);
    let imported = source.import(&importer);
    assert_eq!(firsts(&imported), [Some(400.0), Some(100.0), Some(300.0)]);
    let notes = imported.notes();
    assert!(
        says(&notes, &["1 x features of an image that is not in the dataset: 42"]),
        "{notes:?}"
    );
    let made_of = &imported.dataset.manifest().source;
    assert!(made_of.contains("a.tsv") && made_of.contains("karpathy"), "{made_of}");

    let folder = BottomUp { tables: vec![source.path("t")], ..importer };
    assert_eq!(firsts(&source.import(&folder)), [Some(400.0), Some(100.0), Some(300.0)]);
}

#[test]
fn items_without_features_are_listed() {
    let (source, importer) = source(&[("a.tsv", &line("9", REGIONS, 1.0))]);
    let imported = source.import(&importer);
    assert_eq!(firsts(&imported), [Some(1.0), None, None]);
    let notes = imported.notes();
    assert!(
        says(&notes, &["2 x item without features", "000000391895", "000000000073"]),
        "{notes:?}"
    );
}

#[test]
fn bad_lines_are_refused_by_file_and_line_and_skipped_if_asked() {
    let whole = line("391895", REGIONS, 1.0);
    let not_a_number = {
        let features = encoded([1.0, f32::NAN, 3.0, 4.0, 5.0, 6.0]);
        let boxes = encoded([0.0; 4 * REGIONS]);
        format!("391895\t1\t1\t{REGIONS}\t{boxes}\t{features}\n")
    };
    for (bad, says) in [
        (whole[..whole.len() - 5].to_owned() + "\n", "features: not base64"),
        (whole[..whole.len() - 10].to_owned() + "\n", "features: "),
        (whole[..4].to_owned() + "\n", "1 columns, expected image_id"),
        (not_a_number, "features: region 0, number 1 is NaN"),
        (line("9", REGIONS, 7.0), "features of 9 were there before"),
        (line("391895", 2, 1.0), "2 regions of 2 numbers where the first image has 3 regions"),
        ("391895\t\u{1}".to_owned() + "\n", "2 columns"),
    ] {
        let table = line("9", REGIONS, 5.0) + &bad + &line("73", REGIONS, 9.0);
        let (source, importer) = source(&[("a.tsv", &table)]);
        let what = source.refused(&importer);
        assert!(what.contains("1 bad entry"), "{what}");
        assert!(what.contains("a.tsv:2: ") && what.contains(says), "no '{says}' in {what}");
        let imported = source.skip_bad(&importer);
        assert_eq!(firsts(&imported), [Some(5.0), None, Some(9.0)], "{says}");
        assert!(imported.bad()[0].contains("a.tsv:2: "), "{:?}", imported.bad());
    }
}

#[test]
fn tables_of_other_images_and_no_tables_are_refused() {
    let (first, other) = source(&[("a.tsv", &line("7", REGIONS, 1.0))]);
    let what = first.refused(&other);
    assert!(what.contains("none of the 1 images in it is in the dataset"), "{what}");
    assert!(what.contains("the first is called 7"), "{what}");
    let (second, empty) = source(&[("a.tsv", "")]);
    let what = second.refused(&empty);
    assert!(what.contains("there is no line of features in it"), "{what}");
    let (third, missing) = source(&[]);
    let missing = BottomUp { tables: vec![third.path("nowhere.tsv")], ..missing };
    let expected = format!("nowhere.tsv: {}", no_such_file());
    assert!(third.refused(&missing).contains(&expected));
}
