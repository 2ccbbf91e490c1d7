//! Tests of COCO's captions layout, with the items of `read`'s dataset.

use super::{caption, image, read};
use crate::Side;
use crate::queue::Answer;

pub(super) const FILE: &str = r#"{"info": {}, "licenses": [], "images": [
    {"id": 3, "file_name": "x/a.jpg", "height": 1}, {"id": -1, "file_name": "a", "nextpair_id": "b"},
    {"id": 5, "file_name": "twin.jpg"}, {"id": 6, "file_name": "e.jpg"}, {"id": 7, "file_name": "z"},
    {"id": 8, "file_name": "a"}, {"id": 9, "file_name": "a", "nextpair_id": "z"}], "annotations": [
    {"id": 1, "image_id": 3, "caption": " A dog .", "annotator": 12},
    {"id": 2, "image_id": -1, "caption": "B"},
    {"id": 3, "image_id": 8, "caption": "A", "annotator": "eve", "nextpair_id": "b"}]}"#;

#[test]
fn captions_in_the_layout_of_coco_are_read() {
    let expected = [
        caption("a", "A dog .", Some("12")),
        caption("b", "B", None),
        caption("a", "A", Some("eve")),
    ];
    assert_eq!(read("a.json", FILE, Side::Image).unwrap(), expected);
    assert_eq!(read("a.json", format!("\u{feff} \n{FILE}"), Side::Image).unwrap(), expected);
    let of_text = FILE.replace(r#""id": 1, "#, r#""nextpair_id": "b", "#);
    let of_text = of_text.replace(r#""id": 2, "#, r#""nextpair_id": "a", "#);
    let eve = Answer { annotator: Some("eve".into()), ..image("b", "a") };
    let twelve = Answer { annotator: Some("12".into()), ..image("b", "a") };
    assert_eq!(read("a.json", of_text, Side::Text).unwrap(), [twelve, image("a", "b"), eve]);
    let none = r#"{"images": [], "annotations": []}"#;
    assert!(read("a.json", none, Side::Image).unwrap().is_empty());
}

#[test]
fn wrong_annotations_are_named() {
    for (annotation, expected) in [
        (r#"{"image_id": 3}"#, "annotation 4: missing field `caption`"),
        (r#"{"image_id": 3, "caption": " "}"#, "annotation 4: the caption is empty"),
        (
            r#"{"image_id": 3, "caption": "x", "annotator": []}"#,
            "annotation 4: the annotator is []",
        ),
        (r#"{"image_id": 4, "caption": "x"}"#, "annotation 4: there is no image 4"),
        (
            r#"{"image_id": 5, "caption": "x"}"#,
            "annotation 4: \"c\" and \"d\" are both \"twin.jpg\"",
        ),
        (r#"{"image_id": 6, "caption": "x"}"#, "annotation 4: \"e.jpg\" and \"f\" are both"),
        (r#"{"image_id": 7, "caption": "x"}"#, "annotation 4: no item has the image or id \"z\""),
        (r#"{"image_id": 9, "caption": "x"}"#, "annotation 4: there is no item \"z\""),
        ("3", "annotation 4: invalid type"),
    ] {
        let content = FILE.replace("}]}", &format!("}}, {annotation}]}}"));
        let what = read("a.json", content, Side::Image).unwrap_err();
        assert!(what.contains(expected) && what.len() < 300, "{what}");
    }
    for (image, expected) in [
        (r#"{"id": 8, "file_name": "y"}"#, "image 8: the id 8 is that of image 6 already"),
        (r#"{"id": "8", "file_name": "y"}"#, "image 8: invalid type: string"),
        (r#"{"id": 10}"#, "image 8: missing field `file_name`"),
    ] {
        let content =
            FILE.replace("}], \"annotations\"", &format!("}}, {image}], \"annotations\""));
        let what = read("a.json", content, Side::Image).unwrap_err();
        assert!(what.contains(expected), "{what}");
    }
    let what = read("a.json", FILE, Side::Text).unwrap_err();
    assert!(what.contains("annotation 1: it has no nextpair_id"), "{what}");
}
