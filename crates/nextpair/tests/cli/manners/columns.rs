//! Columns of Parquet files, arrays of `.npz` files, and photographs that are not there.

use std::fs;
use std::process::Command;

use super::lab;

#[test]
fn columns_without_parquet_files_are_refused() {
    let lab = lab(20);
    lab.succeeds("example world");
    let select = "select --paired-images world/paired_images.npy --paired-texts \
                  world/paired_texts.npy --pool world/pool.npy --pool-side image --budget 5 --out \
                  p.jsonl";
    lab.refused(
        &format!("{select} --id-column key"),
        "--id-column: only Parquet files have columns",
    );
    lab.refused(
        "import embeddings world/pool.npy new --embedding-column v",
        "--embedding-column: only Parquet files have columns",
    );
}

#[test]
fn missing_photographs_are_kept_if_they_are_optional() {
    let lab = lab(20);
    fs::create_dir(lab.path("photos")).unwrap();
    fs::copy(lab.path("ds/images/000/scene-000000.png"), lab.path("photos/a.png")).unwrap();
    lab.write("t.csv", "filepath,title\na.png,A dog.\nb.png,A cat.\n");
    let import = "import table t.csv new --image-dir photos";
    lab.refused(import, "b.png");
    let run = lab.succeeds(&format!("{import} --images-optional"));
    assert!(
        run.stderr.contains("1 x image file that is not there, such as b.png"),
        "{}",
        run.stderr
    );
    let items = fs::read_to_string(lab.path("new/items.jsonl")).unwrap();
    assert_eq!(items.lines().count(), 2);
    let sheet = lab.succeeds("inspect new --sheet s.html");
    assert!(sheet.stderr.is_empty() || !sheet.stderr.contains("error"), "{}", sheet.stderr);
    let page = fs::read_to_string(lab.path("s.html")).unwrap();
    assert!(page.contains("image not at hand") && page.contains("b.png"), "{page}");
    // A damaged file is not a missing one.
    lab.write("photos/b.png", "no image");
    let _ = fs::remove_dir_all(lab.path("new"));
    lab.refused(&format!("{import} --images-optional"), "b.png");
}

/// Where NumPy is there, its archives are read as it writes them.
#[test]
fn archives_of_numpy_are_read() {
    let lab = lab(20);
    lab.succeeds("example world");
    let script = "import numpy as n\nw='world/'\nf=['paired_images','paired_texts','pool']\n\
                  n.savez('s.npz',**{k:n.load(w+k+'.npy') for k in f})\n\
                  n.savez_compressed('c.npz',**{k:n.load(w+k+'.npy') for k in f})\n";
    let made = Command::new("python3").args(["-c", script]).current_dir(lab.path("")).output();
    if !made.is_ok_and(|made| made.status.success()) {
        // The formats themselves are tested where they are read.
        return;
    }
    let select = |name: &str, ending: &str| {
        format!(
            "select --paired-images {name}paired_images{ending} --paired-texts \
             {name}paired_texts{ending} --pool {name}pool{ending} --pool-side image --budget 50"
        )
    };
    lab.succeeds(&format!("{} --out a.jsonl", select("world/", ".npy")));
    for (name, out) in [("s.npz:", "s.jsonl"), ("c.npz:", "c.jsonl")] {
        lab.succeeds(&format!("{} --out {out}", select(name, "")));
        assert_eq!(fs::read(lab.path(out)).unwrap(), fs::read(lab.path("a.jsonl")).unwrap());
    }
    lab.refused(
        &format!("{} --out x.jsonl", select("s.npz:x", "")),
        "no array xpool; its arrays are paired_images, paired_texts, pool",
    );
}
