//! Importing and inspecting datasets.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::world::{json_lines, listed, nextpair};

fn folder_with_images() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("src")).unwrap();
    for shade in [10u8, 200] {
        let image = image::RgbImage::from_pixel(60, 40, image::Rgb([shade, 90, 90]));
        image.save(folder.path().join(format!("src/{shade}.png"))).unwrap();
    }
    folder
}

/// Returns every file below a folder with its bytes.
pub fn tree(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(folder).unwrap().display().to_string();
                files.insert(name, fs::read(path).unwrap());
            }
        }
    }
    files
}

#[test]
fn a_table_goes_in_and_is_looked_at() {
    let folder = folder_with_images();
    let path = folder.path();
    let rows = "p;not used\n";
    fs::write(path.join("src/odd.csv"), rows).unwrap();
    fs::write(path.join("src/t.tsv"), "p\tc\n10.png\tA red dog <b>\n200.png\t\n\talone & free\n")
        .unwrap();
    let run = nextpair(path, "import table src/t.tsv ds --image-col p --caption-col c");
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    for part in ["train", "3", "images without captions: 1", "texts without an image: 1"] {
        assert!(run.stdout.contains(part), "{part} in {}", run.stdout);
    }
    let run = nextpair(path, "inspect ds --sheet a.png --sheet a.html");
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    for part in ["ds (3 items)", "words per caption: 3 to 6", "without captions"] {
        assert!(run.stdout.contains(part), "{part} in {}", run.stdout);
    }
    let page = fs::read_to_string(path.join("a.html")).unwrap();
    assert!(page.contains("A red dog &lt;b&gt;") && page.contains("data:image/jpeg;base64,"));
    assert!(!page.contains("http:") && !page.contains("https:"), "the page needs nothing else");
    let sheet = image::open(path.join("a.png")).unwrap().into_rgb8();
    // The image is on the sheet, in its colour.
    assert!(sheet.pixels().any(|pixel| pixel.0 == [200, 90, 90]));
    assert_eq!(listed(path), ["a.html", "a.png", "ds", "src"]);
}

#[test]
fn bad_entries_stop_an_import_unless_they_are_skipped() {
    let folder = folder_with_images();
    let path = folder.path();
    fs::write(path.join("src/cut.png"), &fs::read(path.join("src/10.png")).unwrap()[..60]).unwrap();
    let run = nextpair(path, "import folder src ds");
    assert_eq!(run.code, Some(2));
    assert!(run.stderr.contains("--skip-bad") && run.stderr.contains("cut.png"), "{}", run.stderr);
    assert_eq!(listed(path), ["src"]);
    let run = nextpair(path, "import folder src ds --skip-bad");
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert!(run.stderr.contains("1 x bad or missing image"), "{}", run.stderr);
    let log = json_lines(&fs::read_to_string(path.join("ds/import.jsonl")).unwrap());
    assert_eq!(log.len(), 1);
    assert_eq!(nextpair(path, "import folder src ds").code, Some(2));
    assert_eq!(nextpair(path, "import folder none ds2").code, Some(2));
    assert_eq!(listed(path), ["ds", "src"]);
}

#[test]
fn every_import_can_draw_its_splits() {
    let folder = folder_with_images();
    let path = folder.path();
    let rows: String = (0..60).map(|id| format!("{id}\t10.png\tdog {id}\n")).collect();
    fs::write(path.join("src/t.tsv"), format!("id\tfilepath\ttitle\n{rows}")).unwrap();
    let run = nextpair(path, "import table src/t.tsv ds --id-col id --dev 0.3 --test 0.2");
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let items = json_lines(&fs::read_to_string(path.join("ds/items.jsonl")).unwrap());
    for split in ["train", "dev", "test"] {
        assert!(items.iter().any(|item| item["split"] == split), "{split}");
    }
    let run = nextpair(path, "import table src/t.tsv ds2 --dev 0.6 --test 0.4");
    assert_eq!(run.code, Some(2));
    assert!(run.stderr.contains("leave nothing to train on"), "{}", run.stderr);
    for kind in
        ["karpathy", "scan", "coco", "flickr", "folder", "webdataset", "parquet", "embeddings"]
    {
        let run = nextpair(path, &format!("import {kind} --help"));
        assert!(run.stdout.contains("--dev <SHARE>"), "{kind}: {}", run.stdout);
    }
}

