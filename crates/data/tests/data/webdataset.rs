//! Tests of tar shards, valid and malicious.

use std::io::Write;

use nextpair_data::import::WebDataset;

use crate::source::{Source, exists, item, png, says};

/// A tar file with its names written unchecked.
fn shard(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (name, content) in members {
        let mut header = tar::Header::new_gnu();
        header.as_mut_bytes()[..name.len()].copy_from_slice(name.as_bytes());
        header.set_size(content.len() as u64);
        header.set_entry_type(tar::EntryType::Regular);
        header.set_cksum();
        bytes.extend(header.as_bytes());
        bytes.extend(*content);
        bytes.resize(bytes.len().next_multiple_of(512), 0);
    }
    bytes.resize(bytes.len() + 1024, 0);
    bytes
}

fn importer(source: &Source, name: &str) -> WebDataset {
    WebDataset { source: source.path(name), split: "train".into() }
}

#[test]
fn members_of_one_name_are_one_item() {
    let source = Source::new();
    source.file(
        "shards/00000.tar",
        shard(&[
            ("./000000.png", &png(1)),
            ("./000000.txt", "\u{feff}A dog .\n".as_bytes()),
            ("./000000.json", b"{\"caption\":\"not this\"}"),
            ("dir/000001.json", b"{\"caption\":\"A cat\",\"width\":3}"),
            ("dir/000001.png", &png(2)),
            ("000002.png", &png(3)),
            ("000003.txt", b"only text"),
            ("000004.cls", b"7"),
        ]),
    );
    let mut zipped = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    zipped.write_all(&shard(&[("000000.png", &png(9))])).unwrap();
    source.file("shards/val-00001.tar.gz", zipped.finish().unwrap());
    source.file("shards/README", "not a shard");
    let imported = source.import(&importer(&source, "shards"));
    let image = |name| Some(name);
    assert_eq!(
        imported.items(),
        [
            item("00000/000000", "train", image("00000/000000.png"), &["A dog ."]),
            item("00000/dir/000001", "train", image("00000/dir/000001.png"), &["A cat"]),
            item("00000/000002", "train", image("00000/000002.png"), &[]),
            item("00000/000003", "train", None, &["only text"]),
            item("val-00001/000000", "dev", image("val-00001/000000.png"), &[]),
        ]
    );
    let unpacked = imported.folder.join("images/00000/dir/000001.png");
    assert_eq!(std::fs::read(unpacked).unwrap(), png(2));
    assert!(says(&imported.notes(), &["sample without image and caption", "000004"]));
    assert_eq!(imported.dataset.manifest().images.as_deref(), Some("images".as_ref()));
}

/// A tar file whose only members have names too long for their headers.
fn long_names(names: &[String], content: &[u8]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for name in names {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_entry_type(tar::EntryType::Regular);
        builder.append_data(&mut header, name, content).unwrap();
    }
    builder.into_inner().unwrap()
}

#[test]
fn names_do_not_make_folders_without_end() {
    let source = Source::new();
    // Each of them would make two thousand folders.
    let deep: Vec<String> = (0..400).map(|n| format!("{n}/{}x.png", "a/".repeat(1900))).collect();
    source.file("deep.tar", long_names(&deep, &png(1)));
    let what = source.refused(&importer(&source, "deep.tar"));
    assert!(what.contains("400 bad entries"), "{what}");
    let long = ["a".repeat(1030) + ".txt", "b".repeat(1010) + ".txt"];
    source.file("long.tar", long_names(&long, b"a caption"));
    let what = source.refused(&importer(&source, "long.tar"));
    assert!(what.contains("1 bad entry") && what.contains("a name of 1034 bytes"), "{what}");
    let folders = "a/".repeat(32);
    source.file(
        "d.tar",
        long_names(&[format!("{folders}x.txt"), format!("{}x.txt", &folders[2..])], b"x"),
    );
    let what = source.refused(&importer(&source, "d.tar"));
    assert!(what.contains("1 bad entry") && what.contains("in more than 32 folders"), "{what}");
    let imported = source.skip_bad(&importer(&source, "d.tar"));
    assert_eq!(imported.items().len(), 1);
}

