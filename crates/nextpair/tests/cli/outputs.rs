//! The same picks in every output format, and paths that cannot be written.

use std::fs::File;

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Field, Row, RowAccessor};
use serde_json::{Value, json};

use crate::world::{World, listed};

/// Returns a world with ids for pool and pairs.
fn world() -> World {
    let world = World::small();
    world.write_lines("ids.txt", (0..40).map(|item| format!("item-{item}")));
    world.write_lines("paired.txt", (0..24).map(|pair| format!("pair-{pair}")));
    world
}

const NAMED: &str = "--ids ids.txt --paired-ids paired.txt --budget 40";

#[test]
fn csv_holds_the_same() {
    let world = world();
    for strategy in ["hard-negative", "random"] {
        world.select(&format!("{NAMED} --strategy {strategy}"));
        world.select(&format!("{NAMED} --strategy {strategy} --out out/picks.csv"));
        let text = String::from_utf8(world.read("out/picks.csv")).unwrap();
        let mut lines = text.lines();
        assert_eq!(lines.next(), Some("rank,index,id,score,hits,why"));
        let rows: Vec<Value> = lines
            .map(|line| {
                let fields: Vec<&str> = line.splitn(6, ',').collect();
                let number = |field: usize| fields[field].parse::<f64>().unwrap();
                let why = fields[5].trim_matches('"').replace("\"\"", "\"");
                json!({
                    "rank": number(0) as u64,
                    "index": number(1) as u64,
                    "id": fields[2],
                    "score": number(3),
                    "hits": fields[4].parse::<u64>().ok(),
                    "why": serde_json::from_str::<Value>(&why).unwrap(),
                })
            })
            .collect();
        assert_eq!(rows, world.picks("out/picks.jsonl"), "{strategy}");
    }
}

/// Converts a row of the Parquet file to JSON.
fn as_json(row: &Row) -> Value {
    let hits = match row.get_column_iter().nth(4).unwrap() {
        (_, Field::Null) => None,
        _ => Some(row.get_long(4).unwrap()),
    };
    let (_, Field::ListInternal(list)) = row.get_column_iter().nth(5).unwrap() else {
        panic!("{row} has no list")
    };
    let why = list.elements().iter().map(|element| {
        let Field::Group(why) = element else { panic!("{element} is not a group") };
        json!({
            "anchor": why.get_long(0).unwrap(),
            "anchor_id": why.get_string(1).unwrap(),
            "similarity": why.get_double(2).unwrap(),
            "threshold": why.get_double(3).unwrap(),
            "surplus": why.get_double(4).unwrap(),
            "own": why.get_double(5).unwrap(),
        })
    });
    json!({
        "rank": row.get_long(0).unwrap(),
        "index": row.get_long(1).unwrap(),
        "id": row.get_string(2).unwrap(),
        "score": row.get_double(3).unwrap(),
        "hits": hits,
        "why": why.collect::<Vec<_>>(),
    })
}

#[test]
fn parquet_holds_the_same_with_its_lists() {
    let world = world();
    for strategy in ["hard-negative", "random"] {
        world.select(&format!("{NAMED} --strategy {strategy}"));
        world.select(&format!("{NAMED} --strategy {strategy} --out out/picks.parquet"));
        let file = File::open(world.path("out/picks.parquet")).unwrap();
        let reader = SerializedFileReader::new(file).unwrap();
        let schema = reader.metadata().file_metadata().schema();
        let columns: Vec<&str> = schema.get_fields().iter().map(|field| field.name()).collect();
        assert_eq!(columns, ["rank", "index", "id", "score", "hits", "why"]);
        let rows = reader.get_row_iter(None).unwrap();
        let rows: Vec<Value> = rows.map(|row| as_json(&row.unwrap())).collect();
        let expected = world.picks("out/picks.jsonl");
        assert_eq!(rows, expected, "{strategy}");
        let lengths: Vec<usize> =
            expected.iter().map(|row| row["why"].as_array().unwrap().len()).collect();
        if strategy == "hard-negative" {
            assert!(lengths.contains(&0) && lengths.contains(&3), "both kinds of list");
        }
    }
}

