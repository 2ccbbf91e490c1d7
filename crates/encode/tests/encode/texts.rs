use nextpair_encode::{Error, TextEncoder, TextPooling, Worker};

use super::{assert_close, expected, fixture, numbers};

fn open(
    model: &str,
    pooling: TextPooling,
    l2: bool,
    output: Option<&str>,
) -> Result<TextEncoder, Error> {
    TextEncoder::open(&fixture(model), &fixture("tokenizer.json"), pooling, l2, output)
}

#[test]
fn vectors_are_those_of_numpy() {
    let worker = Worker::new();
    // A graph of a fixed length is padded, and gives the same.
    for model in ["text.onnx", "text-of-8.onnx"] {
        for (pooling, l2, output, used, name) in [
            (TextPooling::Mean, true, None, "last_hidden_state", "mean"),
            (TextPooling::Cls, false, None, "last_hidden_state", "cls"),
            (TextPooling::Mean, false, Some("sum"), "sum", "sum"),
        ] {
            let encoder = open(model, pooling, l2, output).unwrap();
            assert_eq!((encoder.output(), encoder.dim()), (used, 4));
            for case in expected()["texts"].as_array().unwrap() {
                let text = case["text"].as_str().unwrap();
                let tokens = numbers(&case["tokens"]);
                let found = encoder.tokens(text).unwrap();
                assert_eq!(found.iter().map(|&t| t as f32).collect::<Vec<_>>(), tokens);
                let row = encoder.encode(&worker, text).unwrap();
                assert_close(&row, &numbers(&case[name]), 1e-6);
            }
        }
    }
}

#[test]
fn an_empty_text_without_tokens_is_zeros() {
    let text = std::fs::read_to_string(fixture("tokenizer.json")).unwrap();
    let mut tokenizer: serde_json::Value = serde_json::from_str(&text).unwrap();
    tokenizer["post_processor"] = serde_json::Value::Null;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tokenizer.json");
    std::fs::write(&path, tokenizer.to_string()).unwrap();
    let encoder =
        TextEncoder::open(&fixture("text.onnx"), &path, TextPooling::Mean, true, None).unwrap();
    assert_eq!(encoder.encode(&Worker::new(), "").unwrap(), [0.0; 4]);
    assert_eq!(encoder.encode(&Worker::new(), " \n").unwrap(), [0.0; 4]);
}

#[test]
fn what_does_not_fit_is_explained() {
    let folder = tempfile::tempdir().unwrap();
    let damaged = folder.path().join("tokenizer.json");
    std::fs::write(&damaged, "{\"version\": \"1.0\"").unwrap();
    let with_tokenizer = |path: &std::path::Path| {
        TextEncoder::open(&fixture("text.onnx"), path, TextPooling::Mean, true, None)
    };
    for (result, expected) in [
        (
            open("text.onnx", TextPooling::Mean, true, Some("pooler")),
            "no output 'pooler'; there are sum, last_hidden_state",
        ),
        (
            open("image.onnx", TextPooling::Mean, true, None),
            "input 'pixels' is unknown; known are input_ids",
        ),
        (with_tokenizer(&damaged), "not a tokeniser"),
        (with_tokenizer(&folder.path().join("none.json")), "none.json: No such file"),
    ] {
        let what = result.unwrap_err().to_string();
        assert!(what.contains(expected), "{what}");
    }
}
