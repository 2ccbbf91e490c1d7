//! Tests of answers in every format, valid and invalid.

mod coco;

use std::sync::LazyLock;

use super::*;
use crate::damage;
use crate::dataset::sample::{dataset, item};

/// A dataset in which `a` has the image `x/a.jpg`, `b` none, and `c` and `d` share `twin.jpg`; the
/// id `e.jpg` is also `f`'s image. It is made once and stays mapped when its files are gone.
static DATASET: LazyLock<Dataset> = LazyLock::new(|| {
    let items = [
        item("a", Some("x/a.jpg"), &["A dog ."]),
        item("b", None, &["B", "C"]),
        item("c", Some("twin.jpg"), &[]),
        item("d", Some("twin.jpg"), &[]),
        item("e.jpg", Some("x/e.jpg"), &[]),
        item("f", Some("e.jpg"), &[]),
    ];
    dataset(tempfile::tempdir().unwrap().path(), &items, |_| {})
});

/// Reads the answers of a file of this name and content.
fn read(name: &str, content: impl AsRef<[u8]>, pool: Side) -> Result<Vec<Answer>, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, content).unwrap();
    read_answers(&path, pool, &DATASET).map_err(|e| e.to_string())
}

fn caption(id: &str, caption: &str, annotator: Option<&str>) -> Answer {
    let said = AnswerContent::Caption(caption.into());
    Answer { id: id.into(), said, annotator: annotator.map(Into::into), provenance: None }
}

fn image(id: &str, image: &str) -> Answer {
    Answer {
        id: id.into(),
        said: AnswerContent::Image(image.into()),
        annotator: None,
        provenance: None,
    }
}

fn skip(id: &str, reason: &str, annotator: Option<&str>) -> Answer {
    let said = AnswerContent::Skip(reason.into());
    Answer { id: id.into(), said, annotator: annotator.map(Into::into), provenance: None }
}

const LINES: &str = concat!(
    r#"{"id":"a","caption":" A dog – runs . ","annotator":"eve"}"#,
    "\n",
    r#"{"skip":"blurred","id":"b"}"#,
    "\n"
);

const WHOLE: &str = r#"[
  {"id": 7, "data": {"id": "a", "item": "a", "image": "x"}, "predictions": [], "annotations": [
    {"id": 1, "completed_by": 3, "was_cancelled": false, "result": [
      {"type": "textarea", "from_name": "caption", "value": {"text": ["A dog .", "It runs ."]}},
      {"type": "textarea", "from_name": "remark", "value": {"text": "who knows"}},
      {"type": "choices", "from_name": "good", "value": {"choices": ["yes"]}}]},
    {"id": 2, "completed_by": {"id": 4, "email": "e@example.org"}, "was_cancelled": true, "result": []},
    {"id": 3, "completed_by": null, "result": []}]},
  {"id": 8, "data": {"id": 12}, "annotations": [
    {"result": [{"type": "textarea", "from_name": "answer", "value": {"text": "A cat ."}}]}]},
  {"id": 9, "data": {"id": "none"}, "annotations": []}
]"#;

const FLAT: &str = r#"[
  {"id": 7, "item": "a", "image": "x", "caption": "A dog .", "annotator": 3, "annotation_id": 1},
  {"id": 8, "item": "b", "caption": {"text": ["A", "B"]}, "annotator": "eve", "annotation_id": 2},
  {"id": "c", "caption": ["C", {"text": ["D", "E"]}], "annotation_id": 3, "lead_time": 1.5},
  {"id": 9, "item": "d", "annotator": 3, "annotation_id": 4}
]"#;

#[test]
fn lines_are_read() {
    let expected = [caption("a", "A dog – runs .", Some("eve")), skip("b", "blurred", None)];
    for content in [LINES.to_owned(), LINES.replace('\n', "\r\n"), format!("\u{feff}{LINES}")] {
        assert_eq!(read("a.jsonl", content.trim_end(), Side::Image).unwrap(), expected);
        assert_eq!(read("A.JSONL", content, Side::Image).unwrap(), expected);
    }
    let of_text = r#"{"id":"t","image":"a.jpg"}"#;
    assert_eq!(read("a.jsonl", of_text, Side::Text).unwrap(), [image("t", "a.jpg")]);
    assert!(read("a.jsonl", "", Side::Image).unwrap().is_empty());
}

