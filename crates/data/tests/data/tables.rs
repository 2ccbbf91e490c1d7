//! CSV and TSV tables, and folders with metadata.

use std::collections::BTreeMap;

use nextpair_data::dataset::DrawnSplits;
use nextpair_data::import::{Folder, SplitSource, Table};

use crate::source::{Source, item, no_such_file, says};

fn table(source: &Source, name: &str) -> Table {
    Table::new(source.path(name))
}

#[test]
fn open_clip_tables() {
    let source = Source::new();
    for (shade, name) in ["a.png", "b c.png", "sub/d.png"].into_iter().enumerate() {
        source.image(name, shade as u8);
    }
    source.file(
        "t.csv",
        "\u{feff}filepath,title,other\r\na.png,\"A \"\"dog\"\", running\",1\r\n\
         b c.png,two,2\r\na.png,\"line\nbreak\",3\r\n,no image,4\r\n./sub/d.png,,5\r\n",
    );
    let imported = source.import(&table(&source, "t.csv"));
    let expected = [
        item("a.png", "train", Some("a.png"), &["A \"dog\", running", "line\nbreak"]),
        item("b c.png", "train", Some("b c.png"), &["two"]),
        item("row-4", "train", None, &["no image"]),
        item("sub/d.png", "train", Some("sub/d.png"), &[]),
    ];
    assert_eq!(imported.items(), expected);
    let counts = imported.summary.splits[&Some("train".into())];
    assert_eq!((counts.unpaired_images, counts.unpaired_texts), (1, 1));

    let whole = source.path("a.png");
    let rows = format!("path\tcap\tpart\tkey\n{}\tx 'y'\tval\tk1\n", whole.display());
    source.file("t.tsv", rows);
    let named = Table {
        image_column: Some("path".into()),
        caption_column: Some("cap".into()),
        id_column: Some("key".into()),
        split_column: Some("part".into()),
        ..table(&source, "t.tsv")
    };
    assert_eq!(source.import(&named).items(), [item("k1", "dev", Some("a.png"), &["x 'y'"])]);
}

#[test]
fn bad_rows_are_named() {
    let source = Source::new();
    source.image("a.png", 1);
    source.file(
        "t.csv",
        "filepath,title\r\na.png,ok\r\na.png\r\n,\r\n../x.png,out\r\n/etc/passwd,out\r\n",
    );
    let what = source.refused(&table(&source, "t.csv"));
    for part in ["4 bad entries", "t.csv:3: ", "t.csv:4", "t.csv:5: the path \"../x.png\"", ":6: "]
    {
        assert!(what.contains(part), "{part} in {what}");
    }
    assert_eq!(source.skip_bad(&table(&source, "t.csv")).ids(), ["a.png"]);

    source.file("t.csv", "path,title\na.png,ok\n");
    let without = Table { caption_column: Some("none".into()), ..table(&source, "t.csv") };
    let what = source.refused(&without);
    assert!(what.contains("t.csv:1: no column none; its columns are path, title"), "{what}");
    let notes = source.import(&table(&source, "t.csv")).notes();
    assert!(says(&notes, &["usual column is missing", "filepath; there are path, title"]));
    source.file("t.csv", "a,b\nx,y\n");
    let what = source.refused(&table(&source, "t.csv"));
    assert!(what.contains("no column filepath or title; its columns are a, b"), "{what}");
    source.file("t.csv", "filepath,title\na.png,ok\n");
    let what = source.refused(&Table { id_column: Some("uid".into()), ..table(&source, "t.csv") });
    assert!(what.contains("no column uid"), "{what}");

    source.file("t.csv", "filepath,title\nmissing.png,x\n");
    let expected = format!("missing.png: {}", no_such_file());
    assert!(source.refused(&table(&source, "t.csv")).contains(&expected));
    let elsewhere = Table { without_images: true, ..table(&source, "t.csv") };
    assert_eq!(source.import(&elsewhere).ids(), ["missing.png"]);

    source.file("t.csv", b"filepath,title\na.png,\xff\n".as_slice());
    assert!(source.refused(&table(&source, "t.csv")).contains("t.csv:2: "));
    source.file("t.csv", "filepath,title\n");
    assert!(source.refused(&table(&source, "t.csv")).contains("nothing to import"));
}

