//! Karpathy's, COCO's, Flickr's and SCAN's files.

use nextpair_data::Side;
use nextpair_data::import::{Coco, Flickr, Karpathy, Scan};

use crate::source::{Source, item, no_such_file, says};

fn karpathy(source: &Source) -> Karpathy {
    let json = source.path("dataset.json");
    Karpathy { json, image_dir: None, restval: false, max_captions: 5 }
}

pub(crate) const KARPATHY: &str = r#"{"dataset":"coco","images":[
 {"filepath":"val2014","sentids":[0,1],"filename":"a.jpg","imgid":0,"split":"test","cocoid":7,
  "sentences":[{"tokens":["a","dog"],"raw":"A dog .","imgid":0,"sentid":0},
               {"tokens":["un","chien"],"raw":" Un chien à Paris \n","imgid":0,"sentid":1}]},
 {"filepath":"val2014","filename":"b.jpg","imgid":1,"split":"val","cocoid":8,
  "sentences":[{"raw":"1"},{"raw":"2"},{"raw":"3"},{"raw":"4"},{"raw":"5"},{"raw":"6"}]},
 {"filepath":"val2014","filename":"c.jpg","imgid":2,"split":"restval","cocoid":9,
  "sentences":[{"raw":"A cat"}]},
 {"filename":"d.jpg","imgid":3,"split":"train","sentences":[]}]}"#;

#[test]
fn karpathy_json() {
    let source = Source::new();
    source.file("dataset.json", KARPATHY);
    let imported = source.import(&karpathy(&source));
    let five = ["1", "2", "3", "4", "5"];
    assert_eq!(
        imported.items(),
        [
            item("a.jpg", "test", Some("val2014/a.jpg"), &["A dog .", "Un chien à Paris"]),
            item("b.jpg", "dev", Some("val2014/b.jpg"), &five),
            item("d.jpg", "train", Some("d.jpg"), &[]),
        ]
    );
    assert!(says(&imported.notes(), &["1 x restval", "c.jpg"]), "{:?}", imported.notes());
    assert!(says(&imported.notes(), &["more captions", "b.jpg: 6"]));
    assert_eq!(imported.summary.splits[&Some("train".into())].unpaired_images, 1);

    let all = Karpathy { restval: true, max_captions: 9, ..karpathy(&source) };
    let imported = source.import(&all);
    assert_eq!(imported.ids(), ["a.jpg", "b.jpg", "c.jpg", "d.jpg"]);
    assert_eq!(imported.items()[2].split.as_deref(), Some("restval"));
    assert_eq!(imported.items()[1].captions.len(), 6);
}

#[test]
fn images_are_looked_for_where_they_should_be() {
    let source = Source::new();
    source.file("dataset.json", KARPATHY);
    source.image("images/val2014/a.jpg", 1);
    source.image("images/val2014/b.jpg", 1);
    let importer = Karpathy { image_dir: Some(source.path("images")), ..karpathy(&source) };
    let what = source.refused(&importer);
    assert!(what.contains("1 bad entry") && what.contains("images[3]"), "{what}");
    assert!(what.contains(&format!("d.jpg: {}", no_such_file())), "{what}");
    let imported = source.skip_bad(&importer);
    assert_eq!(imported.ids(), ["a.jpg", "b.jpg"]);
    assert!(says(&imported.notes(), &["same bytes", "b.jpg is val2014/a.jpg"]));
    let log = std::fs::read_to_string(imported.folder.join("import.jsonl")).unwrap();
    assert!(log.contains(r#"{"level":"bad","what":"bad or missing image""#), "{log}");
    assert!(imported.dataset.image_folder().unwrap().join("val2014/a.jpg").exists());
}

#[test]
fn nothing_but_bad_entries_ends_an_import_soon() {
    let source = Source::new();
    source.file("dataset.json", format!("{{\"images\":[{}{{}}]}}", "{},".repeat(5000)));
    let what = source.refused(&karpathy(&source));
    for part in ["1000 bad entries", "images[0]: missing", "and 980 more", "the rest was not read"]
    {
        assert!(what.contains(part), "{part} in {what}");
    }
    assert!(!what.contains("images[20]"), "{what}");
}

#[test]
fn bad_entries_are_named_one_by_one() {
    let source = Source::new();
    source.file(
        "dataset.json",
        r#"{"images":[{"filename":"a","split":"train","sentences":[{"raw":"x"},{"raw":" "}]},
           {"filename":"b","sentences":[]}, {"filename":"a","split":"train","sentences":[]},
           {"filename":"../../etc/passwd","split":"train","sentences":[]}, 7]}"#,
    );
    let what = source.refused(&karpathy(&source));
    for part in [
        "5 bad entries",
        "images[0]: caption 2 of a: the caption is empty",
        "images[1]: missing field `split`",
        "id seen before",
        "images[3]: the path \"../../etc/passwd\" is not a plain path",
        "images[4]: invalid type: integer `7`",
    ] {
        assert!(what.contains(part), "{part} in {what}");
    }
    assert_eq!(
        source.skip_bad(&karpathy(&source)).items(),
        [item("a", "train", Some("a"), &["x"])]
    );
    for (content, part) in [("{\"images\":[{]}", ":1: not this layout"), ("", "is empty")] {
        source.file("dataset.json", content);
        assert!(source.refused(&karpathy(&source)).contains(part));
    }
}

