//! Reads the fixtures of `tests/fixtures/make_pth.py`, intact and edited.

mod hostile;

use std::path::PathBuf;

use nextpair_data::text::Vocabulary;
use nextpair_kernels::Device;

use super::*;
use crate::{ModelFolder, tensor_file};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

fn bytes(name: &str) -> Vec<u8> {
    std::fs::read(fixture(name)).unwrap()
}

fn parse(bytes: &[u8]) -> Result<Checkpoint, Error> {
    from_bytes(Path::new("x.pth.tar"), bytes)
}

/// Replaces every occurrence of `from`; there must be one.
fn edit(bytes: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    assert_eq!(from.len(), to.len());
    let mut edited = bytes.to_vec();
    let places: Vec<_> =
        (0..=bytes.len() - from.len()).filter(|&place| bytes[place..].starts_with(from)).collect();
    assert!(!places.is_empty(), "nothing to edit");
    for place in places {
        edited[place..][..to.len()].copy_from_slice(to);
    }
    edited
}

const FILES: [(&str, &str); 7] = [
    ("imram", "zip"),
    ("imram", "legacy"),
    ("scan", "zip"),
    ("scan", "legacy"),
    ("scan", "python2"),
    ("vse", "zip"),
    ("vse", "legacy"),
];

/// The tensors of a file that has no digest.
fn written_by_python(name: &str) -> BTreeMap<String, tensor_file::Stored> {
    let path = fixture(name);
    tensor_file::parse(&path, &std::fs::read(&path).unwrap()).unwrap()
}

#[test]
fn both_formats_give_the_parameters() {
    for (model, format) in FILES {
        let checkpoint = read(&fixture(&format!("{model}.{format}.pth.tar"))).unwrap();
        let expected = written_by_python(&format!("{model}.safetensors"));
        assert_eq!(checkpoint.parameters.len(), expected.len());
        for (name, tensor) in &checkpoint.parameters {
            let expected = &expected[name];
            assert_eq!(tensor.shape(), expected.shape, "{model}.{format} {name}");
            assert_eq!(Some(tensor.to_f32s().unwrap()), expected.values, "{model}.{format} {name}");
        }
        assert_eq!(checkpoint.epoch, Some(7));
        assert_eq!(checkpoint.best_rsum, Some(412.5));
        let settings = &checkpoint.settings;
        assert_eq!(settings["embed_size"], 2);
        assert_eq!(settings["learning_rate"], 0.0002);
        assert_eq!(settings["resume"], "");
        match model {
            "imram" => {
                assert_eq!(settings["no_IMRAM_norm"], true);
                assert_eq!(settings["iteration_step"], 3);
                assert_eq!(settings["raw_feature_norm"], "clipped_l2norm");
            }
            "scan" => assert_eq!(settings["agg_func"], "LogSumExp"),
            _ => assert_eq!(settings["use_abs"], false),
        }
    }
}

#[test]
fn checkpoints_of_cited_models_become_models() {
    for (name, called) in [
        ("vse_infinity", "vse-infinity"),
        ("vsrn", "vsrn"),
        ("pvse", "pvse"),
        ("sgr", "sgr"),
        ("saf", "saf"),
        ("naaf", "naaf"),
        ("naaf_glove", "naaf"),
        ("camp", "camp"),
        ("camp_cross", "camp-cross"),
    ] {
        for format in ["zip", "legacy"] {
            let path = fixture(&format!("{name}.{format}.pth.tar"));
            let checkpoint = read(&path).unwrap();
            assert_eq!((checkpoint.epoch, checkpoint.best_rsum), (Some(7), Some(412.5)));
            let expected = written_by_python(&format!("{name}.safetensors"));
            let (config, model) = checkpoint.model(&path, Device::Cpu).unwrap();
            assert_eq!(config.name(), called);
            let found: Vec<(&str, &Tensor)> = model.weights().iter().collect();
            assert_eq!(found.len(), expected.len(), "{name}.{format}");
            for (weight, tensor) in found {
                assert_eq!(tensor.shape(), expected[weight].shape, "{name}.{format} {weight}");
                let values = Some(tensor.to_f32s().unwrap());
                assert_eq!(values, expected[weight].values, "{name}.{format} {weight}");
            }
            match config {
                // The last row of the table is no word of the vocabulary.
                Config::VseInfinity(vse) => {
                    assert!(vse.mask_word && model.inputs().text == 3);
                    assert_eq!((vse.rank_code, vse.rank_dim), (2, 3));
                }
                Config::Vsrn(vsrn) => assert!(vsrn.batch_norm && !vsrn.unit_regions),
                Config::Pvse(pvse) => assert!(pvse.legacy && pvse.heads == 2),
                Config::Sgraf(sgraf) => {
                    assert_eq!((sgraf.similarity_dim, sgraf.regions), (3, 5));
                    assert!(sgraf.steps == if name == "sgr" { 2 } else { 1 });
                }
                Config::Naaf(naaf) => assert_eq!(naaf.temperature, 20.0),
                Config::Camp(camp) => assert_eq!(camp.heads, 4),
                other => panic!("{other:?}"),
            }
        }
    }
}

