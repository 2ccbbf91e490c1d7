//! Pipes and devices in place of files: the program neither blocks on a pipe nor reads an endless
//! device.
#![cfg(unix)]

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use crate::scenario::Lab;
use crate::world::Run;

/// No command here takes this long unless it hangs.
const LIMIT: Duration = Duration::from_secs(120);

const REFUSED: &str = "is a pipe, socket or device, expected an ordinary file";

const SELECT: &str = "--paired-images world/paired_images.npy --paired-texts world/paired_texts.npy \
                      --pool-side image --strategy hard-negative --budget 5 --out picks.jsonl";

const POOL: &str = "--pool-similarities world/pool.npy --pool-side image --strategy hard-negative --budget 5 --out picks.jsonl";
const PAIRS: &str = "--pair-similarities world/pool.npy --pool-side image --strategy hard-negative --budget 5 --out picks.jsonl";

/// Flags that read a file: the command line with `{}` for the name of the file, and its extension.
/// `SELECT` stands for the usual flags of a selection, `HERDING` for those of one that takes queries,
/// `POOL` and `PAIRS` for those of one on similarities.
const FILES: &[(&str, &str, &str)] = &[
    ("add answers", "add ds {} --out new", "jsonl"),
    ("add answers", "add ds {} --out new", "csv"),
    ("add answers", "add ds {} --out new", "json"),
    ("add features", "add ds p.jsonl --features {} --out new", "npy"),
    ("annotate target", "annotate {} --dataset ds --database sqlite:a.db --port 0", "csv"),
    ("annotate target", "annotate {} --dataset ds --database sqlite:a.db --port 0", "parquet"),
    ("annotate ids", "annotate chosen.jsonl --dataset ds --ids {} --port 0", "txt"),
    ("annotate target", "annotate {} --dataset ds --database sqlite:a.db --port 0", "jsonl"),
    ("annotate database", "annotate chosen.jsonl --dataset ds --database sqlite:{} --port 0", "db"),
    ("annotate guidelines", "annotate chosen.jsonl --dataset ds --guidelines {} --port 0", "md"),
    ("annotate suggestions", "annotate chosen.jsonl --dataset ds --suggestions {} --port 0", "csv"),
    (
        "annotate suggestions",
        "annotate chosen.jsonl --dataset ds --suggestions {} --port 0",
        "jsonl",
    ),
    ("annotate gold", "annotate chosen.jsonl --dataset ds --gold {} --port 0", "csv"),
    ("annotate gold", "annotate chosen.jsonl --dataset ds --gold {} --port 0", "jsonl"),
    ("annotate gold", "annotate chosen.jsonl --dataset ds --gold {} --port 0", "json"),
    ("convert checkpoint", "convert {} --vocabulary v.json --out new", "pth"),
    ("convert vocabulary", "convert p.jsonl --vocabulary {} --out new", "json"),
    ("embed image_model", "embed ds --image-model {} --preprocess clip", "onnx"),
    ("embed ids", "embed ds --text-vectors world/pool.npy --ids {} --name x", "txt"),
    ("embed image_vectors", "embed ds --image-vectors {} --name x", "npy"),
    ("embed text_vectors", "embed ds --text-vectors {} --name x", "npy"),
    ("embed preprocess", "embed ds --image-model image.onnx --preprocess {}", "toml"),
    ("embed text_model", "embed ds --text-model {} --tokenizer tokenizer.json", "onnx"),
    ("embed tokenizer", "embed ds --text-model text.onnx --tokenizer {}", "json"),
    ("import karpathy src", "import karpathy {} new", "json"),
    ("import karpathy bottom_up", "import karpathy k.json new --bottom-up {}", "tsv"),
    ("import coco bottom_up", "import coco c.json new --bottom-up {}", "tsv"),
    ("import flickr bottom_up", "import flickr flickr new --bottom-up {}", "tsv"),
    ("import scan karpathy", "import scan precomp new --karpathy {}", "json"),
    ("import coco src", "import coco {} new", "json"),
    ("import flickr src", "import flickr {} new", "token"),
    ("import table src", "import table {} new", "csv"),
    ("import webdataset src", "import webdataset {} new", "tar"),
    ("import webdataset src", "import webdataset {} new", "tgz"),
    ("import embeddings src", "import embeddings {} new", "npy"),
    ("import embeddings src", "import embeddings {} new", "parquet"),
    ("import embeddings src", "import embeddings {} new", "safetensors"),
    ("import embeddings other", "import embeddings world/pool.npy new --other {}", "npy"),
    ("import embeddings ids", "import embeddings world/pool.npy new --ids {}", "txt"),
    ("import embeddings captions", "import embeddings world/pool.npy new --captions {}", "txt"),
    ("ingest answers", "ingest asked {}", "jsonl"),
    ("ingest answers", "ingest asked {}", "csv"),
    ("ingest answers", "ingest asked {}", "json"),
    ("inspect vocab", "inspect ds --vocab {}", "json"),
    ("merge parts", "merge {} --out picks.jsonl", "safetensors"),
    ("rehearse config", "rehearse ds --config {} --budget 5 --out new", "toml"),
    ("rehearse paired", "rehearse ds --model vse++ --budget 5 --paired {} --out new", "txt"),
    ("run experiment", "run {} --out new", "toml"),
    ("run queries", "run e.toml --queries {} --out new", "txt"),
    ("run vocabulary", "run e.toml --vocabulary {} --out new", "json"),
    ("search image", "search model ds --image {}", "png"),
    ("select paired_images", "select SELECT --pool world/pool.npy --paired-images {}", "npy"),
    ("select paired_texts", "select SELECT --pool world/pool.npy --paired-texts {}", "npy"),
    ("select pool", "select SELECT --pool {}", "npy"),
    ("select pool", "select SELECT --pool {}", "parquet"),
    ("select pool", "select SELECT --pool {}", "safetensors"),
    (
        "select sample_indices",
        "select SELECT --pool world/pool.npy --scope mini --sample-indices {}",
        "txt",
    ),
    ("select rival_indices", "select SELECT --pool world/pool.npy --rival-indices {}", "txt"),
    ("select groups", "select SELECT --pool world/pool.npy --groups {}", "txt"),
    ("select ids", "select SELECT --pool world/pool.npy --ids {}", "txt"),
    ("select queries", "select HERDING --pool world/pool.npy --queries {}", "npy"),
    (
        "select costs",
        "select --paired-images world/paired_images.npy --pool world/pool.npy --spend 5 --costs {} --out picks.jsonl",
        "csv",
    ),
    ("select usable", "select SELECT --pool world/pool.npy --usable {}", "jsonl"),
    ("select pair_similarities", "select --pair-similarities {} POOL", "npy"),
    ("select pool_similarities", "select --pool-similarities {} PAIRS", "npy"),
    ("score pair_similarities", "score --pair-similarities {} POOL --shard 0/1", "npy"),
    ("score pool_similarities", "score --pool-similarities {} PAIRS --shard 0/1", "npy"),
    ("score usable", "score SELECT --pool world/pool.npy --usable {} --shard 0/1", "jsonl"),
    ("select paired_ids", "select SELECT --pool world/pool.npy --paired-ids {}", "txt"),
    (
        "score paired_images",
        "score SELECT --pool world/pool.npy --paired-images {} --shard 0/1",
        "npy",
    ),
    (
        "score paired_texts",
        "score SELECT --pool world/pool.npy --paired-texts {} --shard 0/1",
        "npy",
    ),
    ("score pool", "score SELECT --pool {} --shard 0/1", "npy"),
    (
        "score thresholds",
        "score SELECT --pool world/pool.npy --shard 0/1 --thresholds {}",
        "safetensors",
    ),
    (
        "score sample_indices",
        "score SELECT --pool world/pool.npy --scope mini --sample-indices {} --shard 0/1",
        "txt",
    ),
    (
        "score rival_indices",
        "score SELECT --pool world/pool.npy --rival-indices {} --shard 0/1",
        "txt",
    ),
    ("score groups", "score SELECT --pool world/pool.npy --groups {} --shard 0/1", "txt"),
    ("score ids", "score SELECT --pool world/pool.npy --ids {} --shard 0/1", "txt"),
    ("score paired_ids", "score SELECT --pool world/pool.npy --paired-ids {} --shard 0/1", "txt"),
    ("train config", "train ds --config {} --out new", "toml"),
    ("train vocabulary", "train ds --model vse++ --vocabulary {} --out new", "json"),
    ("train paired", "train ds --model vse++ --paired {} --out new", "txt"),
    ("verify dir", "verify {}", "json"),
    ("verify dir", "verify {}", "safetensors"),
    ("import parquet src", "import parquet {} new", "parquet"),
    ("select flag_file", "select --config {}", "toml"),
    ("score flag_file", "score --config {}", "toml"),
];

