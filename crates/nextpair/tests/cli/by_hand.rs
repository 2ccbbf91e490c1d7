//! The loop without an experiment: images, picks, captions of people, a larger dataset, and again.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::annotate::app::App;
use crate::annotate::driver::Browser;
use crate::annotate::images::Annotator;
use crate::world::{Run, json_lines, nextpair, nextpair_with};

const BATCH: usize = 10;

/// A folder with generated images in `album`, what they show, and a tiny encoder.
struct Album {
    folder: tempfile::TempDir,
    /// A true caption of every image.
    shown: HashMap<String, String>,
}

impl Album {
    fn new(images: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        let run = nextpair(path, &format!("import scenes ds --images {images}"));
        assert_eq!(run.code, Some(0), "{}", run.stderr);
        fs::rename(path.join("ds/images"), path.join("album")).unwrap();
        let items = json_lines(&fs::read_to_string(path.join("ds/items.jsonl")).unwrap());
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let of = |item: &Value| (text(&item["image"]), text(&item["captions"][0]));
        let shown = items.iter().map(of).collect();
        let fixtures = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../encode/tests/fixtures");
        fs::copy(fixtures.join("image.onnx"), path.join("image.onnx")).unwrap();
        let prepared = "size = 8\nresize = \"squash\"\nscale = 1\nmean = [127, 127, 127]\n\
                        std = [128, 128, 128]\n";
        fs::write(path.join("image.toml"), prepared).unwrap();
        Album { folder, shown }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn succeeds(&self, words: &str) -> Run {
        let run = nextpair(self.folder.path(), words);
        assert_eq!(run.code, Some(0), "{words}: {}", run.stderr);
        run
    }

    /// Captions the first images of the dataset, as somebody would in a spreadsheet.
    fn write_first_captions(&self, count: usize) {
        let mut names: Vec<&String> = self.shown.keys().collect();
        names.sort();
        let rows = names[..count].iter().map(|name| format!("{name},\"{}\"\n", self.shown[*name]));
        fs::write(self.path("first.csv"), format!("id,caption\n{}", rows.collect::<String>()))
            .unwrap();
    }

    /// Answers picks with what their images show.
    fn write_answers(&self, picks: &str, answers: &str) {
        let picks = json_lines(&fs::read_to_string(self.path(picks)).unwrap());
        let line = |pick: &Value| {
            let caption = &self.shown[pick["id"].as_str().unwrap()];
            serde_json::json!({ "id": pick["id"], "caption": caption }).to_string() + "\n"
        };
        fs::write(self.path(answers), picks.iter().map(line).collect::<String>()).unwrap();
    }
}

/// Returns the command that a run says is next.
fn next(run: &Run) -> String {
    let last = run.stderr.lines().last().unwrap_or_default();
    let command = last.strip_prefix("next        ");
    command.unwrap_or_else(|| panic!("the last line is no next command: {}", run.stderr)).to_owned()
}

/// Runs a command line as a person would: in a shell, with the program on the path.
pub(crate) fn typed(folder: &Path, line: &str) -> Run {
    let program = Path::new(env!("CARGO_BIN_EXE_nextpair"));
    let path = std::env::var("PATH").unwrap();
    let output = Command::new("sh")
        .args(["-c", line])
        .current_dir(folder)
        .env("PATH", format!("{}:{path}", program.parent().unwrap().display()))
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let run = Run {
        code: output.status.code(),
        stdout: text(output.stdout),
        stderr: text(output.stderr),
    };
    assert_eq!(run.code, Some(0), "{line}: {}{}", run.stdout, run.stderr);
    run
}

/// Every line is typed as the command before it printed it, but for what only the user knows.
#[test]
fn each_command_names_the_next() {
    let album = Album::new(40);
    let folder = album.folder.path();
    let imported = nextpair_with(folder, &["import", "folder", "album", "my photos"]);
    assert_eq!(imported.code, Some(0), "{}", imported.stderr);
    let embed = next(&imported);
    assert_eq!(embed, "nextpair embed 'my photos' --image-model ENCODER.onnx");
    let embedded = typed(folder, &(embed.replace("ENCODER.onnx", "image.onnx") + " --pooled"));
    let first = "nextpair select 'my photos' --budget 40 --out picks.jsonl";
    assert_eq!(next(&embedded), first);
    // Eight are enough to begin with.
    let selected = typed(folder, &first.replace("--budget 40", "--budget 8"));
    assert_eq!(next(&selected), "nextpair annotate picks.jsonl --dataset 'my photos'");
    album.write_answers("picks.jsonl", "picks.answers.jsonl");
    let added = typed(folder, "nextpair add 'my photos' picks.answers.jsonl --out 'my photos-2'");
    fs::remove_file(album.path("picks.jsonl")).unwrap();
    fs::remove_file(album.path("picks.answers.jsonl")).unwrap();
    assert_eq!(next(&added), "nextpair train 'my photos-2' --model vse++ --out model");
    let trained = typed(folder, &next(&added));
    let select = "nextpair select --model model 'my photos-2' --pool-side image --budget 32 --out picks.jsonl";
    assert_eq!(next(&trained), select);
    let selected = typed(folder, select);
    let annotate = next(&selected);
    assert_eq!(annotate, "nextpair annotate picks.jsonl --dataset 'my photos-2' --after model");
    // The app stays up; once there is an answer to every pick, it names what is next at once.
    album.write_answers("picks.jsonl", "picks.answers.jsonl");
    let line = format!(
        "{annotate} --port 0 2> said & until grep -q /join/ said; do :; done; kill $!; cat said >&2"
    );
    let served = typed(folder, &line);
    let found = served.stderr.lines().find_map(|line| line.strip_prefix("next        "));
    let add = "nextpair add 'my photos-2' picks.answers.jsonl --after model --test 0.2 --out 'my photos-3'";
    assert_eq!(found, Some(add), "{}", served.stderr);
    let added = typed(folder, add);
    assert!(
        added.stdout.contains("captions    32 added\npaired      32 more items\n"),
        "{}",
        added.stdout
    );
    let train = "nextpair train 'my photos-3' --model vse++ --after model --out model-2";
    assert_eq!(next(&added), train);
    // Nothing is left to pick: the models are compared.
    let trained = typed(folder, &(next(&added) + " --epochs 1 --dim 16"));
    assert_eq!(next(&trained), "nextpair eval model-2 'my photos-3' --against model");
    typed(folder, &next(&trained));

    // Selections on files, whole and in shards.
    let example = typed(folder, "nextpair example world");
    let selected = typed(folder, &next(&example));
    assert_eq!(next(&selected), "nextpair annotate picks-2.jsonl --dataset DATASET --ids IDS");
    let files = "--paired-images world/paired_images.npy --paired-texts world/paired_texts.npy \
                 --pool world/pool.npy --pool-side image --budget 5";
    let score = |shard: usize| {
        let words = format!("nextpair score {files} --strategy hard-negative");
        typed(folder, &format!("{words} --shard {shard}/2 --out part-{shard}"))
    };
    assert_eq!(next(&score(0)), "nextpair merge PARTS --out picks-3.jsonl");
    assert_eq!(next(&score(1)), "nextpair merge part-0 part-1 --out picks-3.jsonl");
    typed(folder, "nextpair merge part-0 part-1 --out picks-3.jsonl");
    let quiet = nextpair(folder, &format!("select {files} --json --out p.jsonl"));
    assert!(!quiet.stderr.contains("next  "), "{}", quiet.stderr);

    // Experiments.
    fs::rename(album.path("album"), album.path("ds/images")).unwrap();
    fs::write(
        album.path("e.toml"),
        "dataset = \"ds\"\ninitial = 0.3\nbudget = 2\nrounds = 1\nstrategies = [\"random\"]\n\
         [model]\narchitecture = \"vse\"\ndim = 8\nword_dim = 8\n[training]\nepochs = 1\nvalidate_last = 0\n",
    )
    .unwrap();
    let ran = typed(folder, "nextpair run e.toml --out 'an experiment'");
    assert_eq!(next(&ran), "nextpair report 'an experiment'");
    let reported = typed(folder, &next(&ran));
    assert_eq!(next(&reported), "nextpair run 'an experiment' --resume --rounds 2");
    typed(folder, &next(&reported));
    let evaluated = typed(folder, "nextpair eval 'an experiment/seed-0/round-0' ds");
    let again = next(&evaluated);
    assert!(
        again.starts_with("nextpair select --model 'an experiment/seed-0/round-0' ds "),
        "{again}"
    );
    typed(folder, &again);
}

/// Returns how many captions find their own image first among all images of a dataset.
fn found(album: &Album, model: &str, dataset: &str, said: &HashMap<String, String>) -> usize {
    let first = |(item, caption): &(&String, &String)| {
        let words = ["search", model, dataset, caption.as_str(), "--top", "1", "--json"];
        let run = nextpair_with(album.folder.path(), &words);
        assert_eq!(run.code, Some(0), "{}", run.stderr);
        let found: Value = serde_json::from_str(&run.stdout).unwrap();
        found["results"][0]["id"] == **item
    };
    said.iter().filter(first).count()
}

#[test]
fn captions_typed_in_a_browser_are_found_by_the_next_model() {
    let album = Album::new(60);
    album.succeeds("import folder album photos");
    album.succeeds("embed photos --image-model image.onnx --regions 9");
    album.write_first_captions(16);
    album.succeeds("add photos first.csv --out photos-2");
    let train = "--model vse++ --dim 64 --word-dim 32 --min-count 1 --epochs 120 --rate 2e-3 --decay-every 100 \
                 --batch 13 --validate-last 0";
    album.succeeds(&format!("train photos-2 {train} --out model"));
    let words = "select --model model photos-2 --pool-side image --strategy hard-negative";
    let select = format!("{words} --budget {BATCH}");
    album.succeeds(&format!("{select} --out picks.csv"));

    let words = "picks.csv --dataset photos-2 --grace 0";
    let mut app = App::start(album.folder.path(), words, "Ann");
    let browser = Browser::open();
    browser.go(app.link("Ann"));
    let mut ann = Annotator::at(&browser);
    const SEEN: [&str; BATCH] = [
        "walrus", "heron", "beetle", "otter", "lynx", "salmon", "badger", "magpie", "tortoise",
        "yak",
    ];
    for animal in SEEN {
        ann.answer(&format!("A patient {animal} watches seven lanterns."));
    }
    let answers = album.path("picks.answers.jsonl");
    let said = app.until("the answers are handed over", |said| {
        said.lines().find_map(|line| line.strip_prefix("next        ")).map(str::to_owned)
    });
    assert_eq!(said, "nextpair add photos-2 picks.answers.jsonl --test 0.2 --out photos-3");
    assert_eq!(json_lines(&fs::read_to_string(answers).unwrap()).len(), BATCH);
    drop(app);
    // All of them are to be learned.
    let added = typed(album.folder.path(), &said.replace("--test 0.2 ", ""));
    assert!(
        added.stdout.starts_with("captions    10 added\npaired      10 more items\n"),
        "{}",
        added.stdout
    );
    album.succeeds(&format!("train photos-3 {train} --out model-2"));

    // Words that the first model has never seen; the second one has learned whose they are.
    assert_eq!(ann.said.len(), BATCH);
    let before = found(&album, "model", "photos-3", &ann.said);
    let after = found(&album, "model-2", "photos-3", &ann.said);
    assert!(before <= 2, "{before} of {BATCH} were found before anybody learned them");
    assert!(after >= BATCH - 1, "{after} of {BATCH} are found");
    // The next batch has none of them.
    album.succeeds(&format!(
        "{} --out picks-2.csv",
        select.replace("model photos-2", "model-2 photos-3")
    ));
    let next = fs::read_to_string(album.path("picks-2.csv")).unwrap();
    let picked = |item: &&String| next.lines().any(|line| line.split(',').nth(2) == Some(item));
    assert_eq!(ann.said.keys().filter(picked).count(), 0, "{next}");
}