#[test]
fn every_kind_has_its_flags() {
    for kind in [
        "karpathy",
        "scan",
        "coco",
        "flickr",
        "table",
        "folder",
        "webdataset",
        "embeddings",
        "scenes",
    ] {
        let run = nextpair(Path::new("."), &format!("import {kind} --help"));
        assert_eq!(run.code, Some(0), "{}", run.stderr);
    }
}

#[test]
fn a_vocabulary_is_written_and_measured_by() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    assert_eq!(nextpair(path, "import scenes ds --images 40").code, Some(0));
    let run = nextpair(path, "vocab ds v.json --min-count 3");
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert!(run.stdout.contains("% known"), "{}", run.stdout);
    let json: serde_json::Value =
        serde_json::from_slice(&fs::read(path.join("v.json")).unwrap()).unwrap();
    assert_eq!(json["word2idx"]["<unk>"], 3);
    let run = nextpair(path, "inspect ds --vocab v.json --json");
    let report: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(report["words"]["vocabulary"], json["idx"]);
    assert_eq!(report["synthetic"], true);
    assert_eq!(report["features"][0]["regions"], 36);
    assert_eq!(report["features"][0]["not_finite"], 0);
    assert_eq!(nextpair(path, "inspect ds --vocab ds/dataset.toml").code, Some(2));
    assert_eq!(nextpair(path, "inspect ds --sheet x.jpg").code, Some(2));
    let run = nextpair(path, "vocab ds no/v.json");
    assert_eq!(run.code, Some(2));
    assert!(run.stderr.contains("no: there is no such folder for v.json"), "{}", run.stderr);
}

#[test]
fn killed_scenes_go_on_to_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let run = nextpair(path, "import scenes whole --images 5000 --seed 3");
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let mut kills = 0;
    for _ in 0..3 {
        let mut child = Command::new(env!("CARGO_BIN_EXE_nextpair"))
            .args(["import", "scenes", "killed", "--images", "5000", "--seed", "3"])
            .current_dir(path)
            .stderr(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        // Wait until the progress record is rewritten: the program is then in the middle of the
        // next chunk.
        let record = path.join(".killed.partial/scenes.progress");
        let before = fs::read(&record).ok();
        while child.try_wait().unwrap().is_none() {
            if fs::read(&record).ok().is_some_and(|now| Some(now) != before) {
                child.kill().unwrap();
                child.wait().unwrap();
                kills += 1;
            }
        }
    }
    assert!(kills > 0, "no process was killed in the middle");
    if !path.join("killed").exists() {
        assert_eq!(nextpair(path, "import scenes killed --images 5000 --seed 3").code, Some(0));
    }
    let (mut whole, mut killed) = (tree(&path.join("whole")), tree(&path.join("killed")));
    let name = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap().replace("killed", "whole");
    assert_eq!(
        name(killed.remove("dataset.toml").unwrap()),
        name(whole.remove("dataset.toml").unwrap())
    );
    assert_eq!(whole.len(), 5002);
    assert!(whole == killed);
}

#[test]
fn worlds_depend_on_their_seed_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    for (out, seed) in [("a", 1), ("b", 1), ("c", 2)] {
        fs::create_dir(path.join(out)).unwrap();
        let run = nextpair(path, &format!("import scenes {out}/ds --images 30 --seed {seed}"));
        assert_eq!(run.code, Some(0), "{}", run.stderr);
    }
    let trees = ["a", "b", "c"].map(|out| tree(&path.join(out)));
    assert!(trees[0] == trees[1] && trees[0] != trees[2]);
    assert_eq!(nextpair(path, "import scenes d --images 0").code, Some(2));
    assert_eq!(nextpair(path, "import scenes d --near-duplicates 2").code, Some(2));
    assert_eq!(listed(path), ["a", "b", "c"]);
}