/// The time must be linear in the number of captions.
#[test]
fn a_sample_may_have_very_many_captions() {
    let source = Source::new();
    let mut captions: Vec<String> = (0..400_000).map(|n| format!("caption {n}")).collect();
    captions.push(captions[7].clone());
    let json = serde_json::json!({ "captions": captions }).to_string();
    source.file("x.tar", shard(&[("000000.json", json.as_bytes())]));
    let imported = source.import(&importer(&source, "x.tar"));
    assert_eq!(imported.items()[0].captions.len(), captions.len());
    assert!(says(&imported.notes(), &["caption twice on one image", "caption 7"]));
}

#[test]
fn a_small_file_does_not_become_a_large_one() {
    let source = Source::new();
    let good = png(3);
    let zeros = vec![0; 128 << 20];
    let bytes = shard(&[("000000.png", &good), ("000001.bin", &zeros), ("000002.png", &good)]);
    let mut zipped = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    zipped.write_all(&bytes).unwrap();
    source.file("x.tgz", zipped.finish().unwrap());
    let what = source.refused(&importer(&source, "x.tgz"));
    assert!(what.contains("becomes more than 200 times as large"), "{what}");
    let imported = source.skip_bad(&importer(&source, "x.tgz"));
    assert_eq!(imported.items().len(), 1, "what comes before is kept");
}

#[test]
fn empty_images_are_refused_without_being_written() {
    let source = Source::new();
    source.file("x.tar", shard(&[("000000.png", b""), ("000001.txt", b"a dog")]));
    let what = source.refused(&importer(&source, "x.tar"));
    assert!(what.contains("1 bad entry") && what.contains("000000.png: is empty"), "{what}");
}

#[test]
fn nothing_is_written_outside() {
    let source = Source::new();
    let names =
        ["../escape.png", "a/../../escape.png", "/tmp/nextpair-escape.png", "..\\escape.png"];
    let members: Vec<(&str, Vec<u8>)> = names.iter().map(|&name| (name, png(1))).collect();
    let mut members: Vec<(&str, &[u8])> = members.iter().map(|(n, b)| (*n, b.as_slice())).collect();
    let good = png(5);
    members.push(("good.png", &good));
    source.file("x.tar", shard(&members));
    let what = source.refused(&importer(&source, "x.tar"));
    assert!(what.contains("4 bad entries") && what.contains("x.tar: ../escape.png"), "{what}");
    let imported = source.skip_bad(&importer(&source, "x.tar"));
    assert_eq!(imported.ids(), ["x/good"]);
    assert_eq!(source.outside().len(), 2, "{:?}", source.outside());
    assert!(!exists("/tmp/nextpair-escape.png"));
}

#[test]
fn odd_names_of_shards_and_members_stay_inside() {
    let source = Source::new();
    let image = png(1);
    let bytes = shard(&[("tmp/x.png", &image), ("a.png", &image)]);
    source.file("s/.tar", &bytes);
    source.file("s/...tar", &bytes);
    source
        .file("s/ok.tar", shard(&[("a.depth.png", &png(9)), ("a.png", &image), ("._a.png", b"x")]));
    let imported = source.skip_bad(&importer(&source, "s"));
    assert_eq!(imported.ids(), ["ok/a"]);
    assert_eq!(imported.items()[0].image.as_deref(), Some("ok/a.png"));
    assert!(source.refused(&importer(&source, "s/.tar")).contains("no .tar"));
}

#[test]
fn what_is_not_kept_is_not_left() {
    let source = Source::new();
    let (one, long) = (png(1), format!("{}.png", "n".repeat(90)));
    source.file(
        "x.tar",
        shard(&[
            ("a.png", b"not a picture"),
            ("b.png", &one),
            ("c.png", &png(2)),
            ("b.png", &one),
            ("b/c.png", &png(3)),
            (&long, &png(4)),
            ("d.png", &png(5)),
            ("d.json", b"[1]"),
            ("e.json", b"{\"caption\":null,\"text\":\"t\"}"),
        ]),
    );
    let imported = source.skip_bad(&importer(&source, "x.tar"));
    let kept: Vec<_> = imported.items().into_iter().filter_map(|item| item.image).collect();
    let mut files = 0;
    let mut folders = vec![imported.folder.join("images")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { folders.push(path) } else { files += 1 }
        }
    }
    assert_eq!(files, kept.len());
    assert_eq!(imported.items().last().unwrap().captions, ["t"]);
    assert!(says(&imported.bad(), &["impossible member", "b.png"]), "{:?}", imported.bad());
}