#[test]
fn an_image_is_one_item_of_one_split() {
    let source = Source::new();
    source.image("a.png", 1);
    source.file("t.csv", "filepath,title,split\na.png,x,train\na.png,y,test\n");
    let split = Table { split_column: Some("split".into()), ..table(&source, "t.csv") };
    assert!(source.refused(&split).contains("image in two splits: "));
    source.image("b.png", 2);
    source.file("t.csv", "filepath,title,id\na.png,x,1\nb.png,y,1\n");
    let id = Table { id_column: Some("id".into()), ..table(&source, "t.csv") };
    assert!(source.refused(&id).contains("id with two images: "));
}

#[test]
fn the_usual_column_of_splits_is_taken_and_others_are_named_once() {
    let source = Source::new();
    for (shade, name) in ["a.png", "b.png", "c.png"].into_iter().enumerate() {
        source.image(name, shade as u8);
    }
    source.file(
        "t.csv",
        "filepath,title,split,price,licence\na.png,x,test,1,cc\nb.png,y,validation,2,cc\nc.png,z,,3,cc\n",
    );
    let imported = source.import(&table(&source, "t.csv"));
    let splits: Vec<Option<String>> = imported.items().into_iter().map(|item| item.split).collect();
    assert_eq!(splits, ["test", "dev", "train"].map(|split| Some(split.to_owned())));
    assert_eq!(imported.notes(), ["2 x column that is not used: price; licence"]);
}

#[test]
fn splits_are_drawn_from_paired_training_items_and_stay() {
    let source = Source::new();
    source.image("a.png", 1);
    let rows = |count: usize| -> String {
        let row = |id| format!("{id},a.png,caption {id},{}\n", if id < 100 { "test" } else { "" });
        let unpaired = |id| format!("u{id},a.png,,\n");
        let header = "id,filepath,title,split\n".to_owned();
        (0..count).map(row).chain((0..50).map(unpaired)).fold(header, |text, row| text + &row)
    };
    let import = |rows: String| {
        source.file("t.csv", rows);
        let table = Table { id_column: Some("id".into()), ..table(&source, "t.csv") };
        let splits = DrawnSplits::new(0.2, 0.1).unwrap();
        let imported = source.import(&SplitSource { source: Box::new(table), splits });
        let items = imported.items().into_iter();
        items.map(|item| (item.id, item.split.unwrap())).collect::<BTreeMap<String, String>>()
    };
    let (few, more) = (import(rows(400)), import(rows(500)));
    assert!(few.iter().all(|(id, split)| more[id] == *split), "items keep their splits");
    let count = |split: &str| more.values().filter(|own| *own == split).count();
    // A fifth and a tenth of 400, beside the 100 of the source.
    assert!((60..100).contains(&count("dev")), "{}", count("dev"));
    assert!((120..160).contains(&count("test")), "{}", count("test"));
    let of = |id: &str| more.iter().filter(|(own, _)| own.starts_with(id)).collect::<Vec<_>>();
    assert!(of("u").iter().all(|(_, split)| *split == "train"), "unpaired ones stay in the pool");

    source.file("t.csv", "filepath,title\na.png,x\n");
    let splits = DrawnSplits::new(0.000001, 0.0).unwrap();
    let imported =
        source.import(&SplitSource { source: Box::new(table(&source, "t.csv")), splits });
    assert!(says(&imported.notes(), &["split of which no item was drawn", "dev"]));
}