#[test]
fn coco_captions() {
    let source = Source::new();
    let file = |images: &str, annotations: &str| {
        format!(
            r#"{{"info":{{}},"licenses":[],"images":[{images}],"annotations":[{annotations}]}}"#
        )
    };
    source.file(
        "annotations/captions_train2014.json",
        file(
            r#"{"id":5,"file_name":"t5.jpg","height":1},{"id":4,"file_name":"t4.jpg"}"#,
            r#"{"image_id":4,"id":1,"caption":"four"},{"image_id":5,"id":2,"caption":"five\n"}"#,
        ),
    );
    source.file(
        "annotations/captions_val2014.json",
        file(r#"{"id":1,"file_name":"v1.jpg"}"#, r#"{"image_id":1,"id":3,"caption":"one"}"#),
    );
    source.file("annotations/instances_val2014.json", "not read");
    source.file(
        "annotations/image_info_test2014.json",
        r#"{"images":[{"id":9,"file_name":"x9.jpg"}]}"#,
    );
    let coco =
        |name: &str, image_dir| Coco { source: source.path(name), image_dir, max_captions: 5 };
    let imported = source.import(&coco("annotations", None));
    assert_eq!(
        imported.items(),
        [
            item("t5.jpg", "train", Some("t5.jpg"), &["five"]),
            item("t4.jpg", "train", Some("t4.jpg"), &["four"]),
            item("v1.jpg", "dev", Some("v1.jpg"), &["one"]),
        ]
    );
    let unpaired = source.import(&coco("annotations/image_info_test2014.json", None));
    assert_eq!(unpaired.items(), [item("x9.jpg", "test", Some("x9.jpg"), &[])]);
    source.file("two/captions_val2014.json", "{}");
    source.file("two/captions_val2017.json", "{}");
    assert!(source.refused(&coco("two", None)).contains("two years"));
    source.image("val2014/v1.jpg", 3);
    let one = coco("annotations/captions_val2014.json", Some(source.path("")));
    let imported = source.import(&one);
    assert_eq!(imported.items(), [item("v1.jpg", "dev", Some("val2014/v1.jpg"), &["one"])]);

    source.file("x.json", file("", r#"{"image_id":3,"id":1,"caption":"lost"}"#));
    let what = source.refused(&coco("x.json", None));
    assert!(what.contains("annotations[0]: id 3") && what.contains("not listed"), "{what}");
}

#[test]
fn flickr_tokens_and_lists() {
    let source = Source::new();
    // Flickr8k's oddities: Windows line ends, a caption with a broken image name, unlisted images.
    source.file(
        "Flickr8k.token.txt",
        "\u{feff}a.jpg#0\tA dog .\r\na.jpg#1\tA \"dog\" #2 runs\r\nlost.jpg.1#0\tnobody\r\n\
         lost.jpg#1\tnobody\r\nb.jpg#1\tsecond\r\nb.jpg#0\tfirst\r\nc.jpg#0\textra\r\n",
    );
    source.file("Flickr8k.lemma.token.txt", "not this one");
    source.file("Flickr_8k.trainImages.txt", "b.jpg\r\n");
    source.file("Flickr_8k.devImages.txt", "a.jpg");
    let flickr = |unlisted| Flickr { source: source.path(""), image_dir: None, unlisted };
    let imported = source.import(&flickr(false));
    let a = item("a.jpg", "dev", Some("a.jpg"), &["A dog .", "A \"dog\" #2 runs"]);
    let b = item("b.jpg", "train", Some("b.jpg"), &["first", "second"]);
    assert_eq!(imported.items(), [b.clone(), a.clone()]);
    let notes = imported.notes();
    assert!(says(&notes, &["1 x image in no split list", "c.jpg (1 captions)"]), "{notes:?}");
    assert!(says(&notes, &["2 x caption without an image", "token.txt:3: lost.jpg.1", ":4"]));

    let all = source.import(&flickr(true));
    assert_eq!(all.ids(), ["b.jpg", "a.jpg", "c.jpg"]);
    assert_eq!(all.items()[2].split, None);

    source.file("Flickr_8k.testImages.txt", "lost.jpg\nnone.jpg\na.jpg\n");
    let what = source.refused(&flickr(false));
    for part in [
        "token.txt:4: lost.jpg",
        "testImages.txt:2: none.jpg is in the list",
        ":3: a.jpg is listed already",
    ] {
        assert!(what.contains(part), "{part} in {what}");
    }
    source
        .file("Flickr8k.token.txt", "a.jpg#0 no tab\nb.jpg#x\ty\nc.jpg\tz\nb.jpg#0\ty\nb.jpg#0\tz");
    let what = source.refused(&flickr(false));
    for part in [":1: no tab", ":2: #x is not a number", ":3: no #", ":5: #0"] {
        assert!(what.contains(part), "{part} in {what}");
    }
}

#[test]
fn flickr30k_lists_of_numbers() {
    let source = Source::new();
    source.file(
        "results_20130124.token",
        b"100.jpg#0\ta\n100.jpg#1\t\xff\n100.jpg#2\tc\n7.jpg#0\td\n",
    );
    source.file("._results_20130124.token", "left by a file system");
    source.file("flickr30k_train.txt", "100\n");
    source.file("flickr30k_val.txt", "7\n7\n");
    let flickr = Flickr { source: source.path(""), image_dir: None, unlisted: false };
    let what = source.refused(&flickr);
    assert!(what.contains("token:2: not UTF-8") && what.contains(":2: 7.jpg is listed already"));
    // A bad caption does not remove the others of its image.
    let train = item("100.jpg", "train", Some("100.jpg"), &["a", "c"]);
    assert_eq!(
        source.skip_bad(&flickr).items(),
        [train, item("7.jpg", "dev", Some("7.jpg"), &["d"])]
    );
}

pub(crate) fn scan(source: &Source) -> Scan {
    Scan { folder: source.path(""), splits: Vec::new(), image_dir: None, karpathy: None }
}

#[test]
fn scan_folders() {
    let source = Source::new();
    let captions =
        |images: usize| (0..5 * images).map(|c| format!("caption {c}\n")).collect::<String>();
    source.array("train_ims.npy", 3, 4);
    source.file("train_caps.txt", captions(3));
    source.file("train_ids.txt", "x.jpg\n12\ny.jpg\n");
    source.array("dev_feat.npy", 2, 4);
    source.file("dev_caps.txt", "one\ntwo\n");
    source.array("testall_ims.npy", 1, 4);
    source.file("testall_caps.txt", captions(1));
    let imported = source.import(&scan(&source));
    assert_eq!(imported.ids(), ["x.jpg", "12", "y.jpg", "dev-0", "dev-1"]);
    let items = imported.items();
    assert_eq!(items[1].image, None);
    assert_eq!(items[2].image.as_deref(), Some("y.jpg"));
    assert_eq!(items[2].captions[4], "caption 14");
    assert_eq!(items[4].captions, ["two"]);
    assert!(says(&imported.notes(), &["not imported", "testall"]));
    let (set, features) = imported.dataset.features(Side::Image, None).unwrap();
    assert_eq!((set.name.as_str(), &set.rows), ("precomp", &None));
    assert_eq!((features.matrix().rows(), features.row(4)), (5, Some(4)));
    // The features stay where they were.
    assert!(set.files.iter().all(|file| file.starts_with(source.path("").canonicalize().unwrap())));

    let named = Scan { splits: vec!["dev".into(), "testall".into()], ..scan(&source) };
    assert_eq!(source.import(&named).ids(), ["dev-0", "dev-1", "testall-0"]);
}

#[test]
fn scan_without_restval_or_bad_lines_keeps_its_rows() {
    let source = Source::new();
    source.array("train_ims.npy", 3, 2);
    source.file("train_caps.txt", b"a\n\xff\nc\n");
    source.file("train_ids.txt", "7\n8\n9\n");
    source.file("dataset.json", KARPATHY.replace("restval", "x").replace("\"val\"", "\"restval\""));
    let imported = source.skip_bad(&scan(&source));
    assert_eq!(imported.items()[1].captions, [""; 0]);
    assert!(says(&imported.bad(), &["train_caps.txt:2: not UTF-8"]));

    let strict = Scan { karpathy: Some(source.path("dataset.json")), ..scan(&source) };
    let imported = source.skip_bad(&strict);
    assert_eq!(imported.ids(), ["7", "9"]);
    let (set, features) = imported.dataset.features(Side::Image, Some("precomp")).unwrap();
    assert!(set.rows.is_some());
    assert_eq!([0, 1].map(|item| features.row(item)), [Some(0), Some(2)]);
}

#[test]
fn rows_that_are_repeated_for_their_captions_are_one_image() {
    let source = Source::new();
    source.array("train_ims.npy", 4, 2);
    source.file("train_caps.txt", "a1\na2\nb1\n \n");
    source.file("train_ids.txt", "a\na\nb\nb\n");
    let what = source.refused(&scan(&source));
    assert!(what.contains("train_caps.txt:4: the caption is empty"), "{what}");
    let imported = source.skip_bad(&scan(&source));
    let items = [item("a", "train", None, &["a1", "a2"]), item("b", "train", None, &["b1"])];
    assert_eq!(imported.items(), items);
    let (_, features) = imported.dataset.features(Side::Image, None).unwrap();
    assert_eq!([0, 1].map(|item| features.row(item)), [Some(0), Some(2)]);
}

#[test]
fn flags_that_would_do_nothing_are_refused() {
    let source = Source::new();
    source.array("train_ims.npy", 1, 2);
    source.file("train_caps.txt", "a\n");
    source.file("dataset.json", KARPATHY);
    let restval = Scan { karpathy: Some(source.path("dataset.json")), ..scan(&source) };
    assert!(source.refused(&restval).contains("no restval image of it is among the ids"));
    let images = Scan { image_dir: Some(source.path("")), ..scan(&source) };
    assert!(source.refused(&images).contains("the ids are not names of images"));
}

#[test]
fn scan_counts_must_agree() {
    let source = Source::new();
    assert!(source.refused(&scan(&source)).contains("not a *_precomp folder"));
    source.array("train_ims.npy", 3, 2);
    assert!(source.refused(&scan(&source)).contains("train_caps.txt is missing"));
    source.file("train_caps.txt", "a\nb\n");
    let what = source.refused(&scan(&source));
    assert!(what.contains("2 captions for 3 rows of features"), "{what}");
    source.file("train_caps.txt", "a\nb\nc\n");
    source.file("train_ids.txt", "1\n");
    assert!(source.refused(&scan(&source)).contains("1 ids for 3 rows"));
    source.file("train_ids.txt", "1\n2\n2\n");
    assert_eq!(source.import(&scan(&source)).ids(), ["1", "2"]);
    source.file("train_ids.txt", "2\n1\n2\n");
    assert!(source.refused(&scan(&source)).contains("row 2: 2"));
    source.array("train_feat.npy", 3, 2);
    assert!(source.refused(&scan(&source)).contains("both "));
}
