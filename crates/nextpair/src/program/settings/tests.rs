//! Flags and files that become settings.

use clap::Parser;

use super::*;

#[derive(Parser)]
struct Typed {
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    training: TrainingArgs,
}

fn resolved(words: &str) -> Result<(Config, Training), String> {
    let words = std::iter::once("train").chain(words.split_whitespace());
    let typed = Typed::try_parse_from(words).map_err(|e| e.to_string())?;
    let file = SettingsFile::default();
    resolve(file, &typed.model, &typed.training, "--config").map_err(|e| format!("{e:#}"))
}

#[test]
fn flags_change_published_settings() {
    let (config, training) = resolved("--model text-imram --dim 8 --steps 2").unwrap();
    let Config::Imram(imram) = config else { panic!("{config:?}") };
    assert_eq!((imram.encoders.dim, imram.steps, imram.encoders.word_dim), (8, 2, 300));
    assert_eq!(training, Training::default());
    let words = "--model scan-i2t --aggregation log-sum-exp=2.5 --normaliser softmax \
                 --temperature 3 --weight-norm --word-dim 7 --captions first --rate 1e-3";
    let (config, training) = resolved(words).unwrap();
    let value = serde_json::to_value(config).unwrap();
    assert_eq!(value["aggregation"], serde_json::json!({ "log-sum-exp": 2.5 }));
    assert_eq!((&value["normaliser"], &value["temperature"]), (&"softmax".into(), &3.0.into()));
    assert_eq!(value["encoders"]["weight_norm"], true);
    assert_eq!(training.rate, 1e-3);
    let (config, _) = resolved("--model full-imram --normalise-memory").unwrap();
    assert_eq!(serde_json::to_value(config).unwrap()["normalise_memory"], true);
}

#[test]
fn flags_change_the_training() {
    let words = "--model heads --loss info-nce --loss-temperature 0.1 --learn-temperature \
                 --dropout-inputs 0.2 --dropout-states 0.1 --average-last 5";
    let (_, training) = resolved(words).unwrap();
    let expected = Training {
        loss: Criterion::InfoNce,
        loss_temperature: 0.1,
        learn_temperature: true,
        dropout_inputs: 0.2,
        dropout_states: 0.1,
        average_last: 5,
        ..Config::named("heads").unwrap().architecture().training()
    };
    assert_eq!(training, expected);
    let (config, _) = resolved("--model vse++ --pooling mean").unwrap();
    assert_eq!(serde_json::to_value(config).unwrap()["pooling"], "mean");
}

#[test]
fn another_loss_has_no_temperature_of_the_one_before() {
    let (_, training) = resolved("--model heads").unwrap();
    assert_eq!((training.loss, training.loss_temperature), (Criterion::InfoNce, 0.05));
    let (_, hinges) = resolved("--model heads --loss hinge").unwrap();
    assert_eq!((hinges.loss, hinges.loss_temperature), (Criterion::Hinge, 0.07));
    assert_eq!(resolved("--model heads --loss info-nce").unwrap().1, training);
    let what = resolved("--model heads --loss hinge --loss-temperature 0.05").unwrap_err();
    assert!(what.contains("the hinge loss has no temperature"), "{what}");
}

#[test]
fn files_say_all_that_flags_say() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.toml");
    let text = "[model]\narchitecture = \"vse\"\npooling = \"mean\"\n\
                [training]\nloss = \"info-nce\"\nloss_temperature = 0.1\nlearn_temperature = true\n\
                dropout_inputs = 0.2\ndropout_states = 0.1\naverage_last = 5\n";
    std::fs::write(&path, text).unwrap();
    let file = SettingsFile::read(&path).unwrap();
    let typed = Typed::try_parse_from(["train"]).unwrap();
    let read = resolve(file, &typed.model, &typed.training, "--config").unwrap();
    let words = "--model vse++ --pooling mean --loss info-nce --loss-temperature 0.1 \
                 --learn-temperature --dropout-inputs 0.2 --dropout-states 0.1 --average-last 5";
    assert_eq!(read, resolved(words).unwrap());
}