#[test]
fn open_clip_separates_by_tabs_whatever_the_name() {
    let source = Source::new();
    let image = source.image("a.png", 1);
    let whole = image.canonicalize().unwrap();
    source.file("t.csv", format!("filepath\ttitle\n{}\tone, two\n", whole.display()));
    let imported = source.import(&table(&source, "t.csv"));
    assert_eq!(imported.items()[0].image.as_deref(), Some("a.png"));
    assert_eq!(imported.items()[0].captions, ["one, two"]);
}

fn folder(source: &Source) -> Folder {
    Folder { folder: source.path(""), caption_key: None, split: "train".into() }
}

#[test]
fn image_folders() {
    let source = Source::new();
    source.image("train/b.png", 1);
    source.image("train/deep/a.png", 2);
    source.image("validation/c.png", 3);
    source.image("d.png", 4);
    source.file("train/notes.txt", "not an image");
    source.file(".hidden.png", "not looked at");
    source.file(
        "train/metadata.jsonl",
        "{\"file_name\":\"b.png\",\"text\":\"one\"}\r\n{\"file_name\":\"b.png\",\"text\":\"two\"}\n\n\
         {\"file_name\":\"deep/a.png\",\"captions\":[\"x\",\"y\"],\"other\":[1]}\n{\"text\":\"alone\"}\n",
    );
    source.file("validation/metadata.csv", "file_name,caption\nc.png,\"a, b\"\n");
    let imported = source.import(&folder(&source));
    assert_eq!(
        imported.items(),
        [
            item("d.png", "train", Some("d.png"), &[]),
            item("train/b.png", "train", Some("train/b.png"), &["one", "two"]),
            item("train/deep/a.png", "train", Some("train/deep/a.png"), &["x", "y"]),
            item("train/metadata.jsonl:5", "train", None, &["alone"]),
            item("validation/c.png", "dev", Some("validation/c.png"), &["a, b"]),
        ]
    );
    let absent = Folder { caption_key: Some("none".into()), ..folder(&source) };
    assert!(source.refused(&absent).contains("no line of its metadata has the key none"));
    let keyed = Folder { caption_key: Some("other".into()), ..folder(&source) };
    assert!(
        source.refused(&keyed).contains("metadata.jsonl:4: a caption must be a text, but is 1")
    );
}

#[test]
fn folders_are_splits_only_by_their_whole_name() {
    let source = Source::new();
    for (shade, folder) in ["valley", "devices", "val2014", "test-1", "Training"].iter().enumerate()
    {
        source.image(&format!("{folder}/a.png"), shade as u8);
    }
    let splits = source.import(&folder(&source)).items().into_iter().filter_map(|item| item.split);
    assert_eq!(splits.collect::<Vec<_>>(), ["train", "train", "test", "dev", "train"]);
}

#[test]
fn metadata_must_fit_the_images() {
    let source = Source::new();
    source.image("a.png", 1);
    source.file("b.png", "not a picture");
    source.file(
        "metadata.jsonl",
        "{\"file_name\":\"a.png\",\"text\":\"ok\"}\n{\"file_name\":\"none.png\"}\n\
         {\"file_name\":\"../a.png\"}\n{\"file_name\":3}\nnot json\n\
         {}\n{\"image_file_name\":\"a.png\",\"mask_file_name\":\"a.png\"}\n{\"file_name\":\"a.png\",\"text\":\" \"}\n",
    );
    let what = source.refused(&folder(&source));
    for part in [
        "8 bad entries",
        ":6: neither file_name nor caption",
        ":7: image_file_name and mask_file_name: an item has one image",
        ":8: the caption is empty",
        "metadata.jsonl:2: there is no none.png",
        ":3: the path \"../a.png\"",
        ":4: file_name must be a text",
        ":5: expected ident",
        "b.png: ",
    ] {
        assert!(what.contains(part), "{part} in {what}");
    }
    let imported = source.skip_bad(&folder(&source));
    assert_eq!(imported.items(), [item("a.png", "train", Some("a.png"), &["ok"])]);
    assert!(says(&imported.bad(), &["missing image"]));
}