#[test]
fn headers_do_not_fill_the_memory() {
    let source = Source::new();
    let mut header = tar::Header::new_gnu();
    header.set_path("././@LongLink").unwrap();
    header.set_entry_type(tar::EntryType::GNULongName);
    header.set_size(1 << 30);
    header.set_cksum();
    let mut bytes = header.as_bytes().to_vec();
    bytes.resize(4096, 0);
    source.file("x.tar", bytes);
    let what = source.refused(&importer(&source, "x.tar"));
    assert!(what.contains("damaged shard") && what.contains("a header of 1073741824"), "{what}");

    // Valid long names are read.
    let mut archive = tar::Builder::new(Vec::new());
    let name = format!("{}a.txt", "deep/".repeat(30));
    let mut header = tar::Header::new_gnu();
    header.set_size(1);
    archive.append_data(&mut header, &name, &b"x"[..]).unwrap();
    source.file("y.tar", archive.into_inner().unwrap());
    let imported = source.import(&importer(&source, "y.tar"));
    assert!(imported.ids()[0].starts_with("y/deep/deep/"), "{:?}", imported.ids());
}

#[test]
fn links_and_devices_are_refused() {
    let source = Source::new();
    let mut bytes = Vec::new();
    for kind in [tar::EntryType::Symlink, tar::EntryType::Link, tar::EntryType::Fifo] {
        let mut header = tar::Header::new_gnu();
        header.set_path("link.png").unwrap();
        header.set_link_name("/etc/passwd").unwrap();
        header.set_entry_type(kind);
        header.set_size(0);
        header.set_cksum();
        bytes.extend(header.as_bytes());
    }
    bytes.extend(shard(&[("a.txt", b"fine")]));
    source.file("x.tar", bytes);
    let what = source.refused(&importer(&source, "x.tar"));
    assert!(what.contains("3 bad entries") && what.contains("not an ordinary file"), "{what}");
    assert_eq!(source.skip_bad(&importer(&source, "x.tar")).ids(), ["x/a"]);
}

#[test]
fn damaged_shards_do_not_stop_the_others() {
    let source = Source::new();
    let whole = shard(&[("a.png", &png(1)), ("b.png", &vec![7; 4000])]);
    source.file("s/1.tar", &whole[..whole.len() - 3000]);
    source.file("s/2.tar", shard(&[("c.png", &png(2)), ("c.txt", b"\xff"), ("d.json", b"{")]));
    source.file("s/3.tar.gz", b"not gzip");
    let what = source.refused(&importer(&source, "s"));
    for part in ["damaged shard", "1.tar: ", "c.txt: not UTF-8", "d.json: ", "3.tar.gz: "] {
        assert!(what.contains(part), "{part} in {what}");
    }
    let imported = source.skip_bad(&importer(&source, "s"));
    assert_eq!(imported.ids(), ["1/a", "2/c"]);
    source.file("none/x.txt", "");
    assert!(source.refused(&importer(&source, "none")).contains("no .tar"));
    source.file("two/a.tar", shard(&[]));
    source.file("two/a.tgz", "");
    assert!(source.refused(&importer(&source, "two")).contains("has the same name as"));
}

#[test]
fn a_sample_that_comes_twice_is_a_duplicate() {
    let source = Source::new();
    let one = png(1);
    source.file(
        "x.tar",
        shard(&[("a.txt", b"1"), ("b.txt", b"2"), ("a.txt", b"3"), ("c.png", &one)]),
    );
    assert!(source.refused(&importer(&source, "x.tar")).contains("id seen before"));
}