#[test]
fn what_is_not_said_was_published_with_the_model() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.toml");
    std::fs::write(&path, "[training]\nepochs = 3\noptimiser = \"adam\"\nweight_decay = 0.0\n")
        .unwrap();
    let file = SettingsFile::read(&path).unwrap();
    let typed = Typed::try_parse_from(["train", "--model", "vse-infinity"]).unwrap();
    let (_, training) = resolve(file, &typed.model, &typed.training, "--config").unwrap();
    assert_eq!((training.epochs, training.batch, training.sum_epochs), (3, 128, 1));
    assert_eq!(training.optimiser, OptimiserName::Adam);
    let (_, training) = resolved("--model pvse --rate-factor gru.=0.1 --optimiser sgd").unwrap();
    assert_eq!((training.margin, training.reduction), (0.1, Reduction::Mean));
    assert_eq!(training.rate_factors["gru."], 0.1);
}

#[test]
fn presets_are_those_of_a_dataset() {
    let (config, training) = resolved("--model vsrn --preset flickr30k --dim 8").unwrap();
    let value = serde_json::to_value(config).unwrap();
    assert_eq!((&value["batch_norm"], &value["dim"]), (&true.into(), &8.into()));
    assert_eq!(training.decay_every, 10);
    let (_, training) = resolved("--model vsrn --preset coco --epochs 2").unwrap();
    assert_eq!((training.decay_every, training.epochs), (15, 2));
}

#[test]
fn vse0_takes_the_sum_unless_it_is_told_otherwise() {
    assert_eq!(resolved("--model vse0").unwrap().1.violation, Violation::Sum);
    assert_eq!(resolved("--model vse++").unwrap().1.violation, Violation::Max);
    assert_eq!(resolved("--model vse0 --violation max").unwrap().1.violation, Violation::Max);
}

#[test]
fn what_cannot_be_meant_is_refused() {
    for (words, says) in [
        ("", "give --model, or --config"),
        ("--model bert", "text-imram, image-imram"),
        ("--model vse++ --steps 3", "--steps is not a setting of vse++"),
        ("--model heads --word-dim 3", "--word-dim is not a setting of heads"),
        ("--model vse++ --hidden 3", "--hidden is not a setting of vse++"),
        ("--model text-imram --aggregation max", "--aggregation is not a setting of text-imram"),
        ("--model scan-t2i --aggregation median", "there are mean, sum, max and log-sum-exp=SCALE"),
        ("--model scan-t2i --aggregation max=3", "there are mean, sum, max"),
        ("--model scan-t2i --aggregation log-sum-exp=x", "invalid float"),
        ("--model scan-t2i --normaliser l3norm", "possible values: clipped_l2norm"),
        ("--model scan-t2i --temperature 0", "temperature: 0 is not above 0"),
        ("--model vse++ --captions last", "possible values: all, random, first"),
        ("--model vse++ --rate nan", "not a finite number"),
        ("--model vse++ --rate=-1", "rate: -1 is not above 0"),
        ("--model vse++ --batch 1", "batch: is 1"),
        ("--model vse++ --epochs 0", "epochs: is 0"),
        ("--model vse++ --dim 0", "dim: is 0"),
        ("--model heads --pooling mean", "--pooling is not a setting of heads"),
        ("--model vse++ --pooling max", "possible values: last, mean"),
        ("--model vse++ --epochs 3 --average-last 4", "average-last: 4 is more than the 3 epochs"),
        ("--model vse++ --loss triplet", "possible values: hinge, info-nce"),
        ("--model vse++ --loss-temperature 0.1", "the hinge loss has no temperature"),
        ("--model vse++ --learn-temperature", "learn-temperature: the hinge loss has no"),
        (
            "--model vse++ --loss info-nce --loss-temperature 2",
            "loss-temperature: 2 is not from 0.01 to 1",
        ),
        ("--model vse++ --weight-decay 0.1", "weight-decay: the optimiser has none"),
        ("--model vse++ --decay-factor 0", "decay-factor: 0 is not above 0"),
        ("--model vse++ --rate-factor gru", "not the beginning of names"),
        ("--model vse++ --heads 2", "--heads is not a setting of vse++"),
        ("--model vse-infinity --caption-loss", "--caption-loss is not a setting of vse-inf"),
        ("--preset coco", "--preset needs --model"),
        ("--model heads --preset coco", "nothing was published for heads on coco"),
        ("--model heads --preset mars", "possible values: flickr30k, coco"),
        ("--model vse++ --dropout-inputs 1", "dropout-inputs: 1 is not from 0 to below 1"),
        ("--model vse++ --dropout-states=-0.1", "dropout-states: -0.1 is not from 0"),
    ] {
        let what = resolved(words).unwrap_err();
        assert!(what.contains(says), "{words}: no '{says}' in {what}");
    }
}