#[test]
fn wrong_lines_are_named() {
    let long = format!(r#"{{"id":"a","caption":"{}"}}"#, "x".repeat(1 << 17));
    for (line, expected) in [
        ("", ":2: the line is empty"),
        ("{", ":2: not an answer: EOF"),
        ("NaN", ":2: not an answer: expected"),
        (r#"{"id":"a","caption":NaN}"#, ":2: not an answer: expected value"),
        (r#"{"id":"a","caption":3}"#, ":2: not an answer: invalid type"),
        (r#"{"id":"a","caption":"x","score":3}"#, ":2: not an answer: unknown field `score`"),
        (r#"{"id":"a","caption":"x","skip":"y"}"#, ":2: not an answer: unknown field `skip`"),
        (r#"{"id":"a","caption":"x","caption":"y"}"#, ":2: not an answer: "),
        (r#"{"id":"a"}"#, ":2: not an answer: neither a caption, nor an image, nor a skip"),
        (r#"{"caption":"x"}"#, ":2: not an answer: missing field `id`"),
        (r#"{"id":"","caption":"x"}"#, ":2: the id is empty"),
        (r#"{"id":"a\u0000","caption":"x"}"#, ":2: the id \"a\\0\" has control characters"),
        (r#"{"id":"a","caption":" \t"}"#, ":2: the caption is empty"),
        (r#"{"id":"a","caption":"\ud800"}"#, ":2: not an answer: "),
        (r#"{"id":"a","image":"x"}"#, ":2: an image, but images are paired with a caption"),
        (r#"{"id":"a","caption":"x","annotator":" "}"#, ":2: the annotator is empty"),
        (&long, ":2: the caption has 131072 bytes"),
        (&"[".repeat(100_000), ":2: not an answer: "),
    ] {
        let what =
            read("a.jsonl", format!("{{\"id\":\"a\",\"skip\":\"\"}}\n{line}\n"), Side::Image);
        let what = what.unwrap_err();
        assert!(what.contains(expected) && what.len() < 400, "{what}");
    }
    let what = read("a.jsonl", LINES, Side::Text).unwrap_err();
    assert!(what.ends_with(":1: a caption, but texts are paired with an image"), "{what}");
    let what = read("a.jsonl", b"{\"id\":\"a\",\"skip\":\"\"}\n\xff\n", Side::Text).unwrap_err();
    assert!(what.ends_with(":2: not UTF-8"), "{what}");
    for name in ["a.txt", "a", "a.xlsx"] {
        assert!(read(name, LINES, Side::Image).unwrap_err().contains(".jsonl, .csv and .json"));
    }
    for name in ["none.csv", "none.json"] {
        assert!(read_answers(Path::new(name), Side::Image, &DATASET).is_err());
    }
}

#[test]
fn sheets_are_read() {
    let sheet = "id,score,Caption ,skip,annotator\n\
                 a,1,\" A dog,\n \"\"big\"\" \",,eve\n\
                 b,1,,,\n\
                 ,,,,\n\
                 '=c,1,-2 cats,FALSE,\n\
                 d,1,'@home',no,\n\
                 e,1,,too dark,\n";
    let expected = [
        caption("a", "A dog,\n \"big\"", Some("eve")),
        caption("=c", "-2 cats", None),
        caption("d", "'@home'", None),
        skip("e", "too dark", None),
    ];
    for content in [sheet.to_owned(), format!("\u{feff}{sheet}"), sheet.trim_end().to_owned()] {
        assert_eq!(read("a.csv", content, Side::Image).unwrap(), expected);
    }
    let carriages = sheet.replace(",\n \"\"", ",;;\n \"\"").replace('\n', "\r\n");
    let found = read("a.csv", carriages, Side::Image).unwrap();
    assert_eq!(found[0].said, AnswerContent::Caption("A dog,;;\r\n \"big\"".into()));
    assert_eq!(found[1..], expected[1..]);
    for separator in [";", "\t"] {
        let content = ["id,caption", "a,A dog .", "b,\"x,y;z\""].join("\n");
        let content = content.replace("id,", &format!("id{separator}"));
        let content = content.replace("a,A", &format!("a{separator}A"));
        let content = content.replace("b,", &format!("b{separator}"));
        let expected = [caption("a", "A dog .", None), caption("b", "x,y;z", None)];
        assert_eq!(read("a.csv", content, Side::Image).unwrap(), expected);
    }
    let of_text = "id,text,image,skip\nt,A dog .,'-1.jpg,\nu,A cat .,,none\n";
    let expected = [image("t", "-1.jpg"), skip("u", "none", None)];
    assert_eq!(read("a.csv", of_text, Side::Text).unwrap(), expected);
}

#[test]
fn wrong_rows_are_named() {
    let long = format!("id,caption\na,{}\n", "x".repeat(1 << 17));
    for (content, pool, expected) in [
        ("", Side::Image, "the file is empty"),
        ("\n\n", Side::Image, "no column id"),
        ("id,title\na,b\n", Side::Image, ":1: no column caption; there are id, title"),
        ("name,caption\na,b\n", Side::Image, ":1: no column id; there are name, caption"),
        ("id,caption,ID\na,b,c\n", Side::Image, ":1: two columns are called id"),
        ("id,image,caption\na,b,\n", Side::Text, ":1: a column caption, but texts"),
        ("id,caption,annotation_id,lead_time\n", Side::Image, ":1: an export of Label Studio"),
        ("id,caption\na,b\n\n,c\n", Side::Image, ":4: the id is empty"),
        ("id,caption\na,\"b\nc\"\nd,e,f\n", Side::Image, ":4: 3 columns, but the first line has 2"),
        ("id,caption\r\na,b\r\nc\r\n", Side::Image, ":3: 1 columns"),
        ("id,caption,skip\na,b,yes\n", Side::Image, ":2: both caption and skip are filled in"),
        ("id,caption,exported\na,b,image\n", Side::Image, "exported is \"image\", not caption or"),
        (
            "id,caption,exported\na,b,skip\n",
            Side::Image,
            ":2: exported is \"skip\", not caption or",
        ),
        ("id,caption\na\u{7},b\n", Side::Image, ":2: the id \"a\\u{7}\" has control"),
        (&long, Side::Image, ":2: the caption has 131072 bytes"),
    ] {
        let what = read("a.csv", content, pool).unwrap_err();
        assert!(what.contains(expected) && what.len() < 300, "{what}");
    }
    let what = read("a.csv", b"id,caption\na,b\nc,\xe9t\xe9\n", Side::Image).unwrap_err();
    assert!(what.ends_with(":3: not UTF-8"), "{what}");
    let what = read("a.csv", b"id,\xff\na,b\n", Side::Image).unwrap_err();
    assert!(what.ends_with(":1: not UTF-8"), "{what}");
}

#[test]
fn exports_of_label_studio_are_read() {
    let expected = [
        caption("a", "A dog .", Some("3")),
        caption("a", "It runs .", Some("3")),
        skip("a", "", Some("e@example.org")),
        caption("12", "A cat .", None),
    ];
    assert_eq!(read("a.json", WHOLE, Side::Image).unwrap(), expected);
    assert_eq!(read("a.json", format!("\u{feff}{WHOLE}"), Side::Image).unwrap(), expected);
    let expected = [
        caption("a", "A dog .", Some("3")),
        caption("b", "A", Some("eve")),
        caption("b", "B", Some("eve")),
        caption("c", "C", None),
        caption("c", "D", None),
        caption("c", "E", None),
    ];
    assert_eq!(read("a.json", FLAT, Side::Image).unwrap(), expected);
    let of_text = r#"[{"data": {"item": "t"}, "annotations": [{"result": [
        {"type": "textarea", "from_name": "image", "value": {"text": [" a.jpg"]}}]}]}]"#;
    assert_eq!(read("a.json", of_text, Side::Text).unwrap(), [image("t", "a.jpg")]);
    assert!(read("a.json", "[]", Side::Image).unwrap().is_empty());
}

#[test]
fn wrong_tasks_are_named() {
    let area = |text: &str| {
        format!(
            r#"{{"data":{{"id":"a"}},"annotations":[{{"result":[{{"type":"textarea","from_name":"caption","value":{{"text":{text}}}}}]}}]}}"#
        )
    };
    let two = r#"{"data":{"id":"a"},"annotations":[{"result":[
        {"type":"textarea","from_name":"x","value":{"text":"1"}},
        {"type":"textarea","from_name":"y","value":{"text":"2"}}]}]}"#;
    for (task, expected) in [
        ("3", "task 2: invalid type"),
        ("null", "task 2: invalid type"),
        (r#"{"data": {"id": "a"}, "predictions": []}"#, "task 2: no annotations"),
        (r#"{"data": {}, "annotations": []}"#, "task 2: its data have no item or id"),
        (r#"{"data": {"id": {"id": 1}}, "annotations": []}"#, "task 2: its data have no item"),
        (r#"{"data": {"id": "a"}, "annotations": {}}"#, "task 2: invalid type: map"),
        (r#"{"annotations": []}"#, "task 2: missing field `data`"),
        (r#"{"id": 3, "caption": "x", "annotation_id": 1}"#, "task 2: there is no item in it"),
        (&area("3"), "task 2: what was said must be a text, but is 3"),
        (&area("null"), "task 2: what was said must be a text, but is null"),
        (&area("[\"\"]"), "task 2: the caption is empty"),
        (&area(&format!("{}1", "[".repeat(10_000))), ":"),
        (two, "task 2: several text areas, none of which is called caption"),
    ] {
        let content = format!(r#"[{{"data": {{"id": "a"}}, "annotations": []}}, {task}]"#);
        let what = read("a.json", content, Side::Image).unwrap_err();
        assert!(what.contains(expected) && what.len() < 300, "{what}");
    }
    for (content, expected) in [
        ("{}", ":1: not this layout: missing field `images`"),
        ("3", ":1: not this layout: invalid type: integer"),
        ("", "the file is empty"),
        ("[NaN]", ":1: not this layout: expected value"),
        (r#"[{"item": "a", "answer": "x", "annotation_id": 1}]"#, "no task has a caption"),
    ] {
        let what = read("a.json", content, Side::Image).unwrap_err();
        assert!(what.contains(expected), "{what}");
    }
}

#[test]
fn a_refusal_has_a_reason_and_stands_alone() {
    let said = [
        skip("none", "", None),
        skip("dark", "too dark", Some("eve")),
        skip("dark", "", Some("ann")),
        skip("paired", "blurred", None),
        caption("paired", "A dog .", Some("eve")),
        caption("taken back", "A dog .", Some("eve")),
        skip("taken back", "too dark", Some("eve")),
    ];
    assert_eq!(refused(said.to_vec()), ["dark", "taken back"]);
}

#[test]
fn damage_comes_back() {
    let sheet = "id,caption,skip\n'=a,\"A dog,\n runs .\",\nb,,dark\n";
    let export = "id,caption,skip,annotator,exported\n'=a,\"'=A\",,,caption\nb,,dark,eve,skip\n";
    for (name, content) in [
        ("a.jsonl", LINES),
        ("a.csv", sheet),
        ("a.csv", export),
        ("a.json", WHOLE),
        ("a.json", FLAT),
        ("a.json", coco::FILE),
    ] {
        for pool in [Side::Image, Side::Text] {
            damage::mutate(content.as_bytes(), 200, |copy| {
                let read = read(name, copy, pool);
                assert!(read.iter().flatten().all(|answer| answer.check().is_ok()));
                read.is_ok()
            });
        }
    }
}