#[test]
fn uids_are_written_sorted_as_numpy_does() {
    let world = World::small();
    let uid = |item: u64| (item.wrapping_mul(0x9e37_79b9_7f4a_7c15), item % 3);
    let digits = |(high, low): (u64, u64)| format!("{high:016x}{low:016X}");
    world.write_lines("uids.txt", (0..40).map(|item| digits(uid(item))));
    world.select("--ids uids.txt");
    world.select("--ids uids.txt --out out/picks.npy");
    let picks = world.picks("out/picks.jsonl");
    let mut expected: Vec<(u64, u64)> =
        picks.iter().map(|pick| uid(pick["index"].as_u64().unwrap())).collect();
    expected.sort_unstable();

    let bytes = world.read("out/picks.npy");
    assert_eq!(&bytes[..10], b"\x93NUMPY\x01\x00\x76\x00");
    let header = "{'descr': [('f0', '<u8'), ('f1', '<u8')], 'fortran_order': False, \
                  'shape': (9,), }";
    assert_eq!(bytes[10..128], *format!("{header:<117}\n").as_bytes());
    let data: Vec<u8> =
        expected.iter().flat_map(|(a, b)| [a.to_le_bytes(), b.to_le_bytes()].concat()).collect();
    assert_eq!(bytes[128..], data);
}

#[test]
fn only_uids_are_written_as_uids() {
    let world = world();
    let out = "--out out/picks.npy";
    world.select_refused(out, &["picks.npy", "DataComp", "--ids"]);
    world.select_refused(
        &format!("--ids ids.txt {out}"),
        &["picks.npy", "'item-0'", "is not a DataComp uid of 32 hexadecimal digits"],
    );
    // A sign is not a hexadecimal digit, although integers parse with one.
    world.write_lines("signed.txt", (0..40).map(|item| format!("+{item:031x}")));
    world.select_refused(&format!("--ids signed.txt {out}"), &["is not a DataComp uid"]);
}

#[test]
fn places_that_cannot_be_written() {
    let world = World::small();
    world.write("file", b"");
    std::fs::create_dir(world.path("folder.jsonl")).unwrap();
    for (out, expected) in [
        ("none/picks.jsonl", "none: there is no such folder for picks.jsonl"),
        ("file/picks.jsonl", "file/picks.jsonl: "),
        ("folder.jsonl", "folder.jsonl: is a directory"),
        ("out", "out: picks are written as .jsonl, .csv, .parquet or .npy"),
        ("out/picks.txt", "out/picks.txt: picks are written as .jsonl, .csv, .parquet or .npy"),
        ("out/picks", "picks are written as"),
        ("out/picks.json", "picks are written as"),
    ] {
        world.select_refused(&format!("--out {out}"), &[expected]);
    }
    let score = "score --paired-images images.npy --paired-texts texts.npy --pool pool.npy \
                 --pool-side image --strategy random --budget 9 --shard 0/1 --out none/part";
    world.refused(score, &["none: there is no such folder for part"]);
    assert_eq!(listed(&world.path("folder.jsonl")), [""; 0]);
}

#[cfg(unix)]
#[test]
fn a_read_only_folder_is_refused() {
    use std::os::unix::fs::PermissionsExt;

    let world = World::small();
    let folder = world.path("locked");
    std::fs::create_dir(&folder).unwrap();
    let allow = |mode| {
        std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    allow(0o555);
    // Root may write anywhere, which leaves nothing to test.
    if File::create(folder.join("probe")).is_err() {
        world.select_refused("--out locked/picks.jsonl", &["locked/picks.jsonl: "]);
        assert_eq!(listed(&folder), [""; 0]);
    }
    allow(0o755);
}

#[test]
fn older_picks_are_replaced() {
    let world = World::small();
    world.write("out/picks.jsonl", b"old");
    world.select("--budget 1");
    assert_eq!(world.picks("out/picks.jsonl").len(), 1);
    assert_eq!(listed(&world.path("out")), ["picks.jsonl"]);
}