#[test]
fn a_cited_checkpoint_with_other_names_is_refused_by_name() {
    let whole = bytes("vsrn.legacy.pth.tar");
    let what = parse(&edit(&whole, b"img_rnn", b"img_run")).unwrap_err().to_string();
    assert!(what.contains("img_run.weight_ih_l0 is unknown"), "{what}");
}

#[test]
fn every_truncation_is_an_error() {
    for (model, format) in FILES {
        let whole = bytes(&format!("{model}.{format}.pth.tar"));
        for length in 0..whole.len() {
            let what = parse(&whole[..length]).unwrap_err().to_string();
            assert!(what.starts_with("x.pth.tar: "), "{what}");
        }
    }
}

#[test]
fn no_damage_makes_it_panic() {
    for (model, format) in FILES {
        let mut damaged = bytes(&format!("{model}.{format}.pth.tar"));
        for place in 0..damaged.len() {
            let before = damaged[place];
            for after in [before ^ 1, 0xff, b'('] {
                damaged[place] = after;
                let _ = parse(&damaged);
            }
            damaged[place] = before;
        }
    }
}

#[test]
fn damaged_weights_of_an_archive_are_found() {
    let whole = bytes("scan.zip.pth.tar");
    let number = bytes("scan.safetensors");
    let number = &number[number.len() - 4..];
    let what = parse(&edit(&whole, number, &[9; 4])).unwrap_err().to_string();
    assert!(what.contains("in the archive: Invalid checksum"), "{what}");
}

#[test]
fn checkpoints_become_runs() {
    let folder = tempfile::tempdir().unwrap();
    for (at, name) in ["imram.zip", "imram.legacy", "scan.python2", "scan.zip", "vse.legacy"]
        .into_iter()
        .enumerate()
    {
        let path = Path::new("x.pth.tar");
        let checkpoint = parse(&bytes(&format!("{name}.pth.tar"))).unwrap();
        let (config, model) = checkpoint.model(path, Device::Cpu).unwrap();
        let words = model.inputs().text;
        let captions: Vec<String> = (0..words - 4).map(|i| format!("word{i}")).collect();
        let vocabulary = Vocabulary::build(&captions, 1);
        let run = folder.path().join(at.to_string());
        ModelFolder::adopt(&run, path, config.clone(), &model, vocabulary, 7).unwrap();
        let opened = ModelFolder::open(&run).unwrap();
        assert!(opened.spec().adopted && opened.spec().model == config);
        let again = opened.model(Device::Cpu).unwrap();
        for ((name, one), (_, other)) in model.weights().iter().zip(again.weights().iter()) {
            assert_eq!(one.to_f32s().unwrap(), other.to_f32s().unwrap(), "{name}");
        }
        let larger = Vocabulary::build(["one more", "two more"], 1);
        let other = folder.path().join("x");
        let error = ModelFolder::adopt(&other, path, config, &model, larger, 7).err().unwrap();
        assert!(error.to_string().contains("words in the vocabulary, but"), "{error}");
    }
    // A SCAN that reads in one direction has the same tensors as VSE++.
    let mut checkpoint = parse(&bytes("vse.zip.pth.tar")).unwrap();
    checkpoint.settings.insert("cross_attn".to_owned(), "t2i".into());
    let error = checkpoint.model(Path::new("x"), Device::Cpu).err().unwrap().to_string();
    assert!(error.contains("in one direction"), "{error}");
}

#[test]
fn other_parameters_are_listed() {
    let whole = bytes("imram.legacy.pth.tar");
    let error = parse(&edit(&whole, b"linear_t2i.weight", b"linear_t2i.height")).unwrap_err();
    let Error::Weights { listing, .. } = error else { panic!("{error}") };
    let expected = ["  mem_t2i.linear.weight is missing", "  module.linear_t2i.height is unknown"];
    assert_eq!(listing, expected);
    let whole = bytes("vse.legacy.pth.tar");
    let what = parse(&edit(&whole, b"embed.weight", b"stone.weight")).unwrap_err().to_string();
    assert!(what.contains("embed.weight is missing\n  stone.weight is unknown"), "{what}");
    let what = parse(&edit(&whole, b"model", b"nodel")).unwrap_err().to_string();
    assert_eq!(what, "x.pth.tar: has no entry 'model'");
}

#[test]
fn other_files_are_refused() {
    for (content, expected) in [
        (&b""[..], "is not a checkpoint of PyTorch"),
        (b"hello", "is not a checkpoint of PyTorch"),
        (b"PK\x03\x04", "invalid Zip archive"),
    ] {
        let what = parse(content).unwrap_err().to_string();
        assert!(what.contains(expected), "{what}");
    }
    let folder = read(Path::new(env!("CARGO_MANIFEST_DIR"))).unwrap_err().to_string();
    assert!(folder.ends_with("is a folder, expected a file"), "{folder}");
    let zip = bytes("vse.zip.pth.tar");
    let what = parse(&edit(&zip, b"data.pkl", b"date.pkl")).unwrap_err().to_string();
    assert!(what.contains("without data.pkl"), "{what}");
    let what = parse(&edit(&zip, b"little", b"biggie")).unwrap_err().to_string();
    assert!(what.contains("byteorder"), "{what}");
}