/// Flags that read a folder. The program refuses anything else, with any error.
const FOLDERS: &[(&str, &str)] = &[
    ("add dataset", "add {} p.jsonl --out new"),
    ("annotate dataset", "annotate chosen.jsonl --dataset {} --port 0"),
    ("add after", "add ds p.jsonl --after {} --out new"),
    ("annotate after", "annotate chosen.jsonl --dataset ds --after {} --port 0"),
    ("add images", "add ds p.jsonl --pool-side text --images {} --out new"),
    ("annotate images", "annotate chosen.jsonl --dataset ds --pool-side text --images {} --port 0"),
    ("embed dataset", "embed {} --text-model text.onnx --tokenizer tokenizer.json"),
    ("eval model", "eval {} ds"),
    ("eval dataset", "eval model {}"),
    ("eval against", "eval model ds --against {}"),
    ("import karpathy image_dir", "import karpathy p.jsonl new --image-dir {}"),
    ("import scan src", "import scan {} new"),
    ("import scan image_dir", "import scan precomp new --image-dir {}"),
    ("import coco image_dir", "import coco p.jsonl new --image-dir {}"),
    ("import flickr image_dir", "import flickr p.jsonl new --image-dir {}"),
    ("import table image_dir", "import table t.csv new --image-dir {}"),
    ("import folder src", "import folder {} new"),
    ("import parquet image_dir", "import parquet p.jsonl new --image-dir {}"),
    ("ingest experiment", "ingest {} p.jsonl"),
    ("ingest images", "ingest asked p.jsonl --images {}"),
    ("inspect dataset", "inspect {}"),
    ("rehearse dataset", "rehearse {} --model vse++ --budget 5 --out new"),
    ("report experiments", "report {}"),
    ("report dataset", "report experiment --dataset {}"),
    ("run dataset", "run e.toml --dataset {} --out new"),
    ("search model", "search {} ds dog"),
    ("search dataset", "search model {} dog"),
    ("select dataset", "select --model model {} --pool-side image --budget 1 --out picks.jsonl"),
    (
        "select html_dataset",
        "select --paired-images world/paired_images.npy --paired-texts world/paired_texts.npy --pool \
         world/pool.npy --pool-side image --budget 5 --out picks.jsonl --html p.html --html-dataset {}",
    ),
    ("select model", "select --model {} ds --pool-side image --budget 1 --out picks.jsonl"),
    (
        "score dataset",
        "score --model model {} --pool-side image --strategy random --budget 1 --out x --shard 0/1",
    ),
    (
        "score model",
        "score --model {} ds --pool-side image --strategy random --budget 1 --out x --shard 0/1",
    ),
    (
        "score costs",
        "score --paired-images world/paired_images.npy --pool world/pool.npy --strategy random --spend 5 --costs {} --out x --shard 0/1",
    ),
    ("train dataset", "train {} --model vse++ --out new"),
    ("train after", "train ds --model vse++ --after {} --out new"),
    ("train start", "train ds --model vse++ --start {} --out new"),
    ("vocab dataset", "vocab {} v2.json"),
    ("watch experiment", "watch {} --port 0"),
    ("watch dataset", "watch experiment --dataset {} --port 0"),
];

/// Flags that write. The code that writes refuses bad paths.
const OUTPUTS: &[&str] = &[
    "add out",
    "annotate uploads",
    "convert out",
    "example dir",
    "man folder",
    "inspect sheet",
    "merge out",
    "quickstart out",
    "rehearse out",
    "report out",
    "run out",
    "score out",
    "search html",
    "select html",
    "select out",
    "select tasks",
    "train out",
    "vocab out",
];

/// No strategy that takes queries can be split, which `score` says before it reads them.
const UNREAD: &[&str] = &["score queries"];

/// Flags that name a file only in some forms.
const TEXTS: &[&str] = &["annotate database", "embed preprocess"];

/// Returns a lab with valid datasets, models, embeddings and encoders for the other flags.
fn world() -> Lab {
    let lab = Lab::new(60);
    lab.succeeds("example world");
    lab.succeeds("vocab ds v.json");
    lab.succeeds(
        "train ds --model vse++ --dim 8 --epochs 1 --validate-last 0 --share 0.5 --out model",
    );
    lab.succeeds("select --model model ds --pool-side image --budget 2 --out chosen.jsonl");
    lab.succeeds("run e.toml --strategies random --rounds 1 --out experiment");
    lab.write("t.csv", "filepath,title\n,a dog\n,a cat\n");
    lab.write("p.jsonl", "");
    let image = r#"{"filename":"a.jpg","split":"train","sentences":[{"raw":"A dog."}]}"#;
    lab.write("k.json", &format!(r#"{{"images":[{image}]}}"#));
    let (image, caption) =
        (r#"{"id":1,"file_name":"a.jpg"}"#, r#"{"image_id":1,"id":1,"caption":"A dog."}"#);
    lab.write("c.json", &format!(r#"{{"images":[{image}],"annotations":[{caption}]}}"#));
    fs::create_dir(lab.path("flickr")).unwrap();
    lab.write("flickr/Flickr8k.token.txt", "a.jpg#0\tA dog.\n");
    lab.write("flickr/Flickr_8k.trainImages.txt", "a.jpg\n");
    lab.write("x.trainImages.txt", "1.jpg\n");
    let precomp = lab.path("precomp");
    fs::create_dir(&precomp).unwrap();
    fs::copy(lab.path("world/pool.npy"), precomp.join("train_ims.npy")).unwrap();
    let fixtures = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../encode/tests/fixtures");
    for name in ["image.onnx", "text.onnx", "tokenizer.json"] {
        fs::copy(fixtures.join(name), lab.path(name)).unwrap();
    }
    lab
}

fn make_pipe(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

/// Runs the program, and kills it after the time limit.
fn ends(lab: &Lab, words: &str) -> Run {
    let child = Command::new(env!("CARGO_BIN_EXE_nextpair"))
        .args(words.split_whitespace())
        .current_dir(lab.path(""))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let id = child.id().to_string();
    let (ended, waits) = mpsc::channel::<()>();
    let guard = thread::spawn(move || {
        let late = waits.recv_timeout(LIMIT) == Err(RecvTimeoutError::Timeout);
        if late {
            Command::new("kill").args(["-9", &id]).status().unwrap();
        }
        late
    });
    let output = child.wait_with_output().unwrap();
    drop(ended);
    assert!(!guard.join().unwrap(), "{words}: does not end");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Run { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

/// Asserts that a command fails without a panic. With `may_go_on` it may also succeed without the
/// file.
fn tried(lab: &Lab, words: &str, may_go_on: bool) -> String {
    let Run { code, stdout, stderr } = ends(lab, words);
    let said = stdout + &stderr;
    // `verify` exits with 1 if a case fails.
    let expected = matches!(code, Some(1 | 2)) || may_go_on && code == Some(0);
    assert!(expected && !said.contains("panicked"), "{words}: {code:?} {said}");
    let _ = fs::remove_dir_all(lab.path("new"));
    said
}

/// Collects names such as `select pool` for every argument that takes a path.
fn paths_of(command: &clap::Command, name: &str, paths: &mut BTreeSet<String>) {
    let path = clap::builder::ValueParser::path_buf().type_id();
    for argument in command.get_arguments() {
        let is_path = argument.get_value_parser().type_id() == path;
        let key = format!("{name}{}", argument.get_id());
        if is_path || TEXTS.contains(&key.as_str()) {
            paths.insert(key);
        }
    }
    for inner in command.get_subcommands() {
        paths_of(inner, &format!("{name}{} ", inner.get_name()), paths);
    }
}

#[test]
fn no_flag_waits_for_a_pipe_or_reads_a_device() {
    let mut paths = BTreeSet::new();
    paths_of(&nextpair::program::command(), "", &mut paths);
    let keys = FILES.iter().map(|(key, ..)| *key).chain(FOLDERS.iter().map(|(key, _)| *key));
    let imports = paths.iter().filter(|path| path.starts_with("import ") && path.ends_with(" out"));
    let known: BTreeSet<String> = keys
        .chain(OUTPUTS.iter().chain(UNREAD).copied())
        .map(str::to_owned)
        .chain(imports.cloned())
        .collect();
    assert_eq!(paths, known, "a flag that takes a path is tried here, or is known to write there");

    let lab = world();
    for ending in FILES.iter().map(|(_, _, ending)| *ending).chain(["x"]).collect::<BTreeSet<_>>() {
        make_pipe(&lab.path(&format!("pipe.{ending}")));
        symlink("/dev/zero", lab.path(&format!("zero.{ending}"))).unwrap();
    }
    // The annotation app needs an experiment that waits for people.
    lab.write(
        "asked.toml",
        &format!("annotator = \"human\"\ninitial = 0.3\nbudget = 4\n{}", human()),
    );
    lab.succeeds("run asked.toml --dataset ds --out asked");
    for kind in ["pipe", "zero"] {
        for (_, words, ending) in FILES {
            let words = words.replace("HERDING", &SELECT.replace("hard-negative", "herding"));
            let words = words.replace("SELECT", SELECT);
            let words = words.replace("POOL", POOL).replace("PAIRS", PAIRS);
            // Replace the usual flag by the one under test.
            let words = match words.split_once("--paired-images {}") {
                Some(_) => words.replacen("--paired-images world/paired_images.npy ", "", 1),
                None => words,
            };
            let words = match words.split_once("--paired-texts {}") {
                Some(_) => words.replacen("--paired-texts world/paired_texts.npy ", "", 1),
                None => words,
            };
            let words = words.replace("{}", &format!("{kind}.{ending}"));
            let said = tried(&lab, &words, false);
            assert!(said.contains(REFUSED), "{words}: {said}");
        }
        for (_, words) in FOLDERS {
            // A report needs no images of the dataset.
            let words = words.replace("{}", &format!("{kind}.x"));
            tried(&lab, &words, words.starts_with("report"));
        }
    }
}

/// Returns the rest of an experiment file with human annotators.
fn human() -> &'static str {
    "rounds = 1\nstrategies = [\"random\"]\n\n[model]\narchitecture = \"vse\"\ndim = 8\nword_dim = 8\n\n\
     [training]\nepochs = 1\nbatch = 8\nvalidate_last = 0\n"
}

/// Replaces every file of a dataset, a model and an experiment by a pipe, one at a time. The
/// program refuses the pipe or does not need the file.
#[test]
fn no_file_of_a_folder_is_waited_for() {
    let lab = world();
    let commands: &[(&str, &[&str])] = &[
        ("ds", &["inspect ds --vocab v.json", "vocab ds v2.json", "eval model ds"]),
        (
            "model",
            &[
                "eval model ds",
                "train ds --out model --resume",
                "select --model model ds --pool-side image --budget 2 --out picks.jsonl",
            ],
        ),
        ("experiment", &["report experiment --out page", "run experiment --resume --rounds 2"]),
    ];
    let mut refused = 0;
    for (folder, commands) in commands {
        lab.copy(folder, &format!("good-{folder}"));
        for file in super::scenario::files_below(&lab.path(&format!("good-{folder}"))) {
            let name = file.strip_prefix(lab.path(&format!("good-{folder}"))).unwrap();
            if name.extension().is_some_and(|ending| ending == "png" || ending == "svg") {
                // One per item; picture::read refuses pipes for all of them.
                continue;
            }
            for words in *commands {
                let path = lab.path(folder).join(name);
                let _ = fs::remove_file(&path);
                make_pipe(&path);
                let said = tried(&lab, words, true);
                refused += usize::from(said.contains(REFUSED));
                fs::remove_dir_all(lab.path(folder)).unwrap();
                lab.copy(&format!("good-{folder}"), folder);
            }
        }
    }
    assert!(refused >= 20, "{refused}");
}
